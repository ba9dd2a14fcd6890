#include "memest/spec/kernel_shape.hpp"

#include <array>
#include <cstddef>

#include "memest/spec/sample.hpp"

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
constexpr NamesOf<OperandScaling, OperandScaling::fixed> kScalings = {"none", "per-tensor",
                                                                      "block-128", "fixed"};
constexpr NamesOf<KernelPass, KernelPass::backward> kPasses = {"forward", "backward"};
constexpr NamesOf<StreamOp, StreamOp::adamw> kStreamOps = {
    "read",    "write",         "copy",      "scale",   "add",     "triad",
    "cast",    "gelu",          "silu-mul",  "dropout", "softmax", "layernorm",
    "rmsnorm", "cross-entropy", "embedding", "rotary",  "adamw"};
constexpr NamesOf<CollectiveOp, CollectiveOp::all_to_all> kCollectives = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
constexpr NamesOf<TransferPath, TransferPath::managed_migration> kTransfers = {
    "host-to-device-pinned", "device-to-host-pinned", "host-to-device-pageable",
    "device-to-host-pageable", "managed-migration"};
constexpr NamesOf<LaunchPath, LaunchPath::graph> kLaunches = {"stream", "graph"};
constexpr NamesOf<Load, Load::sustained> kLoads = {"burst", "sustained"};

}  // namespace

std::string_view name_of(MatmulPass pass) { return nth(kMatmulPasses, pass); }
std::string_view name_of(OperandScaling scaling) { return nth(kScalings, scaling); }
std::string_view name_of(KernelPass pass) { return nth(kPasses, pass); }
std::string_view name_of(StreamOp op) { return nth(kStreamOps, op); }
std::string_view name_of(CollectiveOp op) { return nth(kCollectives, op); }
std::string_view name_of(TransferPath path) { return nth(kTransfers, path); }
std::string_view name_of(LaunchPath path) { return nth(kLaunches, path); }
std::string_view name_of(Load load) { return nth(kLoads, load); }

}  // namespace memest
