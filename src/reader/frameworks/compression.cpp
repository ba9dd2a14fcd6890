#include "reader/frameworks/compression.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Sizes of a decoder of equal dense layers with softmax attention, which structured pruning
/// lowers.
class Pruner {
 public:
  Pruner(const Value& written, Diagnostics& diagnostics)
      : written_(written), diagnostics_(diagnostics) {}

  void prune(ModelSpec& model) {
    auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
    auto* attention =
        decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
    auto* feed_forward = attention == nullptr || decoder->kinds.size() != 1
                             ? nullptr
                             : std::get_if<DenseFeedForward>(&decoder->kinds.front().feed_forward);
    if (feed_forward == nullptr || !decoder->buffers.empty()) {
      diagnostics_.push_back(unavailable_at(
          written_.span,
          "pruning of another model than a decoder of equal dense layers, without buffers of its "
          "own",
          "write the model's sizes themselves in 'model'"));
      return;
    }
    prune_layers(*decoder);
    prune_width(*decoder);
    lower("ffn_size", feed_forward->size);
    prune_heads(*attention);
  }

 private:
  /// Sets `size` to what is written, where that is no more.
  bool lower(std::string_view key, std::int64_t& size) {
    const std::optional<std::int64_t> left = as_count(written_.find(key));
    if (!left) return false;
    if (*left > size) {
      diagnostics_.push_back(error_at(written_.find(key)->span,
                                      "more than the model has: " + std::to_string(size),
                                      "write what stays of it"));
      return false;
    }
    size = *left;
    return true;
  }

  void prune_layers(DecoderSpec& decoder) {
    std::int64_t layers = decoder.layers();
    if (lower("layers", layers)) decoder.order = {{.kind = 0, .repeat = layers}};
  }

  void prune_width(DecoderSpec& decoder) {
    const bool projected = decoder.embedding_size != decoder.hidden_size;
    if (!lower("hidden_size", decoder.hidden_size)) return;
    if (!projected) decoder.embedding_size = decoder.hidden_size;
  }

  void prune_heads(SoftmaxAttention& attention) {
    const bool one_each = attention.kv_heads == attention.heads;
    const bool lowered = lower("heads", attention.heads);
    const Value* kv_heads = written_.find("kv_heads");
    if (lowered && one_each && kv_heads == nullptr) attention.kv_heads = attention.heads;
    lower("kv_heads", attention.kv_heads);
    if (attention.heads % attention.kv_heads == 0) return;
    const Value* named = kv_heads != nullptr ? kv_heads : written_.find("heads");
    diagnostics_.push_back(error_at(named->span,
                                    std::to_string(attention.kv_heads) +
                                        " kv_heads do not divide " +
                                        std::to_string(attention.heads) + " heads",
                                    "each head of keys and values is of as many query heads"));
  }

  const Value& written_;
  Diagnostics& diagnostics_;
};

LowRank low_rank_of(const Value& written) {
  LowRank low_rank;
  low_rank.rank = as_count(written.find("rank")).value_or(1);
  const Value* modules = written.find("modules");
  if (modules == nullptr) return low_rank;
  for (const Value& module : modules->items) {
    if (const auto text = as_text(&module)) low_rank.modules.push_back(*text);
  }
  return low_rank;
}

/// None where the layers cannot share so, of which `diagnostics` says why.
std::optional<SharedLayers> shared_layers_of(const Value& written, const ModelSpec& model,
                                             Diagnostics& diagnostics) {
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr || decoder->kinds.size() != 1) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "sharing in another model than a decoder of equal layers",
                                         "leave 'share_layers' out"));
    return std::nullopt;
  }
  SharedLayers shared;
  shared.distinct = as_count(written.find("distinct")).value_or(1);
  if (as_text(written.find("order")).value_or("repeat") == "cycle") {
    shared.order = SharedOrder::cycle;
  }
  if (decoder->layers() % shared.distinct == 0) return shared;
  diagnostics.push_back(error_at(written.find("distinct")->span,
                                 std::to_string(decoder->layers()) +
                                     " layers are not a multiple of " +
                                     std::to_string(shared.distinct),
                                 "every set of weights is used as often as the others"));
  return std::nullopt;
}

