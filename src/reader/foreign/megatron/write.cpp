// A job as a shell script that calls Megatron-LM's pretrain_gpt.py (megatron/training/arguments.py
// at megatron-core 0.16.1).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memest/spec/recompute/layer_parts.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/target.hpp"
#include "reader/foreign/megatron/arguments.hpp"

namespace memest::megatron {
namespace {

constexpr std::string_view kName = "megatron";
constexpr std::string_view kProgram = "Megatron-LM 0.16.1";

constexpr ExportRow kStep[] = {
    written("training.seq_len"),
    written("training.micro_batch"),
    written("training.gradient_accumulation"),
    held("training.precision",
         "megatron|megatron-bf16-grad|fp32|fp8|fp8-current|fp8-blockwise|mxfp8|nvfp4"),
    held("training.optimizer.name", "adamw"),
    // Transformer Engine's AdamW is fused, PyTorch's is foreach: which of them, its layers decide.
    beside("training.optimizer.implementation"),
    held("training.optimizer.in_backward", "false"),
    held("training.optimizer.exp_avg", "none|fp32|bf16|fp16"),
    held("training.optimizer.exp_avg_sq", "none|fp32|bf16|fp16"),
    // Megatron-LM 0.16.1 has no flag for store_param_remainders, which is on.
    held("training.optimizer.main_params", "none|remainders|fp16"),
    written("training.recompute"),
    written("training.offload_activations"),
    written("training.clip_gradients"),
    held("training.zero_grad", "set-to-none"),
    held("training.hold_outputs", "false"),
    held("training.ema", "false"),
    held("training.use_cache", "false"),
    held("training.loss", "cross-entropy"),
    held("training.completion_len", "none"),
    held("training.padding_free", "false"),
    held("training.dropout", "own"),
    held("training.adapter", "none"),
    written("training.float8"),
    held("training.images", "none"),
    held("training.image_size", "none"),
    held("training.freeze", "none"),
    held("training.teacher", "none"),
    held("training.data.workers", "0"),
    held("training.data.prefetch", "none"),
    held("training.data.pin_memory", "false"),
    held("compression", "none"),
    held("training.implementation.loop", "plain"),
    held("training.implementation.attention", "te|flash-2|unfused"),
    held("training.implementation.loss", "vocab-parallel|te"),
    held("training.implementation.loss_parallel", "false"),
    held("training.implementation.layers", "te|local"),
    beside("training.implementation.masked_softmax_fusion"),
    beside("training.implementation.bias_gelu_fusion"),
    beside("training.implementation.bias_dropout_fusion"),
    beside("training.implementation.deepspeed"),
    beside("training.implementation.transformer_engine"),
    beside("training.implementation.transformers"),
    beside("training.implementation.torch"),
    beside("training.implementation.torchtitan"),
    held("training.implementation.compile", "off"),
    beside("training.implementation.cuda_graph"),
    beside("training.implementation.token_dispatcher"),
    held("training.implementation.liger", "none"),
};

constexpr ExportRow kRanks[] = {
    written("parallelism.data"),
    written("parallelism.tensor"),
    written("parallelism.pipeline"),
    written("parallelism.context"),
    written("parallelism.context_exchange"),
    written("parallelism.expert"),
    written("parallelism.expert_tensor"),
    written("parallelism.sequence"),
    held("parallelism.schedule", "1f1b|interleaved"),
    written("parallelism.virtual_stages"),
    written("parallelism.first_stage_layers"),
    written("parallelism.last_stage_layers"),
    written("parallelism.account_for_embedding"),
    written("parallelism.account_for_loss"),
    written("parallelism.pipeline_layout"),
    held("parallelism.zero", "0|1|3"),
    held("parallelism.ddp", "none"),
    held("parallelism.deepspeed", "none"),
    held("parallelism.fsdp", "none"),
    held("parallelism.offload", "none"),
    written("parallelism.distributed_optimizer"),
    written("parallelism.overlap_grad_reduce"),
    written("parallelism.overlap_param_gather"),
    written("allocator"),
};
constexpr std::span<const ExportRow> kRows[] = {kStep, kRanks};

bool is_te(const Job& job) { return job.training->implementation.layers == LayerSpec::te; }

/// The number that, times the tensor ranks, divides the vocabulary: the default, and 1 where memest
/// takes the vocabulary as it is.
std::int64_t divisor_of_vocabulary(const Job& job) { return is_te(job) ? 128 : 1; }

void add_attention(const DecoderSpec& model, Arguments& list) {
  if (const auto* latent = std::get_if<LatentAttention>(&model.attention)) {
    list.add("--num-attention-heads", latent->heads);
    list.add_if(true, "--multi-latent-attention");
    if (latent->q_lora_rank > 0) list.add("--q-lora-rank", latent->q_lora_rank);
    list.add("--kv-lora-rank", latent->kv_lora_rank);
    list.add("--qk-head-dim", latent->qk_nope_head_dim);
    list.add("--qk-pos-emb-head-dim", latent->qk_rope_head_dim);
    return list.add("--v-head-dim", latent->v_head_dim);
  }
  const auto& attention = std::get<SoftmaxAttention>(model.attention);
  list.add("--num-attention-heads", attention.heads);
  if (attention.kv_heads != attention.heads) {
    list.add_if(true, "--group-query-attention");
    list.add("--num-query-groups", attention.kv_heads);
  }
  list.add("--kv-channels", attention.head_dim);
  list.add_if(attention.qk_norm != QkNorm::none, "--qk-layernorm");
}

void add_experts(const DecoderSpec& model, const Job& job, Arguments& list) {
  const MixtureOfExperts* experts = model.experts();
  if (experts == nullptr) return;
  list.add("--num-experts", experts->experts);
  list.add("--moe-router-topk", experts->top_k);
  list.add("--moe-ffn-hidden-size", experts->expert_size);
  if (experts->shared_size > 0) {
    list.add("--moe-shared-expert-intermediate-size", experts->shared_size);
    list.add_if(experts->shared_gate, "--moe-shared-expert-gate");
  }
  std::int64_t dense = 0;
  while (dense < model.layers() &&
         std::holds_alternative<DenseFeedForward>(model.kinds[model.kind_of(dense)].feed_forward)) {
    ++dense;
  }
  if (dense > 0) {
    list.add("--moe-layer-freq", "'([0]*" + std::to_string(dense) + "+[1]*" +
                                     std::to_string(model.layers() - dense) + ")'");
  }
  if (experts->correction_bias_buffer) {
    list.add("--moe-router-score-function", "sigmoid");
    list.add_if(true, "--moe-router-enable-expert-bias");
  }
  if (experts->capacity_factor > 0) {
    list.add("--moe-expert-capacity-factor", plain_decimal(experts->capacity_factor));
    list.add_if(true, "--moe-pad-expert-input-to-capacity");
  }
  add_dispatcher(job.training->implementation.token_dispatcher, list);
  list.add_if(is_te(job), "--moe-grouped-gemm");
}

/// The size of the first dense feed-forward; that of an expert where all layers have experts.
std::int64_t feed_forward_size(const DecoderSpec& model) {
  for (const LayerKind& kind : model.kinds) {
    if (const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward)) return dense->size;
  }
  return model.experts()->expert_size;
}

std::string_view activation_flag(const DecoderSpec& model) {
  const auto* dense = std::get_if<DenseFeedForward>(&model.kinds.front().feed_forward);
  const ActivationFunction function =
      dense != nullptr ? dense->activation : model.experts()->activation;
  const bool gated = dense != nullptr ? dense->gated : model.experts()->gated;
  if (gated) return function == ActivationFunction::silu ? "--swiglu" : "";
  return function == ActivationFunction::relu2 ? "--squared-relu" : "";
}

std::string_view position_word(const Position& position) {
  if (std::holds_alternative<RotaryPosition>(position)) return "rope";
  return std::holds_alternative<LearnedPosition>(position) ? "learned_absolute" : "none";
}

/// A head of its own has whatever bias the layers have: Megatron's has none.
bool has_bias(const DecoderSpec& model) {
  const auto* attention = std::get_if<SoftmaxAttention>(&model.attention);
  return attention != nullptr ? attention->output_bias
                              : std::get<LatentAttention>(model.attention).bias;
}

std::string model_arguments(const Job& job) {
  const auto& model = std::get<DecoderSpec>(job.model.architecture);
  const auto* learned = std::get_if<LearnedPosition>(&model.position);
  Arguments list("MODEL_ARGS");
  list.add("--num-layers", model.layers());
  list.add("--hidden-size", model.hidden_size);
  list.add("--ffn-hidden-size", feed_forward_size(model));
  add_attention(model, list);
  list.add("--seq-length", job.training->seq_len);
  list.add("--max-position-embeddings", learned != nullptr
                                            ? learned->rows
                                            : std::max(model.max_positions, job.training->seq_len));
  list.add("--position-embedding-type", std::string(position_word(model.position)));
  list.add("--normalization", model.norm.kind == NormKind::rmsnorm ? "RMSNorm" : "LayerNorm");
  const std::string_view activation = activation_flag(model);
  list.add_if(!activation.empty(), activation);
  list.add_if(!model.tied_embeddings, "--untie-embeddings-and-output-weights");
  list.add_if(!has_bias(model), "--disable-bias-linear");
  list.add("--attention-dropout", plain_decimal(model.dropout.attention));
  list.add("--hidden-dropout", plain_decimal(model.dropout.residual));
  list.add("--vocab-size", model.vocab_size);
  list.add("--make-vocab-size-divisible-by", divisor_of_vocabulary(job));
  add_experts(model, job, list);
  if (model.mtp_layers > 0) list.add("--mtp-num-layers", model.mtp_layers);
  return list.text();
}

void add_recompute(const Recompute& recompute, Arguments& list) {
  if (const auto* full = std::get_if<FullRecompute>(&recompute)) {
    list.add("--recompute-granularity", "full");
    list.add("--recompute-method", full->method == RecomputeMethod::uniform ? "uniform" : "block");
    list.add("--recompute-num-layers", full->layers);
    list.add_if(full->distribute, "--distribute-saved-activations");
  }
  if (const auto* parts = std::get_if<SelectiveRecompute>(&recompute)) {
    list.add("--recompute-granularity", "selective");
    list.add("--recompute-modules", modules_of(*parts));
  }
}

/// Main parameters in fp32 are kept as what bf16 weights lack of them.
void add_precise_optimizer(const TrainingSpec& training, Arguments& list) {
  if (!training.optimizer.typed) return;
  const OptimizerState* main = training.optimizer.main_parameters();
  const auto add = [&](std::string_view flag, std::string_view type) {
    list.add(flag, std::string(type));
  };
  const bool narrow = training.recipe.gradients == DType::bf16;
  list.add_if(true, "--use-precision-aware-optimizer");
  add("--main-grads-dtype", narrow ? "bf16" : "fp32");
  const bool wide = main == nullptr || main->shape == StateShape::remainders;
  add("--main-params-dtype",
      wide ? name_of(DType::fp32) : own_type_of(main->name, training.optimizer));
  add("--exp-avg-dtype", own_type_of("exp_avg", training.optimizer));
  add("--exp-avg-sq-dtype", own_type_of("exp_avg_sq", training.optimizer));
}

/// Recipes of Transformer Engine. MXFP8 takes one format, others a wider one for gradients.
void add_quantized(const TrainingSpec& training, Arguments& list) {
  if (!training.te_linears) return;
  const TeLinears& linears = *training.te_linears;
  const std::string word(name_of(linears.recipe));
  if (linears.recipe == TeRecipe::nvfp4) {
    list.add("--fp4-format", "e2m1");
    list.add("--fp4-recipe", word);
  } else {
    list.add("--fp8-format", linears.recipe == TeRecipe::mxfp8 ? "e4m3" : "hybrid");
    list.add("--fp8-recipe", word);
  }
  list.add_if(linears.param_gather, "--fp8-param-gather");
  if (linears.first_bf16 + linears.last_bf16 == 0) return;
  list.add_if(true, "--first-last-layers-bf16");
  list.add("--num-layers-at-start-in-bf16", linears.first_bf16);
  list.add("--num-layers-at-end-in-bf16", linears.last_bf16);
}

std::string training_arguments(const Job& job) {
  const TrainingSpec& training = *job.training;
  const Implementation& kernels = training.implementation;
  Arguments list("TRAINING_ARGS");
  list.add("--micro-batch-size", training.micro_batch);
  list.add("--global-batch-size", job.global_batch());
  list.add_if(training.recipe.name != "fp32", "--bf16");
  list.add_if(training.recipe.name == "megatron-bf16-grad", "--grad-reduce-in-bf16");
  add_quantized(training, list);
  list.add("--optimizer", "adam");
  add_precise_optimizer(training, list);
  list.add("--clip-grad", training.clip_gradients ? "1.0" : "0.0");
  add_recompute(training.recompute, list);
  add_graphs(kernels.cuda_graph, list);
  if (training.offloaded_layers > 0) {
    list.add("--cpu-offloading-num-layers", training.offloaded_layers);
  }
  list.add("--transformer-impl", is_te(job) ? "transformer_engine" : "local");
  if (is_te(job)) {
    list.add("--attention-backend",
             kernels.attention == AttentionKernel::flash_2 ? "flash" : "fused");
  } else {
    // Neither Apex nor Transformer Engine is there, and nothing is compiled.
    list.add_if(true, "--no-gradient-accumulation-fusion");
    list.add_if(true, "--no-rope-fusion");
    list.add_if(true, "--disable-jit-fuser");
  }
  if (kernels.loss == LossKernel::te) {
    list.add_if(true, "--cross-entropy-loss-fusion");
    list.add("--cross-entropy-fusion-impl", "te");
  }
  list.add("--train-iters", "\"$TRAIN_ITERS\"");
  list.add("--lr", "\"$LEARNING_RATE\"");
  return list.text();
}

std::string script_of(const Job& job) {
  const auto& model = std::get<DecoderSpec>(job.model.architecture);
  const std::string environment = environment_text_of(job.allocator);
  std::string text =
      "#!/usr/bin/env bash\n"
      "# For " +
      std::string(kProgram) +
      (is_te(job) ? " and Transformer Engine " +
                        std::string(name_of(job.training->implementation.transformer_engine))
                  : ", without Apex and Transformer Engine") +
      ". Run it in Megatron-LM's folder.\n"
      "# What decides neither memory nor time stands at its defaults: --rotary-base, "
      "--norm-epsilon.\nset -euo pipefail\n\n"
      "# Fill in, here or in the environment. The tokenizer decides the vocabulary: it has " +
      std::to_string(model.vocab_size) +
      " tokens.\n"
      ": \"${DATA_PATH:?the prefix of the tokenized data}\"\n"
      ": \"${TOKENIZER_TYPE:?HuggingFaceTokenizer, GPTSentencePieceTokenizer, ...}\"\n"
      ": \"${TOKENIZER_MODEL:?the path of the tokenizer}\"\n"
      ": \"${TRAIN_ITERS:?the number of steps}\"\n"
      ": \"${LEARNING_RATE:?the learning rate}\"\n\n"
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  // core/jit.py compiles as it is imported, before --disable-jit-fuser is read.
  if (!is_te(job)) text += "export TORCHDYNAMO_DISABLE=1\n";
  if (!environment.empty()) text += "export PYTORCH_CUDA_ALLOC_CONF='" + environment + "'\n";
  text += "\n" + model_arguments(job) + "\n" + training_arguments(job) + "\n" +
          layout_arguments(job) +
          "\nDATA_ARGS=(\n"
          "  --data-path \"$DATA_PATH\"\n"
          "  --tokenizer-type \"$TOKENIZER_TYPE\"\n"
          "  --tokenizer-model \"$TOKENIZER_MODEL\"\n"
          ")\n\n";
  return text + torchrun_of(job) +
         " pretrain_gpt.py \\\n"
         "  \"${MODEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" \"${LAYOUT_ARGS[@]}\" "
         "\"${DATA_ARGS[@]}\"\n";
}

/// Megatron's products of queries, keys and values, and of gate and up, are one each, whatever a
/// checkpoint has.
void take_own_modules(DecoderSpec& model) {
  if (auto* attention = std::get_if<SoftmaxAttention>(&model.attention)) {
    attention->layout = QkvLayout::separate;
  }
  for (LayerKind& kind : model.kinds) {
    if (auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward)) {
      dense->fused_gate_up = false;
    }
  }
}

