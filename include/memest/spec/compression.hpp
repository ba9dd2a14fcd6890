// What makes a model smaller: changes that are made to it before it runs. Structured pruning is
// none of them, its result is a model of other sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace memest {

enum class FourBitType : std::uint8_t { nf4, fp4 };

/// bitsandbytes' linear layers: Linear4bit, whose weights are packed by two with an fp32 scale for
/// every 64, or Linear8bitLt.
struct BitsandbytesWeights {
  std::int64_t bits = 4;  ///< 4 or 8
  FourBitType type = FourBitType::nf4;
  bool double_quant = false;  ///< of 4 bits: the scales are quantised too

  friend bool operator==(const BitsandbytesWeights&, const BitsandbytesWeights&) = default;
};

/// HQQ's linear layers: packed weights with a scale and a zero for every group.
struct HqqWeights {
  std::int64_t bits = 4;  ///< 8, 4, 3, 2 or 1
  std::int64_t group_size = 64;

  friend bool operator==(const HqqWeights&, const HqqWeights&) = default;
};

using QuantizedWeights = std::variant<BitsandbytesWeights, HqqWeights>;

/// Every named linear layer is two: [rank, in] without a bias, then [out, rank] with the layer's.
struct LowRank {
  std::int64_t rank = 1;
  std::vector<std::string> modules;  ///< by the end of their names; empty: all of the blocks

  friend bool operator==(const LowRank&, const LowRank&) = default;
};

/// Consecutive layers share their parameters, as many layers a group as another (ALBERT's
/// num_hidden_groups).
struct SharedLayers {
  std::int64_t groups = 1;

  friend bool operator==(const SharedLayers&, const SharedLayers&) = default;
};

/// torch.nn.utils.prune: each named weight is the product of weight_orig and weight_mask.
struct UnstructuredPruning {
  double amount = 0;                 ///< share of the weights that the mask zeroes
  std::vector<std::string> modules;  ///< by the end of their names; empty: all of the blocks

  friend bool operator==(const UnstructuredPruning&, const UnstructuredPruning&) = default;
};

struct Compression {
  std::optional<QuantizedWeights> quantized = {};
  std::optional<LowRank> low_rank = {};
  std::optional<SharedLayers> shared_layers = {};
  std::optional<UnstructuredPruning> pruning = {};

  [[nodiscard]] bool any() const { return quantized || low_rank || shared_layers || pruning; }
  friend bool operator==(const Compression&, const Compression&) = default;
};

}  // namespace memest
