#include "graph/lower/float8/float8_products.hpp"

#include "graph/lower/ops/operations.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Whether the largest value is of elements that lie on several ranks.
bool is_joint(const Float8Operand& x, Float8Scales scales) {
  const bool over_rows = scales != Float8Scales::row;
  const bool over_columns = scales != Float8Scales::column;
  return (over_rows && x.rows_divided) || (over_columns && x.columns_divided);
}

/// How many numbers, of a part that ranks share each.
Expr scales_of(const Float8Operand& x, Float8Scales scales) {
  switch (scales) {
    case Float8Scales::row:
      return x.rows;
    case Float8Scales::column:
      return x.columns;
    case Float8Scales::whole:
      break;
  }
  return 1;
}

}  // namespace

Float8Writer::Float8Writer(const DecoderContext& context, TensorId one)
    : recipe_(context.policy.float8->recipe), one_(one) {
  bind_sizes(context, sizes_);
  device_ = launch_device(context.policy.capability, context.policy.multiprocessors);
}

Float8Cast Float8Writer::cast(Course& course, const Float8Operand& x, Float8Scales scales) const {
  Float8Cast made{.scale_like = scale_like(x, scales), .scales = scales};
  if (x.dtype == DType::fp8) return made;
  course.enter(StepOf::other);
  made.scale = scale_of(course, x, scales);
  // _ToFloat8ConstrFunc: to fp32, times the scale, clamped, to fp8.
  std::optional<Course::Made> wide;
  if (x.dtype != DType::fp32) wide = course.make("in fp32", x.tensor, DType::fp32);
  const auto scaled = course.make("scaled", x.tensor, DType::fp32);
  if (wide) course.drop(*wide);
  const auto clamped = course.make("clamped", x.tensor, DType::fp32);
  made.data = course.make("in fp8", x.tensor, DType::fp8);
  course.drop(clamped);
  course.drop(scaled);
  return made;
}

void drop(Course& course, const Float8Cast& cast) {
  course.enter(StepOf::other);
  if (cast.data) course.drop(*cast.data);
  if (cast.scale) course.drop(*cast.scale);
}

Course::Made Float8Writer::multiply(Course& course, const Float8Cast& left, const Float8Cast& right,
                                    const Float8Product& product) const {
  course.enter(StepOf::result);
  std::optional<Course::Made> left_copy;
  std::optional<Course::Made> right_copy;
  if (product.left_copy) left_copy = course.make("by rows", *product.left_copy, DType::fp8);
  if (product.right_copy) {
    right_copy = course.make("by columns", *product.right_copy, DType::fp8);
  }
  std::optional<Course::Made> repeated;
  const TensorId right_scale = product.repeated_scale.value_or(right.scale_like);
  if (product.repeated_scale) repeated = course.make("repeated scale", right_scale, DType::fp32);
  const auto left_inverse = course.make("inverse scale", left.scale_like, DType::fp32);
  const auto right_inverse = course.make("inverse scale", right_scale, DType::fp32);
  const bool rowwise = left.scales != Float8Scales::whole;
  // Without fast accumulation the product is scaled behind: the row-wise kernel is slow then.
  std::vector<Course::Made> behind;
  if (rowwise && !product.fast_accumulation) {
    behind = {course.make("scales of the product", product.like, DType::fp32)};
    behind.insert(behind.begin(), course.make("one", one_, DType::fp32));
    course.drop(left_inverse);
    behind.insert(behind.begin() + 1, course.make("one", one_, DType::fp32));
    course.drop(right_inverse);
  } else {
    behind = {left_inverse, right_inverse};
  }
  // _scaled_mm with scales by rows answers bf16 alone.
  const bool widens = rowwise && product.dtype != DType::bf16;
  auto out = course.make("product", product.like, widens ? DType::bf16 : product.dtype);
  if (product.library) course.run_product();
  if (widens) {
    const auto wide = course.make("product in type", product.like, product.dtype);
    course.drop(out);
    out = wide;
  }
  for (const Course::Made made : behind) course.drop(made);
  if (left_copy) course.drop(*left_copy);
  if (right_copy) course.drop(*right_copy);
  if (repeated) course.drop(*repeated);
  return out;
}

