#include "memest/spec/parallel/cost_split.hpp"

#include <algorithm>
#include <variant>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// LlamaModel.get_block_compute_costs: 4·heads·d·h + 3·ffn·h. Keys and values count as queries.
std::int64_t cost_of_layer(const DecoderSpec& decoder) {
  constexpr std::int64_t kProjections = 4;
  constexpr std::int64_t kProducts = 3;
  const SoftmaxAttention heads = heads_of(decoder.attention);
  const auto* dense = std::get_if<DenseFeedForward>(&decoder.kinds.front().feed_forward);
  const std::int64_t attention =
      checked_multiply(checked_multiply(kProjections, heads.heads), heads.head_dim);
  const std::int64_t products = checked_multiply(kProducts, dense == nullptr ? 0 : dense->size);
  return checked_multiply(checked_add(attention, products), decoder.hidden_size);
}

}  // namespace

std::vector<std::int64_t> stages_by_cost(const DecoderSpec& decoder, const Parallelism& layout) {
  if (decoder.layers() == 0) return {};
  const std::int64_t ranks = layout.pipeline;
  const std::int64_t layer = cost_of_layer(decoder);
  // The vocabulary is padded for the tensor-parallel ranks.
  const std::int64_t rows = checked_add(decoder.vocab_size, layout.tensor - 1) / layout.tensor;
  const std::int64_t head =
      checked_multiply(checked_multiply(rows, layout.tensor), decoder.hidden_size);
  const std::int64_t all = checked_add(checked_multiply(layer, decoder.layers()), head);
  // thresholds = [cumulative[-1] * ((rank + 1) / pp_size)], in Python's floating point.
  const auto exceeds = [&](std::int64_t cost, std::int64_t rank) {
    return static_cast<double>(cost) >
           static_cast<double>(all) * (static_cast<double>(rank + 1) / static_cast<double>(ranks));
  };
  std::vector<std::int64_t> stages(static_cast<std::size_t>(ranks), 0);
  std::int64_t rank = 0;
  for (std::int64_t i = 1; i <= decoder.layers(); ++i) {
    ++stages[static_cast<std::size_t>(rank)];
    if (exceeds(checked_multiply(layer, i), rank)) ++rank;
  }
  if (rank != ranks - 1) return {};
  return stages;
}

// OneForwardOneBackwardPipelineEngine.train_batch_iter asserts nb_microbatches >= pg.size() - 1.
std::int64_t least_micro_batches(const Parallelism& layout) {
  return layout.schedule == Schedule::one_f_one_b ? std::max<std::int64_t>(layout.pipeline - 1, 1)
                                                  : 1;
}

}  // namespace memest
