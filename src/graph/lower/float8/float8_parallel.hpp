// torchao 0.16, float8/float8_tensor_parallel.py: PrepareFloat8ModuleInput, Float8ColwiseParallel
// and Float8RowwiseParallel, torchtitan's parallel styles of tensorwise float8 linears before 0.2.
// Activations and gradients are cast before the tensor-parallel ranks gather them, and kept as they
// were gathered, a byte an element: an alias in the type that they had (Float8TrainingTensor) of a
// storage in fp8.
//
// torchtitan 0.2.2 asks for them by the converter's old name and never finds it
// (models/llama3/infra/parallelize.py, "float8" in job_config.model.converters): it gathers in
// the compute type, and its linears cast.
#pragma once

#include <optional>
#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// Whether the layers' linears have these styles.
[[nodiscard]] bool gathers_activations_in_fp8(const DecoderContext& context);

/// The input of a part of a layer, whole: in fp8 with these styles, else as gathered() answers it.
TensorId gathered_input(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                        TensorId x);
/// The output of a part of a layer, in shards of the sequence: with these styles its gradient is
/// gathered in fp8.
TensorId scattered_output(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                          TensorId x);

/// The input of `projection`, whose products the ranks sum: with these styles cast by the ranks
/// together, else `x` itself.
TensorId summed_input(BlockBuilder& block, const DecoderContext& context,
                      std::string_view projection, TensorId x);
/// Makes `x` a local of `frame`, and with it the scale of what lies in fp8.
void hold_with_scale(const BlockBuilder& block, Frame& frame, TensorId x);
/// `x` itself; its gradient is cast for the layer `projection` that made it.
TensorId with_gradient_in_float8(BlockBuilder& block, const DecoderContext& context,
                                 std::string_view projection, TensorId x);

/// The scale of what lies in fp8; none: it lies in its own type.
[[nodiscard]] std::optional<TensorId> scale_in_float8(const BlockBuilder& block, TensorId x);
/// Where the scale of the gradient of `out`, the product of `projection`, arrives.
TensorId add_gradients_scale(BlockBuilder& block, std::string_view projection, TensorId out);

}  // namespace memest
