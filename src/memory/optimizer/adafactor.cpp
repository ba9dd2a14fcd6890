// transformers.optimization.Adafactor of transformers 5.17, which the Trainer steps: a loop over
// parameters in fp32.
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

constexpr std::int64_t kBytes = size_of(DType::fp32);

Label temporary_label() { return loop_label(Holding::temporaries, LoopTensor::step_temporary); }

Label state_label(const SteppedTensor& tensor) {
  return parameter_label(Holding::optimizer_states, tensor.parameter, 1);
}

}  // namespace

bool OptimizerRun::has_trainers_adafactor() const {
  return row_of(training_.implementation.loop).own_adafactor &&
         training_.optimizer.rule == OptimizerRule::adafactor;
}

/// `elements` numbers, and what the kernel that reduces to them asks for.
HeldStorage OptimizerRun::reduced(const Reduction& reduction, std::int64_t elements) {
  HeldStorage result = recorder_.make(elements * kBytes, temporary_label());
  if (device_) recorder_.launch(reduction_scratch(reduction, *device_), temporary_label());
  return result;
}

/// tensor.norm(2) / elements ** 0.5.
HeldStorage OptimizerRun::root_mean_square(std::int64_t elements, const Label& label) {
  const HeldStorage norm = reduced(sum_of_all(elements, kBytes), 1);
  return recorder_.make(kBytes, label);
}

/// The factors of the second moment follow the means of the update's rows and columns, and the
/// update becomes their product.
HeldStorage OptimizerRun::factored(std::int64_t rows, std::int64_t columns) {
  reduced(sum_of_columns(rows, columns, kBytes), rows).drop();
  reduced(sum_of_rows(rows, columns, kBytes), columns).drop();
  // _approx_sq_grad: rows over their mean, then rsqrt_(); columns' rsqrt(); their product.
  HeldStorage mean = reduced(sum_of_all(rows, kBytes), 1);
  HeldStorage by_row = recorder_.make(rows * kBytes, temporary_label());
  mean.drop();
  const HeldStorage by_column = recorder_.make(columns * kBytes, temporary_label());
  HeldStorage product = recorder_.make(checked_multiply(rows * columns, kBytes), temporary_label());
  by_row.drop();
  return product;
}

/// Gradient, weight and update are names of the function: each lives until the next parameter's
/// takes it.
void OptimizerRun::step_adafactor() {
  AdafactorNames names;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) step_adafactor(tensor, names);
  }
}

/// Sixteen-bit gradients and weights are widened.
void OptimizerRun::step_adafactor(const SteppedTensor& tensor, AdafactorNames& names) {
  const bool matrix = tensor.row->shape.size() > 1;
  const std::int64_t rows = tensor.row->shape.front();
  const std::int64_t bytes = checked_multiply(tensor.elements, kBytes);
  const auto like_tensor = [&] { return recorder_.make(bytes, temporary_label()); };
  const auto widen = [&](HeldStorage& name) {
    name.drop();
    if (is_half(gradient_type(tensor))) name = like_tensor();
  };
  widen(names.gradient);
  if (!has_states_) {
    recorder_.allocate(matrix ? rows * kBytes : bytes, state_label(tensor));
    if (matrix) recorder_.allocate(tensor.elements / rows * kBytes, state_label(tensor));
  }
  widen(names.weight);
  scales_[tensor.parameter] = root_mean_square(tensor.elements, state_label(tensor));
  HeldStorage square = like_tensor();
  HeldStorage sum = like_tensor();
  square.drop();
  names.update = std::move(sum);
  names.update = matrix ? factored(rows, tensor.elements / rows) : like_tensor();
  HeldStorage size = root_mean_square(tensor.elements, temporary_label());
  HeldStorage clipped = recorder_.make(kBytes, temporary_label());
  size.drop();
  clipped.drop();
  like_tensor().drop();  // -update
}

}  // namespace memest
