// torchtitan 0.2.2: models/llama3/model/model.py, models/qwen3/model/model.py and what
// parallelize_llama makes of them.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Why the model cannot be cut over torchtitan's tensor-parallel ranks, or nothing.
std::optional<Unavailable> uneven(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  if (policy.tensor == 1) return std::nullopt;
  if (!policy.sequence_parallel) {
    return Unavailable{
        "torchtitan's tensor parallelism keeps the residual stream in shards of the sequence: set "
        "'sequence' to true"};
  }
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const MixtureOfExperts* experts = decoder.experts();
  const bool keeps_experts_whole = policy.expert > 1;
  const std::int64_t size =
      experts == nullptr    ? std::get<DenseFeedForward>(decoder.kinds.front().feed_forward).size
      : keeps_experts_whole ? policy.tensor
                            : experts->expert_size;
  for (const std::int64_t whole :
       {attention.heads, attention.kv_heads, size, decoder.vocab_size, policy.seq_len}) {
    if (whole % policy.tensor == 0) continue;
    return Unavailable{"a size of " + std::to_string(whole) + " cannot be cut evenly over " +
                       std::to_string(policy.tensor) + " tensor-parallel ranks"};
  }
  return std::nullopt;
}

/// Whether the mixture is one of torchtitan's Qwen3 (MoEArgs of models/qwen3/__init__.py).
bool is_of_qwen3(const MixtureOfExperts& experts) {
  return experts.gated && experts.activation == ActivationFunction::silu && !experts.expert_bias &&
         !experts.router_bias && experts.shared_size == 0 && !experts.shared_gate &&
         !experts.router_noise && !experts.balance_loss && !experts.correction_bias_buffer &&
         experts.groups == 0;
}

/// Why torchtitan's mixture has no graph, or nothing.
std::optional<Unavailable> mixture_refusal(const MixtureOfExperts& experts,
                                           const SoftmaxAttention& attention,
                                           const LoweringPolicy& policy) {
  if (!is_of_qwen3(experts)) {
    return Unavailable{
        "of torchtitan's mixtures of experts Qwen3's is available: softmax over the experts, none "
        "that are shared, no 'score_bias'"};
  }
  if (experts.capacity_factor > 0) {
    return Unavailable{
        "torchtitan computes every token's experts: 'capacity_factor' is of the implementation "
        "megatron"};
  }
  // get_train_spec: pipelining_fn=None, where Trainer raises "does not support pipelining".
  if (!policy.parts.empty()) {
    return Unavailable{"torchtitan's Qwen3 has no pipelines of its mixtures: leave 'pipeline' out"};
  }
  if (policy.expert > 1) {
    if (policy.tensor > 1 && !policy.whole_experts) {
      return Unavailable{
          "experts of torchtitan on expert-parallel ranks that tensor-parallel ones cut too are "
          "not available yet: write 'expert_tensor: 1', or leave 'tensor' out"};
    }
    if (experts.experts % policy.expert != 0) {
      return Unavailable{std::to_string(experts.experts) +
                         " experts cannot be shared evenly among " + std::to_string(policy.expert) +
                         " expert-parallel ranks"};
    }
  }
  // launch_gather_topk_kernel (TensorTopK.cu): longer rows may be searched by several blocks each,
  // with memory of their own.
  constexpr std::int64_t kMostExperts = 399;
  if (experts.experts > kMostExperts) {
    return Unavailable{"torchtitan's mixtures are available with up to " +
                       std::to_string(kMostExperts) + " experts"};
  }
  // mm_recompute_shapes: products of the router's sizes are taken for it.
  const auto is_alike = [&](std::int64_t heads) {
    const std::int64_t channels = checked_multiply(heads, attention.head_dim);
    return experts.experts == channels || experts.experts == channels / policy.tensor;
  };
  const bool alike = is_alike(attention.heads) || is_alike(attention.kv_heads);
  if (policy.runs_again == RunsAgain::all_but_selected && alike) {
    return Unavailable{
        "torchtitan's selective checkpoint takes queries or keys of as many channels as there are "
        "experts for the router's product, which is not available: choose another 'recompute'"};
  }
  return std::nullopt;
}