/// tokenizer.py: _vocab_size_with_padding.
ModelSpec as_made(const Job& job) {
  ModelSpec model = job.model;
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  const std::int64_t multiple = divisor_of_vocabulary(job) * job.parallelism.tensor;
  if (decoder != nullptr) {
    take_own_modules(*decoder);
    decoder->vocab_size = (decoder->vocab_size + multiple - 1) / multiple * multiple;
  }
  return model;
}

Checked<ExportedJob> write_files(const Job& job) {
  const Recompute& recompute = job.training->recompute;
  const bool known = std::holds_alternative<NoRecompute>(recompute) ||
                     std::holds_alternative<FullRecompute>(recompute) ||
                     std::holds_alternative<SelectiveRecompute>(recompute);
  if (!known) {
    return no_word_for(kProgram, "training.recompute", spec_value_of(recompute),
                       "what it has: none, full, selective, {full: {method: ...}}");
  }
  return ExportedJob{{{"pretrain_gpt.sh", script_of(job)}}};
}

std::optional<Diagnostic> mistake_of(const Job& job) {
  return other_framework(job, "Megatron-LM", kName);
}

constexpr ExportTarget kTarget = {.name = kName,
                                  .program = kProgram,
                                  .mistake = mistake_of,
                                  .rows = kRows,
                                  .write = write_files,
                                  .whole = true,
                                  .as_made = as_made};

}  // namespace
}  // namespace memest::megatron

namespace memest {

const ExportTarget& megatron_export() { return megatron::kTarget; }

}  // namespace memest
