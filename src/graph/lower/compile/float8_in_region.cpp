#include "graph/lower/compile/float8_in_region.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "graph/index_lists.hpp"

namespace memest {
namespace {

/// _inductor/config.py, realize_reads_threshold: a value that is computed from more is written once
/// for all who read it, another by each kernel for itself.
constexpr std::size_t kReadsBeforeWritten = 4;

/// Numbers in fp32 that fill a block of the allocator, of which a single one takes a whole.
constexpr std::int64_t kNumbersOfBlock = 128;

DType type_of_result(const Block& block, const Op& op) {
  return block.tensors[op.outputs.front()].dtype;
}

}  // namespace

/// Writes a backward anew, step by step.
class Float8InRegion::Backward {
 public:
  explicit Backward(Op& op) : op_(op) {}

  std::uint8_t make(TensorId like, DType dtype) {
    const auto tensor = static_cast<std::uint8_t>(op_.backward_tensors.size());
    op_.backward_tensors.push_back({like, dtype});
    op_.backward_steps.push_back({StepKind::allocate, tensor});
    return tensor;
  }
  void drop(std::uint8_t tensor) { op_.backward_steps.push_back({StepKind::free, tensor}); }
  std::uint8_t multiply(TensorId like, DType dtype) {
    const std::uint8_t product = make(like, dtype);
    op_.backward_steps.push_back({StepKind::product, product});
    return product;
  }
  void give(TensorId input, std::uint8_t tensor) {
    op_.gradients.push_back({input, tensor, Reach::directly});
  }

 private:
  Op& op_;
};

TensorId Float8InRegion::input_of(std::size_t product) const {
  return values_.value(block_.ops[product].inputs[0]);
}

TensorId Float8InRegion::weight_of(std::size_t product) const {
  return values_.value(block_.ops[product].inputs[1]);
}

std::vector<std::size_t> Float8InRegion::products() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    if (is_in_float8(block_.ops[i])) all.push_back(i);
  }
  return all;
}

std::vector<std::size_t> Float8InRegion::readers_of(TensorId value) const {
  std::vector<std::size_t> readers;
  for (const std::size_t product : products()) {
    if (input_of(product) == value) readers.push_back(product);
  }
  return readers;
}

/// Whether nothing in the region reads the product but the sum that is its result.
bool Float8InRegion::gives_the_result(std::size_t product) const {
  const std::vector<std::size_t> all = products();
  return product == all.back() && values_.is_narrowed(input_of(product));
}

/// _inductor/scheduler.py, can_fusion_increase_peak_memory: kernels more than 64 nodes apart are
/// not joined. A layer that runs again and casts its weights has so many between the casts of the
/// result's gradient by rows and by columns.
bool Float8InRegion::casts_gradient_late(std::size_t product) const {
  if (!gives_the_result(product)) return false;
  // Scales by rows and by columns are of different kernels from the first on.
  if (region_.by_rows) return true;
  return region_.runs_again == RunsAgain::all && !is_gathered_in_fp8(weight_of(product));
}

TensorId Float8InRegion::name(TensorId like, TensorId storage) {
  Tensor tensor = block_.tensors[like];
  const auto id = static_cast<TensorId>(block_.tensors.size());
  tensor.dtype = DType::fp8;
  tensor.role = Role::activation;
  tensor.storage = storage == like ? id : storage;
  block_.tensors.push_back(std::move(tensor));
  return id;
}

/// Read for its largest value, read to be cast, and written.
Expr Float8InRegion::traffic_of_cast(TensorId id) const {
  return Expr(2) * block_.tensors[id].bytes() + bytes_in_fp8(id);
}

void Float8InRegion::write_kernel(const GeneratedKernel& kernel, Op& op) {
  const TensorId x = kernel.result;
  if (!values_.is_narrowed(x)) return;
  const std::vector<std::size_t> readers = readers_of(x);
  // The largest value is one more that is read.
  const bool for_each = kernel.reads.size() + kernel.remembers.size() + 1 <= kReadsBeforeWritten &&
                        readers.size() > 1;
  std::vector<TensorId> waiting;
  for (const std::size_t reader : readers) {
    const bool first = reader == readers.front();
    const TensorId copy = for_each && !first ? name(x, x) : x;
    if (copy != x) op.outputs.push_back(copy);
    waiting.push_back(name(block_.ops[reader].outputs.front(), x));
    names_[reader] = {copy, waiting.back()};
  }
  op.outputs.insert(op.outputs.end(), waiting.begin(), waiting.end());
  for (const TensorId id : kernel.reads) op.forward.bytes += block_.tensors[id].bytes();
  write_kernels_backward(kernel, op, for_each);
}

