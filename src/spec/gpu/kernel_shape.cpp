#include "memest/spec/gpu/kernel_shape.hpp"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "memest/spec/gpu/ceiling.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The names of an enumeration whose last value is `last`, in its order.
template <class Enum, Enum last>
using NamesOf = std::array<std::string_view, static_cast<std::size_t>(last) + 1>;

template <class Names, class Enum>
std::string_view nth(const Names& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

constexpr NamesOf<MatmulPass, MatmulPass::weight_gradient> kMatmulPasses = {
    "forward", "data-gradient", "weight-gradient"};
constexpr NamesOf<OperandScaling, OperandScaling::block_16> kScalings = {
    "none", "per-tensor", "block-128", "fixed", "block-16"};
constexpr NamesOf<KernelPass, KernelPass::backward> kPasses = {"forward", "backward"};
constexpr NamesOf<StreamOp, StreamOp::adamw> kStreamOps = {
    "read",       "write",   "copy",          "scale",     "add",     "triad",
    "by-element", "cast",    "gelu",          "silu-mul",  "dropout", "softmax",
    "layernorm",  "rmsnorm", "cross-entropy", "embedding", "rotary",  "adamw"};
constexpr NamesOf<CollectiveOp, CollectiveOp::all_to_all> kCollectives = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
constexpr NamesOf<TransferPath, TransferPath::managed_migration> kTransfers = {
    "host-to-device-pinned", "device-to-host-pinned", "host-to-device-pageable",
    "device-to-host-pageable", "managed-migration"};
constexpr NamesOf<LaunchPath, LaunchPath::graph> kLaunches = {"stream", "graph"};
constexpr NamesOf<Load, Load::sustained> kLoads = {"burst", "sustained"};

/// Words with a blank between them.
template <class... Words>
std::string sentence(const Words&... words) {
  std::string text;
  for (const std::string_view word : {std::string_view(words)...}) {
    text += text.empty() ? "" : " ";
    text += word;
  }
  return text;
}

std::string sizes(std::initializer_list<std::int64_t> counts) {
  std::string text;
  for (const std::int64_t count : counts) {
    text += (text.empty() ? "" : " × ") + std::to_string(count);
  }
  return text;
}

struct ShapeText {
  std::string operator()(const MatmulShape& shape) const {
    const std::string_view operand = shape.tensor_float ? "tf32" : name_of(shape.operand);
    const std::string size = sizes({shape.m, shape.n, shape.k});
    const std::string batch = shape.batch > 1 ? std::to_string(shape.batch) + " times " : "";
    return sentence("matmul", operand, name_of(shape.pass), batch + size);
  }
  std::string operator()(const AttentionShape& shape) const {
    return sentence("attention", name_of(shape.dtype), name_of(shape.pass),
                    shape.causal ? "causal" : "full",
                    sizes({shape.batch, shape.heads, shape.seq_len, shape.head_dim}));
  }
  std::string operator()(const StreamShape& shape) const {
    return sentence(name_of(shape.op), name_of(shape.dtype), name_of(shape.pass),
                    sizes({shape.rows, shape.columns}));
  }
  std::string operator()(const CollectiveShape& shape) const {
    return sentence(name_of(shape.op), std::to_string(shape.gpus), "GPUs",
                    binary_text(Bytes(shape.bytes)));
  }
  std::string operator()(const TransferShape& shape) const {
    return sentence(name_of(shape.path), binary_text(Bytes(shape.bytes)));
  }
  std::string operator()(const LaunchShape& shape) const {
    return sentence("launch by", name_of(shape.path));
  }
};

}  // namespace

std::string ceiling_name(const KernelShape& shape) {
  if (const auto* matmul = std::get_if<MatmulShape>(&shape)) {
    return sentence("matmul", matmul->tensor_float ? "tf32" : name_of(matmul->operand));
  }
  if (const auto* stream = std::get_if<StreamShape>(&shape)) {
    return sentence(name_of(stream->op), name_of(stream->pass));
  }
  return text_of(shape);
}

std::string text_of(const KernelShape& shape) { return std::visit(ShapeText{}, shape); }

std::string_view name_of(MatmulPass pass) { return nth(kMatmulPasses, pass); }
std::string_view name_of(OperandScaling scaling) { return nth(kScalings, scaling); }
std::string_view name_of(KernelPass pass) { return nth(kPasses, pass); }
std::string_view name_of(StreamOp op) { return nth(kStreamOps, op); }
std::string_view name_of(CollectiveOp op) { return nth(kCollectives, op); }
std::string_view name_of(TransferPath path) { return nth(kTransfers, path); }
std::string_view name_of(LaunchPath path) { return nth(kLaunches, path); }
std::string_view name_of(Load load) { return nth(kLoads, load); }

}  // namespace memest
