#include <algorithm>
#include <variant>

#include "memest/memory/stage_form.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kToken = 2;        // bf16; fp8 is not sent yet
constexpr std::int64_t kProbability = 4;  // fp32
constexpr std::int64_t kScale = 4;        // of 128 channels, which are made for bf16 as well
constexpr std::int64_t kScaled = 128;
/// hybrid_ep_buffer.py: max(max_num_of_tokens_per_rank, 512).
constexpr std::int64_t kLeastTokens = 512;

/// Bytes of a token with its weights for so many experts.
std::int64_t token_bytes(std::int64_t hidden_size, std::int64_t experts) {
  return checked_add(checked_multiply(kToken, hidden_size),
                     checked_multiply(kProbability, experts));
}

}  // namespace

Bytes dispatch_buffer_bytes(const Job& job, const Parallelism& layout, std::int64_t micro_batch) {
  if (!job.training || layout.expert == 1 || job.model.experts() == nullptr ||
      job.training->implementation.token_dispatcher != TokenDispatcher::hybridep) {
    return {};
  }
  const std::int64_t h = std::get<DecoderSpec>(job.model.architecture).hidden_size;
  const std::int64_t experts = job.model.experts()->experts;
  const std::int64_t cut = layout.context * (layout.sequence ? layout.tensor : 1);
  const std::int64_t tokens =
      std::max(checked_multiply(micro_batch, job.training->seq_len / cut), kLeastTokens);
  const std::int64_t ranks = layout.expert;
  const std::int64_t in_node = std::clamp<std::int64_t>(job.hardware.linked_gpus(), 1, ranks);
  const std::int64_t nodes = (ranks + in_node - 1) / in_node;
  const std::int64_t scales = kScale * (h / kScaled);
  const std::int64_t of_node = experts / nodes;
  // intranode.cu: dispatch and combine share rows for all tokens of all ranks, which may all come.
  // allgather.cu: who chose which expert, of all of them.
  const std::int64_t row = checked_add(checked_add(token_bytes(h, of_node), scales), experts);
  Bytes bytes(checked_multiply(checked_multiply(tokens, ranks), row));
  if (nodes == 1) return bytes;
  // internode.cu: what is sent, what comes of the other nodes, and in a combine also the sums that
  // are sent to them.
  const std::int64_t own = checked_add(token_bytes(h, experts), scales);
  const std::int64_t others =
      checked_add(checked_multiply(std::int64_t{3}, token_bytes(h, of_node)), scales);
  bytes += Bytes(checked_multiply(tokens, checked_add(own, checked_multiply(nodes - 1, others))));
  return bytes;
}

}  // namespace memest