void Float8InRegion::write_kernels_backward(const GeneratedKernel& kernel, Op& op, bool for_each) {
  const TensorId x = kernel.result;
  const std::vector<std::size_t> readers = readers_of(x);
  std::vector<TensorId> sources;
  values_.append_sources(x, sources);
  for (const TensorId source : sources) {
    op.backward.bytes += Expr(2) * block_.tensors[source].bytes();
    if (block_.tensors[source].role != Role::parameter) add_once(op.saved, source);
  }
  add_casts_of_recomputed(kernel, op);
  const std::vector<std::uint8_t> wide = make_wide_gradients(kernel, op);
  Backward backward(op);
  std::vector<std::uint8_t> made_again;
  for (std::size_t i = 0; i < (for_each ? readers.size() : 1); ++i) {
    made_again.push_back(backward.make(x, DType::fp8));
    op.backward.bytes += bytes_in_fp8(x);
  }
  for (const std::uint8_t made : wide) backward.drop(made);
  for (std::size_t i = 0; i < op.saved.size(); ++i) {
    if (block_.tensors[op.saved[i]].role == Role::parameter) continue;
    op.backward_steps.push_back({StepKind::drop_saved, static_cast<std::uint8_t>(i)});
  }
  op.own_steps = op.backward_steps.size();
  for (const std::size_t reader : readers) {
    const Op& product = block_.ops[reader];
    if (casts_gradient_late(reader)) {
      made_again.push_back(backward.make(product.outputs.front(), DType::fp8));
    }
    const TensorId weight = weight_of(reader);
    backward.give(weight, backward.multiply(weight, type_of_result(block_, product)));
  }
  for (const std::uint8_t made : made_again) backward.drop(made);
}

/// float8_ops.py, addmm_float8_unwrapped: without fast accumulation a product by rows is scaled
/// behind, which Inductor does in fp32. The largest values of columns are another kernel's than
/// those of rows, so that the gradients lie there in fp32 between, and one is cast by columns
/// later.
std::vector<std::uint8_t> Float8InRegion::make_wide_gradients(const GeneratedKernel& kernel,
                                                              Op& op) const {
  std::vector<std::uint8_t> wide;
  if (!region_.by_rows || !kernel.is_elementwise) return wide;
  Backward backward(op);
  wide.push_back(backward.make(kernel.result, DType::fp32));
  for (const FusedGradient& gradient : kernel.gradients) {
    op.backward.bytes += Expr(2 * size_of(DType::fp32)) * bytes_in_fp8(gradient.like);
    if (&gradient != &kernel.gradients.back()) {
      wide.push_back(backward.make(gradient.like, DType::fp32));
      continue;
    }
    // Its copy by columns is not there yet: a byte an element less.
    wide.push_back(backward.make(gradient.like, DType::bf16));
    wide.push_back(backward.make(gradient.like, DType::fp8));
  }
  return wide;
}

/// Products that run again behind attention cast for both passes at once: a weight by rows and by
/// columns, and so an input that a library made. The copies by columns lie there until their
/// products.
void Float8InRegion::add_casts_of_recomputed(const GeneratedKernel& kernel, Op& op) {
  if (region_.runs_again == RunsAgain::nothing) return;
  bool behind = false;
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& product = block_.ops[i];
    behind = behind || product.kind == OpKind::attention;
    if (!behind || !is_in_float8(product)) continue;
    if (input_of(i) == kernel.result) return;
    if (region_.by_rows && !values_.is_narrowed(input_of(i))) continue;
    const bool kept = region_.runs_again == RunsAgain::all_but_selected && product.kept_selectively;
    const TensorId weight = weight_of(i);
    if (!kept && !is_gathered_in_fp8(weight)) {
      op.made_when_recomputed.push_back(name(weight, weight));
    }
    if (!values_.is_narrowed(input_of(i))) {
      op.made_when_recomputed.push_back(name(input_of(i), input_of(i)));
    }
  }
}

/// Whether the gradient of `value` is a tensor that is there anyway: a library kernel's, or one
/// that other inputs of the sum share. Elsewhere the kernel that computes it writes it in fp8, by
/// rows and by columns: as many bytes as it has in 16 bits.
bool Float8InRegion::has_gradient_beside(TensorId value) const {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const GeneratedKernel& kernel = kernels_.kernel(i);
    for (const FusedGradient& gradient : kernel.gradients) {
      if (!has(gradient.inputs, value)) continue;
      return gradient.inputs.size() > 1 || gradient.ends_at == kernel.result;
    }
  }
  return std::any_of(block_.ops.begin(), block_.ops.end(), [&](const Op& op) {
    const auto reads = [&](TensorId id) { return values_.value(id) == value; };
    return op.kind == OpKind::attention && std::any_of(op.inputs.begin(), op.inputs.end(), reads);
  });
}

void Float8InRegion::write_forward(Op& op, bool made_in_fp8) {
  const TensorId x = values_.value(op.inputs[0]);
  const TensorId weight = values_.value(op.inputs[1]);
  op.casts.scaling = OperandScaling::per_tensor;
  const auto cast = [&](TensorId operand) {
    op.forward_scratch.push_back(name(operand, operand));
    block_.tensors.back().role = Role::workspace;
    op.casts.forward += traffic_of_cast(operand);
  };
  if (!made_in_fp8) cast(x);
  if (!is_gathered_in_fp8(weight)) cast(weight);
}