QuantizedWeights quantized_of(const Value& written) {
  QuantizedWeights quantized;
  const auto word = as_text(written.find("weights"));
  quantized.format = weight_format_of(word.value_or("nf4")).value_or(WeightFormat::nf4);
  quantized.double_quant = as_flag(written.find("double_quant")).value_or(false);
  quantized.group_size = as_count(written.find("group_size")).value_or(quantized.group_size);
  quantized.threshold = as_number(written.find("threshold")).value_or(quantized.threshold);
  if (const auto storage = as_text(written.find("quant_storage"))) {
    quantized.storage = code_storage_of(*storage).value_or(DType::uint8);
  }
  const Value* modules = written.find("skip_modules");
  if (modules == nullptr) return quantized;
  quantized.skip_modules.clear();
  for (const Value& module : modules->items) {
    if (const auto text = as_text(&module)) quantized.skip_modules.push_back(*text);
  }
  return quantized;
}

/// Keys of one library beside the format of the other.
void check_format(const Value& written, const QuantizedWeights& quantized,
                  Diagnostics& diagnostics) {
  const bool hqq = row_of(quantized.format).of_hqq();
  const bool int8 = quantized.format == WeightFormat::int8;
  const auto refuse = [&](const char* key, const char* why) {
    const Value* other = written.find(key);
    if (other == nullptr) return;
    diagnostics.push_back(error_at(other->span, why, "leave '" + std::string(key) + "' out"));
  };
  const bool torchao = row_of(quantized.format).of_torchao();
  if (hqq) refuse("double_quant", "HQQ's scales are not quantised");
  if (torchao) refuse("double_quant", "torchao's scales are quantised in any case");
  if (int8) refuse("double_quant", "the scales of LLM.int8() are not quantised");
  if (int8) refuse("group_size", "LLM.int8() has a scale for each row");
  if (!hqq && !int8) refuse("group_size", "bitsandbytes' and torchao's blocks are of 64 codes");
  if (hqq || int8 || torchao) refuse("quant_storage", "bitsandbytes packs codes of 4 bits alone");
  if (!int8) refuse("threshold", "only LLM.int8() looks for outliers");
}

bool is_int8(const Job& job) {
  return job.model.quantized && job.model.quantized->format == WeightFormat::int8;
}

/// FSDP2 as accelerate prepares it, or DeepSpeed's engine, around codes of 4 bits and LoRA.
bool divides_codes(const Job& job) {
  const bool lora = job.model.adapter && job.model.adapter->kind == AdapterKind::lora;
  return (shards_by<RowShards>(job) || shards_by<DeepSpeedZero>(job)) && lora &&
         row_of(job.forward()->implementation.loop).accelerate &&
         row_of(job.model.quantized->format).in_params_4bit() && !job.parallelism.offload.any();
}

