// A teacher beside the model: its forward in the graph, and its logits in the loss.
#pragma once

#include <optional>
#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The name by which the loss knows the teacher's answer.
inline constexpr std::string_view kTeacherLogits = "teacher logits";

/// (1 − α) · `loss` + α · T² · KL(teacher ‖ student) of logits over T (Hinton, Vinyals, Dean 2015,
/// "Distilling the Knowledge in a Neural Network", section 2), as one expression of PyTorch's.
TensorId distillation_loss(BlockBuilder& block, const DecoderContext& context, TensorId logits,
                           TensorId loss);

/// Writes the blocks of the policy's teacher behind those of `graph`, whose letters they have no
/// part in; or says why they cannot be followed.
[[nodiscard]] std::optional<Unavailable> append_teacher(const LoweringPolicy& policy, Graph& graph);

}  // namespace memest
