// transformers.optimization.Adafactor of transformers 5.17, which the Trainer steps: a loop over
// parameters in fp32.
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "memory/optimizer/optimizer_run.hpp"

namespace memest {
namespace {

constexpr std::int64_t kBytes = size_of(DType::fp32);

Label temporary_label() {
  Label label;
  label.holding = Holding::temporaries;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::step_temporary);
  return label;
}

Label state_label(const SteppedTensor& tensor) {
  Label label;
  label.holding = Holding::optimizer_states;
  label.origin = Origin::parameter;
  label.place = tensor.parameter;
  label.tensor = 1;
  return label;
}

}  // namespace

bool OptimizerRun::has_trainers_adafactor() const {
  return row_of(training_.implementation.loop).own_adafactor &&
         training_.optimizer.name == "adafactor";
}

/// `elements` numbers, and what the kernel that reduces to them asks for.
StorageId OptimizerRun::reduced(const Reduction& reduction, std::int64_t elements) {
  const StorageId result = recorder_.allocate(elements * kBytes, temporary_label());
  if (!device_) return result;
  std::vector<StorageId> made;
  for (const ScratchStep& step : reduction_scratch(reduction, *device_)) {
    if (step.kind == ScratchStep::Kind::release) {
      recorder_.release(made[static_cast<std::size_t>(step.block)]);
    } else {
      made.push_back(recorder_.allocate(step.bytes, temporary_label()));
    }
  }
  return result;
}

/// tensor.norm(2) / elements ** 0.5.
StorageId OptimizerRun::root_mean_square(std::int64_t elements, const Label& label) {
  const StorageId norm = reduced(sum_of_all(elements, kBytes), 1);
  const StorageId result = recorder_.allocate(kBytes, label);
  recorder_.release(norm);
  return result;
}

/// The factors of the second moment follow the means of the update's rows and columns, and the
/// update becomes their product.
StorageId OptimizerRun::factored(std::int64_t rows, std::int64_t columns) {
  recorder_.release(reduced(sum_of_columns(rows, columns, kBytes), rows));
  recorder_.release(reduced(sum_of_rows(rows, columns, kBytes), columns));
  const StorageId mean = reduced(sum_of_all(rows, kBytes), 1);
  const StorageId by_row = recorder_.allocate(rows * kBytes, temporary_label());
  recorder_.release(mean);
  const StorageId by_column = recorder_.allocate(columns * kBytes, temporary_label());
  const StorageId product =
      recorder_.allocate(checked_multiply(rows * columns, kBytes), temporary_label());
  recorder_.release(by_row);
  recorder_.release(by_column);
  return product;
}

/// Gradient, weight and update are names of the function: each lives until the next parameter's
/// takes it.
void OptimizerRun::step_adafactor() {
  AdafactorNames names;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) step_adafactor(tensor, names);
  }
  for (const StorageId storage : {names.update, names.weight, names.gradient}) {
    recorder_.release(storage);
  }
}

/// Sixteen-bit gradients and weights are widened.
void OptimizerRun::step_adafactor(const SteppedTensor& tensor, AdafactorNames& names) {
  const bool matrix = tensor.row->shape.size() > 1;
  const std::int64_t rows = tensor.row->shape.front();
  const std::int64_t bytes = checked_multiply(tensor.elements, kBytes);
  const auto like_tensor = [&] { return recorder_.allocate(bytes, temporary_label()); };
  const auto widen = [&](StorageId& name) {
    recorder_.release(std::exchange(name, kNoStorage));
    if (is_half(gradient_type(tensor))) name = like_tensor();
  };
  widen(names.gradient);
  if (!has_states_) {
    recorder_.allocate(matrix ? rows * kBytes : bytes, state_label(tensor));
    if (matrix) recorder_.allocate(tensor.elements / rows * kBytes, state_label(tensor));
  }
  widen(names.weight);
  StorageId& scale = scales_.try_emplace(tensor.parameter, kNoStorage).first->second;
  recorder_.release(std::exchange(scale, root_mean_square(tensor.elements, state_label(tensor))));
  const StorageId square = like_tensor();
  const StorageId sum = like_tensor();
  recorder_.release(square);
  recorder_.release(std::exchange(names.update, sum));
  const StorageId scaled = matrix ? factored(rows, tensor.elements / rows) : like_tensor();
  recorder_.release(std::exchange(names.update, scaled));
  const StorageId size = root_mean_square(tensor.elements, temporary_label());
  const StorageId clipped = recorder_.allocate(kBytes, temporary_label());
  recorder_.release(size);
  recorder_.release(clipped);
  recorder_.release(like_tensor());  // -update
}

}  // namespace memest