constexpr NotRecorded kNotRecorded[] = {
    {[](const Job& job) {
       const bool generates = job.inference && job.inference->generation;
       return generates && (job.model.low_rank || job.model.shared_layers);
     },
     "in generation", "leave 'generate' out"},
    {[](const Job& job) {
       return job.model.quantized && row_of(job.model.quantized->format).of_torchao();
     },
     "by torchao in other models than torchtune's",
     "use 'weights: nf4', or 'implementation: torchtune'"},
    {[](const Job& job) { return job.model.experts() != nullptr; }, "in a mixture of experts", ""},
    {[](const Job& job) {
       const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
       return decoder != nullptr && std::holds_alternative<LatentAttention>(decoder->attention);
     },
     "with latent attention", ""},
    {[](const Job& job) {
       return (job.model.low_rank || job.model.shared_layers) && job.model.adapter;
     },
     "beside adapters", "leave one of the two out"},
    {[](const Job& job) {
       return (job.model.low_rank || job.model.shared_layers) && job.model.quantized;
     },
     "beside quantised weights", "leave one of the two out"},
    {[](const Job& job) { return job.model.low_rank && job.model.shared_layers; },
     "beside shared layers", "leave one of the two out"},
    {[](const Job& job) {
       return job.model.shared_layers && job.training && job.training->recipe.autocast &&
              !std::holds_alternative<NoRecompute>(job.training->recompute);
     },
     "recomputed under autocast", "leave 'recompute' out, or use 'precision: bf16'"},
    {[](const Job& job) {
       return job.model.quantized && job.model.adapter && !job.model.adapter->whole_modules.empty();
     },
     "beside modules trained in full", "leave 'modules_to_save' out"},
    {[](const Job& job) {
       return job.model.quantized && row_of(job.model.quantized->format).of_hqq() &&
              job.model.adapter && job.model.adapter->dtype != DType::fp32;
     },
     "of HQQ beside adapters in 16 bits", "leave 'dtype' out"},
    {[](const Job& job) {
       return job.model.quantized && row_of(job.model.quantized->format).of_hqq() &&
              job.forward() != nullptr && job.forward()->recipe.autocast;
     },
     "of HQQ under autocast", "use 'precision: bf16' or 'fp16', or bitsandbytes' nf4"},
    {[](const Job& job) {
       return is_int8(job) && job.forward() != nullptr &&
              row_of(job.forward()->implementation.loop).takes_tiles;
     },
     "by LLM.int8() under TRL's trainers", "use 'weights: nf4'"},
    {[](const Job& job) {
       return is_int8(job) && job.model.adapter && job.model.adapter->kind != AdapterKind::lora;
     },
     "by LLM.int8() beside other adapters than LoRA", "use 'lora'"},
    {[](const Job& job) { return is_int8(job) && job.inference && job.inference->generation; },
     "by LLM.int8() in generation", "leave 'generate' out"},
    // peft leaves them in fp32 whatever is asked, as integers have no type for them.
    {[](const Job& job) {
       return is_int8(job) && job.model.adapter && job.model.adapter->dtype != DType::fp32;
     },
     "by LLM.int8() beside adapters in 16 bits", "leave 'dtype' out"},
    {[](const Job& job) { return is_int8(job) && job.training && job.training->saves_on_host(); },
     "by LLM.int8() beside saved tensors on the host", "leave one of the two out"},
    {[](const Job& job) {
       return is_int8(job) && job.forward() != nullptr && job.forward()->replaces_modules();
     },
     "by LLM.int8() beside Liger's kernels", "leave one of the two out"},
    {[](const Job& job) {
       if (!job.model.quantized || job.forward() == nullptr) return false;
       const LoopKind loop = job.forward()->implementation.loop;
       const bool hqq = row_of(job.model.quantized->format).of_hqq();
       return loop != LoopKind::plain && (!row_of(loop).accelerate || hqq);
     },
     "in this loop", "leave 'loop' out"},
    {[](const Job& job) {
       return job.model.quantized && job.forward() != nullptr && job.forward()->float8.has_value();
     },
     "beside float8 linears", "leave one of the two out"},
    {[](const Job& job) {
       return job.model.quantized && row_of(job.model.quantized->format).of_hqq() &&
              job.forward() != nullptr && job.forward()->replaces_modules();
     },
     "of HQQ beside Liger's kernels", "leave one of the two out"},
    {[](const Job& job) {
       return job.model.quantized && job.forward() != nullptr && shards_by<RowShards>(job) &&
              row_of(job.model.quantized->format).in_params_4bit() &&
              !row_of(job.forward()->implementation.loop).accelerate;
     },
     "in FSDP2 of a plain loop", "set 'loop' to trainer"},
    {[](const Job& job) {
       const bool alone = job.parallelism.ranks() == 1 && !job.parallelism.fsdp;
       const bool hqq = job.model.quantized && row_of(job.model.quantized->format).of_hqq();
       return job.model.quantized && job.forward() != nullptr && !alone &&
              (hqq || !(shards_by<ReplicasOfDdp>(job) || divides_codes(job)));
     },
     "divided over GPUs", "leave 'parallelism' out but for 'data'"},
    // FSDPParam.init_dtype_attrs: what lies in another type than the policy's is cast to that.
    {[](const Job& job) {
       if (!job.model.quantized || !job.training || !shards_by<RowShards>(job)) return false;
       const Recipe& recipe = job.training->recipe;
       return job.model.quantized->in_shards() && recipe.casts_gathered() &&
              job.model.quantized->storage != recipe.compute;
     },
     "whose codes FSDP2 would cast to the type in which it gathers",
     "set 'quant_storage' to that type"},
};

