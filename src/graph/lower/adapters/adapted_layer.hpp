// peft's layers: what they run around the linear layer that they hold, line by line of their
// forward.
#pragma once

#include <functional>
#include <string_view>

#include "graph/lower/adapters/adapter_names.hpp"
#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// A layer that peft adapts.
struct AdaptedLayer {
  const AdapterNames& names;
  std::string_view module;  ///< in the state dict
  const Projection2d& shape;
  bool codes = false;  ///< its weight is kept as codes
};
/// Its input, and the layer that it holds.
struct AdaptedInput {
  const Rows& rows;
  const std::function<TensorId(const Rows&)>& base_layer;
};
/// As the job's adapter has it.
TensorId adapted(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                 const AdaptedInput& input);

/// The habits of peft's layers, by the layer that they hold.
struct LayerHabits {
  bool clones = false;        ///< the result, before the adapter's is added
  bool converts = true;       ///< the input to the adapter's type
  bool sums_in_type = false;  ///< the adapter's result is cast to the layer's before the sum
  bool names_parts =
      false;                ///< what layer and adapter answer have names until the function returns
  bool names_rank = false;  ///< the product with lora_A has one until it is scaled
  /// x @ lora_A.transpose(0, 1): the call holds x, and autocast keeps no copy of a view.
  bool by_hand = false;
};
LayerHabits layer_habits(const DecoderContext& context, bool codes);

/// The input, and the result of the layer that peft's holds.
struct AdaptedResult {
  const Rows& rows;
  TensorId result = 0;
};
TensorId lora_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of);
TensorId dora_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of);
TensorId vera_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of);
TensorId ia3_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                   const AdaptedInput& input);

/// `x` times a trained matrix.
TensorId times_trained(BlockBuilder& block, const Projection2d& shape, const Rows& rows);

}  // namespace memest
