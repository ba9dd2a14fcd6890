#include "time/recorded/operator_traffic.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace memest {
namespace {

/// "mul_" of "aten::mul_".
std::string_view short_name(const RecordedOperator& op) {
  const std::string_view name = op.name;
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

template <std::size_t kSize>
bool is_one_of(std::string_view name, const std::array<std::string_view, kSize>& names) {
  return std::ranges::find(names, name) != names.end();
}

/// They write their first tensor and do not read it.
constexpr std::array<std::string_view, 11> kOverwriting = {
    "copy_",      "fill_",        "zero_",  "normal_",        "uniform_",      "random_",
    "bernoulli_", "exponential_", "arange", "_foreach_copy_", "_foreach_zero_"};

/// They read rows or elements of their first tensor, as many as they return.
constexpr std::array<std::string_view, 6> kGathering = {
    "embedding", "index", "gather", "take", "index_select", "masked_select"};

/// They add rows of a tensor to those of another, which they read and write there alone. The
/// argument that has the rows.
struct Scattering {
  std::string_view name;
  std::size_t rows;
};
constexpr std::array kScattering = {Scattering{"embedding_dense_backward", 0},
                                    Scattering{"index_put_", 2},
                                    Scattering{"_index_put_impl_", 2},
                                    Scattering{"index_add_", 3},
                                    Scattering{"scatter_add_", 3},
                                    Scattering{"scatter_", 3},
                                    Scattering{"nll_loss_forward", 1},
                                    Scattering{"nll_loss_backward", 2},
                                    Scattering{"nll_loss2d_forward", 1},
                                    Scattering{"nll_loss2d_backward", 2}};

/// Arguments that optimizers write, of those that they read. Source: aten/src/ATen/native/
/// native_functions.yaml, the (a!) of their schemas.
struct Stepping {
  std::string_view name;
  std::array<std::size_t, 3> written;
};
constexpr std::array kStepping = {
    Stepping{"_fused_adamw_", {0, 2, 3}}, Stepping{"_fused_adam_", {0, 2, 3}},
    Stepping{"_fused_sgd_", {0, 2, 2}}, Stepping{"_fused_adagrad_", {0, 2, 2}}};

Bytes sum_of(const std::vector<RecordedTensor>& tensors) {
  Bytes bytes;
  for (const RecordedTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

Bytes read_by(const RecordedOperator& op, std::size_t first) {
  Bytes bytes;
  for (std::size_t i = first; i < op.arguments.size(); ++i) bytes += sum_of(op.tensors(i));
  return bytes;
}

Bytes written_by(const RecordedOperator& op, std::string_view name) {
  const auto* const step = std::ranges::find(kStepping, name, &Stepping::name);
  if (step != kStepping.end()) {
    Bytes bytes = sum_of(op.tensors(step->written[0])) + sum_of(op.tensors(step->written[1]));
    if (step->written[2] != step->written[1]) bytes += sum_of(op.tensors(step->written[2]));
    return bytes;
  }
  const Bytes results = sum_of(op.results);
  // Operators in place return nothing where they take lists: _foreach_mul_ writes its first.
  return results == Bytes() && name.ends_with('_') ? sum_of(op.tensors(0)) : results;
}

struct NamedStream {
  std::string_view part;  ///< of an operator's name
  StreamOp op;
};
/// The first that a name has.
constexpr std::array kStreams = {
    NamedStream{"softmax", StreamOp::softmax},
    NamedStream{"layer_norm", StreamOp::layernorm},
    NamedStream{"group_norm", StreamOp::layernorm},
    NamedStream{"batch_norm", StreamOp::layernorm},
    NamedStream{"rms_norm", StreamOp::rmsnorm},
    NamedStream{"nll_loss", StreamOp::cross_entropy},
    NamedStream{"cross_entropy", StreamOp::cross_entropy},
    NamedStream{"dropout", StreamOp::dropout},
    NamedStream{"embedding", StreamOp::embedding},
    NamedStream{"_fused_adam", StreamOp::adamw},
    NamedStream{"_fused_sgd", StreamOp::adamw},
    NamedStream{"_foreach_", StreamOp::adamw},
    NamedStream{"fill_", StreamOp::copy},
    NamedStream{"zero_", StreamOp::copy},
    NamedStream{"gelu", StreamOp::gelu},
    NamedStream{"silu", StreamOp::gelu},
    NamedStream{"relu", StreamOp::gelu},
    NamedStream{"tanh", StreamOp::gelu},
    NamedStream{"sigmoid", StreamOp::gelu},
    NamedStream{"pow", StreamOp::gelu},
    NamedStream{"copy_", StreamOp::copy},
    NamedStream{"cat", StreamOp::copy},
    NamedStream{"index", StreamOp::copy},
    NamedStream{"gather", StreamOp::copy},
    NamedStream{"sum", StreamOp::layernorm},
    NamedStream{"mean", StreamOp::layernorm},
    NamedStream{"norm", StreamOp::layernorm},
    NamedStream{"amax", StreamOp::layernorm},
};

const RecordedTensor* largest_of(const std::vector<RecordedTensor>& tensors) {
  const auto found = std::ranges::max_element(
      tensors, {}, [](const RecordedTensor& tensor) { return tensor.elements(); });
  return found == tensors.end() ? nullptr : &*found;
}

/// Rows times a weight, heads times a table of cosines: an operand of fewer elements than the
/// result, and more than one.
bool broadcasts(const RecordedOperator& op, const RecordedTensor& result) {
  return std::ranges::any_of(op.arguments, [&](const RecordedArgument& argument) {
    const auto* const tensors = std::get_if<std::vector<RecordedTensor>>(&argument);
    return tensors != nullptr && tensors->size() == 1 && tensors->front().stored > 1 &&
           tensors->front().stored < result.elements();
  });
}

bool is_arithmetic(std::string_view name) {
  constexpr std::array<std::string_view, 8> kArithmetic = {"mul", "mul_", "add", "add_",
                                                           "sub", "sub_", "div", "div_"};
  return is_one_of(name, kArithmetic);
}

/// A copy between types; whole vectors are moved but where it widens (CUDALoops.cuh).
StreamOp copy_between(const RecordedOperator& op) {
  const std::vector<RecordedTensor>& from = op.tensors(1);
  if (from.empty() || op.results.empty()) return StreamOp::copy;
  const std::int64_t read = from.front().element_bytes;
  const std::int64_t written = op.results.front().element_bytes;
  if (read == written) return StreamOp::copy;
  return read < written ? StreamOp::by_element : StreamOp::cast;
}

StreamOp stream_op_named(const RecordedOperator& op, const RecordedTensor& result) {
  const std::string_view name = short_name(op);
  if (name == "copy_") return copy_between(op);
  if (is_arithmetic(name)) {
    if (broadcasts(op, result)) return StreamOp::by_element;
    return op.tensors(1).empty() ? StreamOp::scale : StreamOp::add;
  }
  const auto* const row = std::ranges::find_if(kStreams, [name](const NamedStream& other) {
    return name.find(other.part) != std::string_view::npos;
  });
  return row == kStreams.end() ? StreamOp::add : row->op;
}

}  // namespace

Bytes traffic_of(const RecordedOperator& op) {
  const std::string_view name = short_name(op);
  const auto* const scattering = std::ranges::find(kScattering, name, &Scattering::name);
  // Each row is read, and read and written where it is added to.
  if (scattering != kScattering.end()) return 3 * sum_of(op.tensors(scattering->rows));
  const Bytes written = written_by(op, name);
  if (is_one_of(name, kGathering)) return 2 * written + read_by(op, 1);
  return written + read_by(op, is_one_of(name, kOverwriting) ? 1 : 0);
}

StreamShape stream_of(const RecordedOperator& op) {
  const RecordedTensor* result = largest_of(op.results);
  if (result == nullptr) result = largest_of(op.tensors(0));
  StreamShape shape;
  shape.bytes = traffic_of(op).value();
  if (op.name.find("backward") != std::string_view::npos) shape.pass = KernelPass::backward;
  if (result == nullptr) return shape;
  shape.op = stream_op_named(op, *result);
  shape.dtype = result->dtype;
  shape.columns = result->shape.empty() ? 1 : result->shape.back();
  shape.rows = shape.columns == 0 ? 0 : result->elements() / shape.columns;
  return shape;
}

}  // namespace memest