/// torchtitan 0.2.2 has LLaMA's architecture here, and Qwen3's, dense or of experts, which has
/// norms of queries and keys and may tie its embeddings: its other models are not written out yet.
std::optional<Unavailable> torchtitan_refusal(const DecoderSpec& decoder,
                                              const LoweringPolicy& policy) {
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  const bool normed = attention != nullptr && attention->qk_norm == QkNorm::per_head;
  const bool plain = attention != nullptr && (normed || attention->qk_norm == QkNorm::none) &&
                     !attention->q_bias && !attention->output_bias &&
                     attention->layout == QkvLayout::separate;
  const bool llama = plain && std::holds_alternative<RotaryPosition>(decoder.position) &&
                     decoder.layout == BlockLayout::pre_norm &&
                     decoder.norm.kind == NormKind::rmsnorm &&
                     (normed || !decoder.tied_embeddings) && decoder.kinds.size() == 1 &&
                     !decoder.kinds.front().sliding_window;
  if (llama && normed && row_of(policy.implementation.torchtitan).is_early) {
    return Unavailable{"torchtitan has Qwen3 from 0.2.0 on: leave the older release out"};
  }
  if (llama && normed && !policy.casts_arguments) {
    return Unavailable{
        "torchtitan's Qwen3 is available with FSDP2 in bf16 only: set 'precision' to fsdp2-bf16"};
  }
  const bool alone = policy.tensor == 1 && policy.context == 1 && policy.parts.empty();
  if (llama && policy.implementation.loss == LossKernel::chunked && !alone) {
    return Unavailable{
        "torchtitan's chunked loss is available without tensor, context and pipeline parallelism"};
  }
  const MixtureOfExperts* experts = decoder.experts();
  if (llama && normed && experts != nullptr) {
    if (auto refused = mixture_refusal(*experts, *attention, policy)) return refused;
    return uneven(decoder, policy);
  }
  if (llama && experts == nullptr) return uneven(decoder, policy);
  return Unavailable{
      "the implementation torchtitan is available for models of LLaMA's architecture, and of "
      "Qwen3's dense or with experts in every layer, only"};
}

/// Why a layer's attention cannot run over several of torchtitan's ranks, or nothing.
std::optional<Unavailable> ranks_refusal(const DecoderContext& context, const LayerKind& kind) {
  const bool as_dtensors = context.has_rope_cache() && context.shards_tensors();
  const AttentionKernel kernel = attention_call(context, kind).kernel;
  if (as_dtensors && kernel == AttentionKernel::sdpa_math) {
    // Its products of batches flatten sequences and heads: "Sharding propagation failed for
    // aten._unsafe_view.default".
    return Unavailable{
        "PyTorch's math kernel takes no heads that lie on tensor-parallel ranks as DTensors, as "
        "those of torchtitan's Qwen3 do: choose a GPU with cuDNN's attention or flash"};
  }
  if (context.policy.context == 1) return std::nullopt;
  if (as_dtensors) {
    // _ContextParallel.sdpa_input_fn asserts that what is a DTensor already lies on context ranks.
    return Unavailable{
        "PyTorch's context parallelism takes no heads that lie on tensor-parallel ranks as "
        "DTensors, as those of torchtitan's Qwen3 do: leave 'tensor' or 'context' out"};
  }
  const bool flash = context.program.head_repeats == HeadRepeats::by_tokens &&
                     kernel == AttentionKernel::sdpa_flash;
  if (flash || kernel == AttentionKernel::sdpa_cudnn) return std::nullopt;
  return Unavailable{
      "torchtitan's context parallelism is available with cuDNN's attention only, and before 0.2.0 "
      "with flash: in 16 bits, on a GPU where PyTorch has it"};
}

