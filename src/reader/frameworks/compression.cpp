#include "reader/frameworks/compression.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
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

/// Something that no run of factorised layers was recorded with, as a noun.
struct NotRecorded {
  bool (*asked)(const Job&);
  const char* noun;
  const char* hint;
};

constexpr NotRecorded kNotRecorded[] = {
    {[](const Job& job) { return !std::holds_alternative<DecoderSpec>(job.model.architecture); },
     "low-rank factorisation of another model than a decoder", "leave 'low_rank' out"},
    {[](const Job& job) {
       return job.forward() != nullptr &&
              (!row_of(job.forward()->implementation.framework).saves_on_cpu ||
               job.forward()->implementation.loop != LoopKind::plain);
     },
     "low-rank factorisation in another loop than a plain one of PyTorch",
     "use 'implementation: transformers', or leave 'low_rank' out"},
    {[](const Job& job) { return job.parallelism.ranks() > 1 || job.parallelism.fsdp.has_value(); },
     "low-rank factorisation on several GPUs",
     "set 'hardware.count' to 1 and leave 'parallelism' out"},
    {[](const Job& job) { return job.parallelism.offload.any(); },
     "low-rank factorisation beside an offloaded optimizer", "leave one of the two out"},
    {[](const Job& job) { return job.training && job.training->offload_activations.has_value(); },
     "low-rank factorisation beside saved tensors on the host", "leave one of the two out"},
    {[](const Job& job) { return job.forward() != nullptr && job.forward()->replaces_modules(); },
     "low-rank factorisation beside Liger's kernels or float8 linears", "leave one of the two out"},
    {[](const Job& job) {
       return job.forward() != nullptr &&
              job.forward()->implementation.compile != CompileScope::off;
     },
     "low-rank factorisation of compiled layers", "leave 'compile' or 'low_rank' out"},
    {[](const Job& job) { return job.inference && job.inference->generation; },
     "generation with factorised layers", "leave 'generate' out"},
    {[](const Job& job) { return job.model.adapter.has_value(); },
     "low-rank factorisation beside adapters", "leave one of the two out"},
    {[](const Job& job) { return job.model.experts() != nullptr; },
     "low-rank factorisation in a mixture of experts", "leave 'low_rank' out"},
    {[](const Job& job) {
       const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
       return decoder != nullptr && std::holds_alternative<LatentAttention>(decoder->attention);
     },
     "low-rank factorisation with latent attention", "leave 'low_rank' out"},
};

}  // namespace

void read_compression(const Value& written, ModelSpec& model, Diagnostics& diagnostics) {
  if (const Value* prune = written.find("prune")) Pruner(*prune, diagnostics).prune(model);
  if (const Value* low_rank = written.find("low_rank")) model.low_rank = low_rank_of(*low_rank);
}

void check_compression(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.model.low_rank) return;
  const SourceSpan& span = root.find("compression")->find("low_rank")->span;
  for (const NotRecorded& one : kNotRecorded) {
    if (!one.asked(job)) continue;
    diagnostics.push_back(unavailable_at(span, one.noun, one.hint));
    return;
  }
}

}  // namespace memest