TensorId Float8Writer::scale_like(const Float8Operand& x, Float8Scales scales) const {
  switch (scales) {
    case Float8Scales::row:
      return x.one_a_row;
    case Float8Scales::column:
      return x.one_a_column;
    case Float8Scales::whole:
      break;
  }
  return one_;
}

/// tensor_to_amax: torch.max(torch.abs(x)), which copies what does not lie in order, or amax.
Course::Made Float8Writer::largest(Course& course, const Float8Operand& x,
                                   Float8Scales scales) const {
  KernelLaunch kernel;
  kernel.kind = KernelLaunch::Kind::maximum;
  kernel.dtype = x.dtype;
  course.enter(StepOf::absolute);
  const auto absolute = course.make("absolute", x.tensor, x.dtype);
  course.enter(StepOf::other);
  // Along one dimension it is aten.amax.
  if (scales == Float8Scales::whole) course.enter(StepOf::maximum);
  const auto maximum = course.make("largest", scale_like(x, scales), x.dtype);
  std::optional<Course::Made> copy;
  if (scales == Float8Scales::whole) {
    kernel.reduced = x.rows * x.columns;
    if (x.transposed) copy = course.make("absolute in order", x.tensor, x.dtype);
  } else if (scales == Float8Scales::row) {
    kernel.outer = x.rows;
    kernel.reduced = x.columns;
  } else {
    kernel.reduced = x.rows;
    kernel.inner = x.columns;
    kernel.scratch_bytes = scratch_of(kernel);
  }
  course.launch(std::move(kernel));
  if (copy) course.drop(*copy);
  course.enter(StepOf::other);
  course.drop(absolute);
  return maximum;
}

/// Bytes of the partial maxima that the blocks of a column leave. How many blocks a column has is
/// decided when the kernel is launched (Reduce.cuh, setReduceConfig): of these sizes on this GPU.
Expr Float8Writer::scratch_of(const KernelLaunch& maximum) const {
  if (!device_) return {};
  const auto value = [this](const Expr& size) { return narrow_to_int64(size.evaluate(sizes_)); };
  const std::int64_t element = size_of(maximum.dtype);
  Reduction columns = sum_of_middle(1, value(maximum.reduced), value(maximum.inner), element);
  columns.accumulate_bytes = element;
  std::int64_t bytes = 0;
  for (const ScratchStep& step : reduction_scratch(columns, *device_)) {
    if (step.kind != ScratchStep::Kind::release) bytes = checked_add(bytes, step.bytes);
  }
  return bytes;
}

/// amax_to_scale, and _round_scale_down_to_power_of_2 where the recipe asks for it. Over a divided
/// dimension DTensor has each rank's largest value, and makes them one where they are clamped: an
/// all-reduce out of place, in fp64.
Course::Made Float8Writer::scale_of(Course& course, const Float8Operand& x,
                                    Float8Scales scales) const {
  const TensorId like = scale_like(x, scales);
  const auto largest = this->largest(course, x, scales);
  const auto wide = course.make("largest in fp64", like, DType::fp64);
  std::optional<Course::Made> joint;
  if (is_joint(x, scales)) {
    joint = course.make("largest of all ranks", like, DType::fp64);
    const Expr bytes = Expr(size_of(DType::fp64)) * scales_of(x, scales);
    course.send({.kind = MessageKind::all_reduce, .bytes = bytes});
  }
  const auto clamped = course.make("largest clamped", like, DType::fp64);
  if (joint) course.drop(*joint);
  const auto inverse = course.make("inverse in fp64", like, DType::fp64);
  const auto quotient = course.make("scale in fp64", like, DType::fp64);
  course.drop(inverse);
  course.drop(clamped);
  auto scale = course.make("scale", like, DType::fp32);
  course.drop(quotient);
  if (recipe_ != Float8Recipe::tensorwise) {
    const auto exponent = course.make("exponent", like, DType::fp32);
    const auto whole = course.make("whole exponent", like, DType::fp32);
    course.drop(exponent);
    const auto power = course.make("power of two", like, DType::fp32);
    course.drop(whole);
    course.drop(scale);
    scale = power;
  }
  course.drop(wide);
  course.drop(largest);
  return scale;
}

}  // namespace memest
