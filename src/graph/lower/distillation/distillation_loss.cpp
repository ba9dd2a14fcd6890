#include "graph/lower/distillation/distillation.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/spec/compression/teacher.hpp"

namespace memest {
namespace {

/// The type of what `model` answers: under autocast its head is a product in the compute type.
DType logits_type(const LoweringPolicy& policy, DType weights) {
  return policy.autocast ? policy.compute : weights;
}

/// The type of softmax, log_softmax and kl_div, which stand in autocast's fp32 list.
DType probability_type(const BlockBuilder& block, TensorId scores) {
  return block.precision().autocast ? DType::fp32 : block.dtype_of(scores);
}

/// F.softmax(teacher_logits / T, dim=-1), without a gradient.
TensorId softened_teacher(BlockBuilder& block, TensorId logits) {
  const Shape shape = block.tensor(logits).shape;
  const TensorId divided = compute(block, OpKind::scale, {logits},
                                   {{"teacher_over_temperature"}, shape, block.dtype_of(logits)});
  Frame call(block);  // F.softmax names its input
  call.local(divided);
  const DType type = probability_type(block, logits);
  const TensorId wide = cast(block, {"teacher_softmax", "in fp32"}, divided, type);
  return compute(block, OpKind::softmax, {wide}, {{"teacher_softmax"}, shape, type});
}

/// F.log_softmax(logits / T, dim=-1).
TensorId softened_student(BlockBuilder& block, TensorId logits) {
  const TensorId divided = scale(block, {"logits_over_temperature"}, logits);
  Frame call(block);  // F.log_softmax names its input
  call.local(divided);
  const DType type = probability_type(block, logits);
  return log_softmax(block, "student_log_softmax",
                     cast(block, {"student_log_softmax", "in fp32"}, divided, type));
}

/// at::kl_div (ATen/native/Loss.cpp): xlogy(target, target) − target · input, summed; and
/// functional.py divides by the batch.
TensorId divergence(BlockBuilder& block, TensorId student, TensorId teacher) {
  const Shape shape = block.tensor(student).shape;
  // The right operand of the difference is evaluated first, as g++ orders it.
  const TensorId product = multiply(block, {"kl_div", "product"}, teacher, student);
  const TensorId entropy = compute(block, OpKind::multiply, {teacher},
                                   {{"kl_div", "xlogy"}, shape, block.dtype_of(teacher)});
  const TensorId difference = subtract(block, {"kl_div", "difference"}, entropy, product);
  return scale(block, {"kl_div", "over the batch"}, sum_of_all(block, {"kl_div_sum"}, difference));
}

}  // namespace

TensorId distillation_loss(BlockBuilder& block, const DecoderContext& context, TensorId logits,
                           TensorId loss) {
  const LoweringPolicy& policy = context.policy;
  Frame frame(block);
  frame.local(loss);
  const TensorId answer = block.shared(kTeacherLogits, block.tensor(logits).shape,
                                       logits_type(policy, policy.teacher->weights));
  const TensorId student = softened_student(block, logits);
  const TensorId teacher = softened_teacher(block, answer);
  const TensorId soft = scale(block, {"soft_loss"}, divergence(block, student, teacher));
  frame.local(soft);
  const TensorId own = scale(block, {"loss_share"}, loss);
  const TensorId taught = scale(block, {"soft_loss_share"}, soft);
  return add(block, {"distillation_loss"}, own, taught);
}

}  // namespace memest