/// torchtitan's save list: attention, reduce-scatters, largest values, and of the matrix products
/// every second one from the first on (torchtitan/distributed/activation_checkpoint.py).
void mark_save_list(Block& block, const LoweringPolicy& policy) {
  const TorchtitanRow& release = row_of(policy.implementation.torchtitan);
  std::int64_t products = 0;
  for (Op& op : block.ops) {
    // per_op_sac_force_recompute_mm_shapes_by_fqns is ["moe.router.gate"], whose products are
    // recomputed before any are counted.
    const bool product = op.kind == OpKind::linear && op.name != kRouterProduct;
    // _custom_policy counts an mm before it asks whether its number is even: wq is 1 and kept, wk 2
    // and recomputed, wv 3, wo 4, w1 5, w3 6, w2 7.
    if (product) ++products;
    // _op_sac_save_list has _c10d_functional.reduce_scatter_tensor beside mm and the kernels of
    // SDPA.
    const bool scatters = std::ranges::any_of(op.forward_messages, [](const Message& message) {
      return message.kind == MessageKind::reduce_scatter;
    });
    op.kept_selectively =
        op.kind == OpKind::attention || scatters || (product && products % 2 == 1);
    // A float8 linear calls aten.mm of two Float8TrainingTensors, and aten.max to make them.
    op.keeps_maxima = true;
    op.keeps_absolutes = release.saves_absolutes;
  }
}

bool is_of_experts(const ParameterTensor& row) { return row.name.starts_with("moe.experts."); }

/// The share of one of `ranks`: rows of a matrix or, where its product sums over the ranks,
/// columns. Gains of norms are whole.
void cut_over_tensor_ranks(std::int64_t ranks, bool whole_experts, Inventory& inventory) {
  for (ParameterTensor& row : inventory.parameters) {
    // parallelize.py: apply_tp: wo and w2 are RowwiseParallel, the other products ColwiseParallel,
    // the embedding RowwiseParallel over the vocabulary, norms SequenceParallel.
    // apply_moe_ep_tp: the router NoParallel, experts' w1 and w3 Shard(1), w2 Shard(2).
    // Where expert ranks share the experts (ExpertParallel) they are whole.
    const bool whole = row.role == ParameterRole::norm || row.module == ParameterModule::router ||
                       (whole_experts && is_of_experts(row));
    if (whole) continue;
    const bool sums = row.module == ParameterModule::attention_output ||
                      row.module == ParameterModule::feed_forward_down;
    row.shape[row.shape.size() - (sums ? 1 : 2)] /= ranks;
  }
}

/// ExpertParallel._partition_fn: experts' weights are cut by expert.
void cut_over_expert_ranks(std::int64_t ranks, Inventory& inventory) {
  if (ranks == 1) return;
  for (ParameterTensor& row : inventory.parameters) {
    row.expert_parallel = is_of_experts(row);
    if (row.expert_parallel) row.shape.front() /= ranks;
  }
}

/// torchtitan's model keeps the rotations of all its positions, as complex numbers, or as cosines
/// beside sines (Qwen3).
void add_rotations(const ModelSpec& model, std::int64_t positions, Inventory& inventory) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  inventory.placement.push_back({.steps = {{true, inventory.buffers.size(), 1}}});
  if (attention.qk_norm == QkNorm::none) {
    // Transformer.freqs_cis, not persistent: 4096 positions of 64 complex64 are 2 MiB.
    inventory.buffers.push_back(
        {.name = "freqs_cis", .shape = {positions, attention.head_dim / 2, 2}});
  } else {
    inventory.buffers.push_back(
        {.name = "rope_cache", .shape = {positions, 2 * attention.head_dim}});
  }
}

