#include "memest/spec/parallel/float8_rows.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include "memest/spec/decoder.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Rows of the linear layers' weights that tensor-parallel ranks divide. Fused ones have sums of
/// these.
std::vector<std::int64_t> rows_of_linears(const DecoderSpec& decoder) {
  std::vector<std::int64_t> rows;
  if (const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention)) {
    const std::int64_t q = checked_multiply(attention->heads, attention->head_dim);
    const std::int64_t kv = checked_multiply(attention->kv_heads, attention->head_dim);
    if (attention->layout == QkvLayout::fused) {
      rows.push_back(checked_add(q, checked_multiply(kv, std::int64_t{2})));
    } else {
      rows.insert(rows.end(), {q, kv});
    }
  }
  for (const LayerKind& kind : decoder.kinds) {
    const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward);
    if (dense == nullptr) continue;
    const bool fused = dense->gated && dense->fused_gate_up;
    rows.push_back(checked_multiply(dense->size, std::int64_t{fused ? 2 : 1}));
  }
  return rows;
}

}  // namespace

// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, all_gather_inputs: a rank gathers what
// fsdp_pre_all_gather(mesh) made of its share, which for torchao's weights has no padding, so that
// ranks with fewer rows would send fewer bytes.
std::optional<std::int64_t> uneven_float8_rows(const Job& job, std::int64_t ranks) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const bool gathers = job.training && job.training->float8 && job.training->float8->all_gather;
  if (decoder == nullptr || !gathers) return std::nullopt;
  std::vector<std::int64_t> rows = rows_of_linears(*decoder);
  if (job.training->float8->filter_fqns.empty()) rows.push_back(decoder->vocab_size);
  constexpr std::int64_t kMultiple = 16;  // _scaled_mm's: other weights are not cast
  const auto uneven = [ranks](std::int64_t count, std::int64_t parts) {
    return count % kMultiple == 0 && (count / parts) % ranks != 0;
  };
  // Products whose sums the tensor-parallel ranks share divide their columns.
  if (uneven(decoder->hidden_size, 1)) return decoder->hidden_size;
  const std::int64_t parts = job.parallelism.tensor;
  const auto found =
      std::ranges::find_if(rows, [&](std::int64_t count) { return uneven(count, parts); });
  if (found == rows.end()) return std::nullopt;
  return *found / parts;
}

}  // namespace memest
