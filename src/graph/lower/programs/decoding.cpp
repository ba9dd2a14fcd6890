// The passes of transformers' generate() behind the forward of its prompts: one token a sequence,
// over a key-value cache that grows (transformers 5.17, generation/utils.py).
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/programs/decoder.hpp"

namespace memest {
namespace {

/// Tokens in the cache from which on a decoding pass may run other operations: a window is full, or
/// hides tokens; and flash attention cuts the keys into other parts, of 64 tokens at least.
std::vector<std::int64_t> starts_of_decoding(const DecoderContext& context) {
  constexpr std::int64_t kSmallestPart = 64;
  const LoweringPolicy& policy = context.policy;
  const std::int64_t first = policy.seq_len;
  // One pass more than there are: the cache is put in order behind the last one too.
  const std::int64_t last = first + policy.new_tokens - 1;
  std::vector<std::int64_t> starts = {first};
  const auto add = [&](std::int64_t start) {
    if (start > first && start <= last) starts.push_back(start);
  };
  bool cuts_keys = false;
  for (const LayerKind& kind : context.decoder.kinds) {
    cuts_keys |= attention_call(context, kind).kernel == AttentionKernel::sdpa_flash;
    if (!kind.sliding_window) continue;
    add(*kind.sliding_window - 1);
    add(*kind.sliding_window);
  }
  for (std::int64_t at = first; cuts_keys && at <= last; at += kSmallestPart) {
    add(at / kSmallestPart * kSmallestPart);
  }
  if (cuts_keys) add(last / kSmallestPart * kSmallestPart);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

/// Model types whose generate() was recorded and followed event by event; the empty one is a
/// decoder given by its sizes, written as LLaMA's.
constexpr auto kFollowed = std::to_array<std::string_view>(
    {"", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gpt2"});

/// Why the model's generate() has no graph, or nothing.
std::optional<Unavailable> refusal(const DecoderContext& context) {
  const auto refused = [](const std::string& what) {
    return Unavailable{"generation " + what + " is not available yet"};
  };
  const std::string_view type = context.habits.model_type;
  if (std::find(kFollowed.begin(), kFollowed.end(), type) == kFollowed.end()) {
    return refused("by models of model_type '" + std::string(type) + "'");
  }
  if (!context.caches()) return refused("without a key-value cache");
  if (context.policy.autocast) return refused("under autocast");
  // cuDNN takes one query over many keys, not one over one.
  if (context.policy.seq_len == 1) return refused("behind a prompt of one token");
  for (const LayerKind& kind : context.decoder.kinds) {
    if (std::holds_alternative<MixtureOfExperts>(kind.feed_forward)) {
      return refused("by mixtures of experts");
    }
    const AttentionKernel kernel = attention_call(context, kind).kernel;
    if (kernel != AttentionKernel::sdpa_flash && kernel != AttentionKernel::sdpa_efficient &&
        kernel != AttentionKernel::sdpa_cudnn) {
      return refused(kernel == AttentionKernel::flash_2 ? "with the flash-attn package"
                                                        : "with attention that is not one kernel");
    }
    if (kernel == AttentionKernel::sdpa_flash && context.attention.head_dim % 8 != 0) {
      return refused("with heads that flash attention pads");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> append_decoding(const ModelSpec& model, const DecoderContext& context,
                                           Graph& graph) {
  if (auto refused = refusal(context)) return refused;
  const LoweringPolicy& policy = context.policy;
  std::vector<Block> before;
  for (const std::int64_t start : starts_of_decoding(context)) {
    LoweringPolicy pass = policy;
    pass.seq_len = 1;
    pass.past = start;
    auto made = context_of(model, pass, context.program);
    if (auto* unavailable = std::get_if<Unavailable>(&made)) return std::move(*unavailable);
    Graph decoding;
    write_model(std::get<DecoderContext>(made), decoding);
    if (decoding.blocks == before) continue;
    for (BlockRun& run : decoding.order) run.block += graph.blocks.size();
    graph.decoding.push_back({start, std::move(decoding.order)});
    graph.blocks.insert(graph.blocks.end(), decoding.blocks.begin(), decoding.blocks.end());
    before = std::move(decoding.blocks);
  }
  return std::nullopt;
}

}  // namespace memest