/// MoE.init_weights makes both anew for every layer, behind the rotations.
void add_expert_buffers(const MixtureOfExperts& experts, std::int64_t layers,
                        Inventory& inventory) {
  const std::size_t first = inventory.buffers.size();
  // expert_bias is there because load_balance_coeff is by default.
  for (const char* name : {"moe.tokens_per_expert", "moe.expert_bias"}) {
    inventory.buffers.push_back({.name = name, .shape = {experts.experts}, .count = layers});
  }
  inventory.placement.push_back(
      {.repeat = layers, .layers = true, .steps = {{true, first, 1}, {true, first + 1, 1}}});
}

/// The tensors of a pipeline rank's stages, in the order in which they are placed: of every stage
/// the rows before the layers where it has the embedding, its layers, the rows behind them where it
/// has the head, and the rotations.
Inventory of_parts(const Inventory& whole, const std::vector<ModelPart>& parts) {
  InventoryBuilder inventory;
  for (const ModelPart& part : parts) {
    bool behind_layers = false;
    for (const PlacementRun& run : whole.placement) {
      behind_layers = behind_layers || run.layers;
      const bool is_buffer = run.steps.front().buffer;
      if (!run.layers && !is_buffer && !(behind_layers ? part.head : part.embedding)) continue;
      if (run.layers) {
        inventory.repeat_layer(part.count);
      } else {
        inventory.repeat(run.repeat);
      }
      for (const PlacementStep& step : run.steps) {
        if (step.buffer) {
          BufferTensor row = whole.buffers[step.row];
          row.count = step.count;
          inventory.add(std::move(row));
        } else {
          ParameterTensor row = whole.parameters[step.row];
          row.count = step.count;
          inventory.add(std::move(row));
        }
      }
    }
  }
  return std::move(inventory).take();
}

/// wq, wk and wv run before their norms, in whatever order transformers has them.
Habits torchtitan_habits(const Habits& /*family*/) { return written_out({}); }

constexpr DecoderProgram kTorchtitanProgram = {
    .has = {.experts = true},
    .habits = torchtitan_habits,
    .refusal = torchtitan_refusal,
    .layer_refusal = ranks_refusal,
    .layer_arguments = LayerArguments::rope_cache,
    .rotations = Rotations::complex,
    .feed_forward_module = true,
    .mixture = torchtitan_mixture,
    .sdpa = resolve_in_torchtitan,
    .mark_selected = mark_save_list,
    // train.py: batch_generator yields input_dict, labels;
    // cross_entropy_loss: pred.flatten(0, 1).float().
    // parallelize.py: apply_ac wraps a block before apply_compile
    // compiles the wrapper, and compile.components is ["model",
    // "loss"] by default.
    .targets = Targets::second_tensor,
    .widens_logits = true,
    .region_checkpoint = RegionCheckpoint::inside,
    .compiles_loss = true};

/// Before 0.2.0 (0.1.0, models/llama3/model/model.py, Attention.forward).
constexpr DecoderProgram early_program() {
  DecoderProgram program = kTorchtitanProgram;
  program.head_repeats = HeadRepeats::by_tokens;
  program.cuts_rotations = true;
  program.sdpa = resolve_in_early_torchtitan;
  return program;
}
constexpr DecoderProgram kEarlyTorchtitanProgram = early_program();

}  // namespace

std::variant<Graph, Unavailable> lower_torchtitan(const ModelSpec& model,
                                                  const LoweringPolicy& policy) {
  const bool early = row_of(policy.implementation.torchtitan).is_early;
  auto result = lower_decoder(model, policy, early ? kEarlyTorchtitanProgram : kTorchtitanProgram);
  if (auto* graph = std::get_if<Graph>(&result)) {
    cut_over_tensor_ranks(policy.tensor, policy.expert > 1, graph->parameters);
    cut_over_expert_ranks(policy.expert, graph->parameters);
    add_rotations(model, checked_multiply(policy.seq_len, policy.context), graph->parameters);
    if (const MixtureOfExperts* experts = model.experts()) {
      add_expert_buffers(*experts, graph->layers(), graph->parameters);
    }
    if (!policy.parts.empty()) graph->parameters = of_parts(graph->parameters, policy.parts);
  }
  return result;
}

}  // namespace memest
