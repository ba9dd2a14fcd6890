#include "memory/states/gathered_elements.hpp"

#include <utility>

#include "memest/spec/dtype.hpp"

namespace memest {
namespace {

/// Bytes an element while a share is cast: it is scaled and clamped in fp32, then written in fp8
/// (float8_shares.cpp); those cast before it stay.
constexpr std::int64_t kCastElement = 2 * size_of(DType::fp32) + size_of(DType::fp8);

}  // namespace

ExpertOps expert_ops_of(const Block& block) {
  ExpertOps experts;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (!reach(block.ops[i].forward_messages, RankGroup::expert)) continue;
    if (experts.end == 0) experts.begin = i;
    experts.end = i + 1;
  }
  for (std::size_t i = experts.begin; i < experts.end; ++i) {
    for (const TensorId id : block.ops[i].inputs) {
      if (block.tensors[id].role != Role::parameter) continue;
      experts.last = block.tensors[id].elements();
      experts.elements += experts.last;
    }
  }
  return experts;
}

GatheredElements gathered_elements(const Graph& graph, const Block& block) {
  GatheredElements own{.all = block.parameters()};
  Int128 most = 0;
  for (const Tensor& tensor : block.tensors) {
    const bool is_own = tensor.role == Role::parameter && !tensor.shared;
    if (!is_own || tensor.dtype != DType::fp8) continue;
    Expr casting = own.in_fp8 + Expr(kCastElement) * tensor.elements();
    own.in_fp8 += tensor.elements();
    const Int128 bytes = casting.evaluate(graph.sizes);
    if (bytes <= most) continue;
    most = bytes;
    own.casting = std::move(casting);
  }
  return own;
}

GatheredElements& GatheredElements::operator+=(const GatheredElements& other) {
  all += other.all;
  if (!other.casting.is_zero()) casting = in_fp8 + other.casting;
  in_fp8 += other.in_fp8;
  return *this;
}

/// `other` is one of the units that these are of.
GatheredElements& GatheredElements::operator-=(const GatheredElements& other) {
  all -= other.all;
  in_fp8 -= other.in_fp8;
  if (in_fp8.is_zero()) casting = {};
  return *this;
}

GatheredElements times(std::int64_t count, const GatheredElements& unit) {
  return {count * unit.all, count * unit.in_fp8};
}

}  // namespace memest