/// partitioners.py, get_node_weight: parameters are free to keep, and told by their place among the
/// arguments. A weight gathered in fp8 counts twice there, for its scale (PyTorch 2.11), which
/// moves those of the feed-forward out of the places of parameters: not they are kept, but the
/// copies by columns that the backward multiplies by.
bool Float8InRegion::keep_weight_by_columns(Op& op, std::size_t at) {
  const auto is_attention = [](const Op& one) { return one.kind == OpKind::attention; };
  const auto core = std::find_if(block_.ops.begin(), block_.ops.end(), is_attention);
  const bool feeds_forward = block_.ops.begin() + static_cast<std::ptrdiff_t>(at) > core &&
                             values_.is_narrowed(input_of(at));
  const TensorId weight = weight_of(at);
  const bool keeps =
      region_.runs_again == RunsAgain::nothing && feeds_forward && is_gathered_in_fp8(weight);
  if (!keeps) return false;
  const TensorId copy = name(weight, weight);
  op.outputs.push_back(copy);
  op.saved.push_back(copy);
  op.casts.forward += Expr(2) * bytes_in_fp8(weight);
  return true;
}

/// Numbers that the region keeps: of each weight its largest value and the scale's reciprocal, or
/// the latter of one gathered in fp8. A selective checkpoint keeps what aten.max answers
/// (torchtitan's list), but of the last input, and the reciprocals that the kept products read;
/// aten.amax, of which scales by rows are made, is not in that list.
std::size_t Float8InRegion::count_scales() const {
  const std::vector<std::size_t> all = products();
  const auto gathered = static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](std::size_t at) { return is_gathered_in_fp8(weight_of(at)); }));
  if (region_.runs_again == RunsAgain::nothing) return 2 * all.size() - gathered;
  std::size_t count = all.size() - gathered;
  std::vector<TensorId> inputs;
  for (const std::size_t at : all) {
    if (block_.ops[at].kept_selectively) ++count;
    if (!gives_the_result(at)) add_once(inputs, input_of(at));
  }
  return count + inputs.size() + inputs_of_kept().size();
}

std::vector<TensorId> Float8InRegion::inputs_of_kept() const {
  std::vector<TensorId> inputs;
  for (const std::size_t at : products()) {
    if (block_.ops[at].kept_selectively && !gives_the_result(at)) add_once(inputs, input_of(at));
  }
  return inputs;
}

void Float8InRegion::keep_scales(Op& op) {
  const bool selects = region_.runs_again == RunsAgain::all_but_selected;
  if (region_.runs_again == RunsAgain::all || (region_.by_rows && !selects)) return;
  Tensor numbers;
  numbers.op = op.name;
  numbers.name = "scales";
  if (region_.by_rows) {
    numbers.shape = block_.tensors[op.outputs.front()].shape;
    numbers.shape.back() = Expr(static_cast<std::int64_t>(inputs_of_kept().size()));
  } else {
    numbers.shape = {Expr(kNumbersOfBlock * static_cast<std::int64_t>(count_scales()))};
  }
  numbers.storage = static_cast<TensorId>(block_.tensors.size());
  op.outputs.push_back(numbers.storage);
  op.saved.push_back(numbers.storage);
  block_.tensors.push_back(std::move(numbers));
}

void Float8InRegion::write_product(Op& op, std::size_t at) {
  const TensorId x = input_of(at);
  const TensorId weight = weight_of(at);
  const TensorId out = op.outputs.front();
  const DType type = type_of_result(block_, op);
  const bool made_in_fp8 = values_.is_narrowed(x);
  write_forward(op, made_in_fp8);
  if (at == products().front()) keep_scales(op);
  const bool has_columns = keep_weight_by_columns(op, at);
  const TensorId to_input = op.gradients.front().input;
  op.gradients.clear();
  op.backward_tensors.clear();
  op.backward_steps.clear();
  Backward backward(op);
  const bool late = casts_gradient_late(at);
  std::optional<std::uint8_t> rows;
  std::optional<std::uint8_t> columns;
  if (has_gradient_beside(values_.value(out))) {
    rows = backward.make(out, DType::fp8);
    if (!late) columns = backward.make(out, DType::fp8);
    op.casts.backward += traffic_of_cast(out) + bytes_in_fp8(out);
  }
  std::optional<std::uint8_t> weight_in_fp8;
  if (!has_columns) {
    weight_in_fp8 = backward.make(weight, DType::fp8);
    op.casts.backward += block_.tensors[weight].bytes() + bytes_in_fp8(weight);
  }
  const std::uint8_t dx = backward.multiply(x, type);
  if (weight_in_fp8) backward.drop(*weight_in_fp8);
  if (rows) backward.drop(*rows);
  if (!columns && !late) columns = backward.make(out, DType::fp8);
  backward.give(to_input, dx);
  if (made_in_fp8) {
    const Names& names = names_.at(at);
    op.inputs[0] = names.copy;
    std::erase(op.saved, x);
    if (columns) backward.give(names.waiting, *columns);
    return;
  }
  const std::uint8_t by_columns = backward.make(x, DType::fp8);
  op.casts.backward += traffic_of_cast(x);
  const std::uint8_t dw = backward.multiply(weight, type);
  backward.drop(by_columns);
  backward.drop(*columns);
  backward.give(weight, dw);
}

}  // namespace memest
