#include "memest/spec/parallel/coded_rows.hpp"

#include <variant>
#include <vector>

#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/decoder.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

struct LinearShape {
  std::string_view name;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

/// torchtune/modules: MultiHeadAttention and FeedForward.
std::vector<LinearShape> linears_of(const DecoderSpec& decoder) {
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  const auto* dense = decoder.kinds.empty()
                          ? nullptr
                          : std::get_if<DenseFeedForward>(&decoder.kinds.front().feed_forward);
  if (attention == nullptr || dense == nullptr) return {};
  const std::int64_t hidden = decoder.hidden_size;
  const std::int64_t q = checked_multiply(attention->heads, attention->head_dim);
  const std::int64_t kv = checked_multiply(attention->kv_heads, attention->head_dim);
  return {{"q_proj", q, hidden},      {"k_proj", kv, hidden},      {"v_proj", kv, hidden},
          {"output_proj", hidden, q}, {"w1", dense->size, hidden}, {"w2", hidden, dense->size},
          {"w3", dense->size, hidden}};
}

}  // namespace

// torchao 0.13, nf4_split() asserts that the elements of each tensor divide among the chunks.
std::optional<std::string_view> uneven_codes(const Job& job, std::int64_t ranks) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const auto& quantized = job.model.quantized;
  if (decoder == nullptr || !quantized || !row_of(quantized->format).of_torchao()) {
    return std::nullopt;
  }
  const std::int64_t together =
      checked_multiply(quantized->group_size, codes_together(*quantized).groups);
  for (const LinearShape& linear : linears_of(*decoder)) {
    if (!quantizes(*quantized, linear.name)) continue;
    const std::int64_t blocks = checked_multiply(linear.out, linear.in) / together;
    if (linear.out % ranks != 0 || blocks % ranks != 0) return linear.name;
  }
  return std::nullopt;
}

}  // namespace memest