/// Where codes run, but for what kNotRecorded names.
constexpr Beside kRecordedOfCodes[] = {Beside::other_loop, Beside::several_gpus,
                                       Beside::replaced_modules};

/// A program that quantises by itself has rules of its own.
bool quantizes_by_itself(const Job& job) {
  if (!job.training) return false;
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  return framework.quantizes_all || row_of(framework.codes).of_torchao();
}

/// Codes have no gradient.
void check_frozen(const Value& written, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.model.adapter) return;
  diagnostics.push_back(error_at(written.span, "quantised weights cannot be trained themselves",
                                 "train adapters: 'adapter: {lora: {rank: 16, targets: [q_proj, "
                                 "v_proj]}}'"));
}

/// Where the weights are said to be codes: `quantize`, `qlora`, or the model's config.
WrittenTechnique quantisation_in(const Value& root) {
  constexpr const char* kNoun = "quantisation of weights";
  const Value* compression = root.find("compression");
  const Value* quantize = compression == nullptr ? nullptr : compression->find("quantize");
  if (quantize != nullptr) return {kNoun, "quantize", *quantize, kRecordedOfCodes};
  const Value* training = root.find("training");
  const Value* qlora = training == nullptr ? nullptr : find_qlora(*training);
  if (qlora != nullptr) return {kNoun, "qlora", *qlora, kRecordedOfCodes};
  return {kNoun, "quantization_config", *root.find("model"), kRecordedOfCodes};
}

}  // namespace

const Value* find_qlora(const Value& training) {
  const Value* adapter = training.find("adapter");
  return adapter == nullptr ? nullptr : adapter->find("qlora");
}

void read_compression(const Value& written, ModelSpec& model, Diagnostics& diagnostics) {
  if (const Value* prune = written.find("prune")) Pruner(*prune, diagnostics).prune(model);
  if (const Value* low_rank = written.find("low_rank")) model.low_rank = low_rank_of(*low_rank);
  if (const Value* shared = written.find("share_layers")) {
    model.shared_layers = shared_layers_of(*shared, model, diagnostics);
  }
  const Value* quantize = written.find("quantize");
  if (quantize == nullptr) return;
  model.quantized = quantized_of(*quantize);
  check_format(*quantize, *model.quantized, diagnostics);
}

void read_quantized_base(const Value& root, const FrameworkRow& framework, ModelSpec& model,
                         Diagnostics& diagnostics) {
  const Value* qlora = find_qlora(*root.find("training"));
  if (qlora == nullptr) return;
  const Value* compression = root.find("compression");
  if (compression != nullptr && compression->find("quantize") != nullptr) {
    diagnostics.push_back(error_at(qlora->span, "'compression' says how the weights are quantised",
                                   "write 'lora' beside 'compression: {quantize: ...}'"));
    return;
  }
  // A config says it of its own weights.
  if (model.quantized) return;
  model.quantized = QuantizedWeights{};
  model.quantized->format = framework.codes;
  if (const auto storage = as_text(qlora->find("quant_storage"))) {
    model.quantized->storage = code_storage_of(*storage).value_or(DType::uint8);
  }
  check_format(*qlora, *model.quantized, diagnostics);
  if (row_of(framework.codes).of_torchao()) model.quantized->double_quant = false;
  if (!framework.quantizes_all) return;
  model.quantized->double_quant = false;
  model.quantized->skip_modules.clear();
}

void check_compression(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const Value* compression = root.find("compression");
  const auto refuse = [&](const WrittenTechnique& technique) {
    refuse_unrecorded(technique, kNotRecorded, job, diagnostics);
  };
  if (job.model.low_rank) {
    refuse({"low-rank factorisation", "low_rank", *compression->find("low_rank")});
  }
  if (job.model.shared_layers) {
    refuse({"sharing of layers", "share_layers", *compression->find("share_layers")});
  }
  if (!job.model.quantized) return;
  const WrittenTechnique technique = quantisation_in(root);
  if (!quantizes_by_itself(job)) refuse(technique);
  check_frozen(technique.written, job, diagnostics);
}

}  // namespace memest
