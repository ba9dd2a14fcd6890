#include "time/op_launches.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace memest {
namespace {

/// Eager kernels write one tensor each, so a pass of many kernels launches one for each that it
/// makes: autograd's backward of a product of two tensors two, of a power three. A call that is
/// priced for all of them at once is still one at least.
double made_by(const std::vector<Step>& steps, auto&& writes) {
  return static_cast<double>(std::ranges::count_if(steps, [&](const Step& step) {
    return step.kind == StepKind::allocate && writes(step.tensor);
  }));
}

/// Transformer Engine's grouped products call the library once for every expert, and cast each
/// expert's rows by a kernel (general_grouped_gemm, multi_stream_cublas_batch_gemm); one call where
/// all experts' weights are one tensor.
double times_of(const Op& op, const Block& block) {
  if (class_of(op.kind) != OpClass::contraction) return 1;
  const auto weights = std::ranges::count_if(op.inputs, [&block](TensorId id) {
    const Tensor& tensor = block.tensors[id];
    return tensor.role == Role::parameter && tensor.shape.size() > 1;
  });
  return static_cast<double>(std::max<std::ptrdiff_t>(weights, 1));
}

double forward_launches(const Op& op) {
  return made_by(op.forward_steps, [](std::uint8_t) { return true; });
}

/// The backward of a part of a tensor fills a whole one with zeros and copies its gradient into it
/// (aten.slice_backward, aten.select_backward).
bool fills_first(const Op& op, const Block& block) {
  return op.kind == OpKind::view && !op.backward_steps.empty() &&
         !(block.tensors[op.outputs.front()].elements() ==
           block.tensors[op.inputs.front()].elements());
}

double backward_launches(const Op& op, const Block& block) {
  const double made = made_by(
      op.backward_steps, [&](std::uint8_t tensor) { return op.backward_tensors[tensor].written; });
  return made + (fills_first(op, block) ? 1 : 0);
}

/// Whether the host launches the op's kernels within a part's graph.
bool is_captured(const CudaGraphs& graphs, const Block& block, std::size_t op) {
  const auto part = std::ranges::find_if(block.captured_parts, [op](const CapturedPart& one) {
    return one.begin <= op && op < one.end;
  });
  if (part == block.captured_parts.end()) return false;
  const bool of_experts = part->scope != GraphScope::attn && part->scope != GraphScope::mlp;
  return graphs.has(part->scope) || (of_experts && graphs.has(GraphScope::moe));
}

/// Launches of the host that run a part's graph: the copy of its input into the graph's own, and
/// the graph (Transformer Engine's make_graphed_callables, Graphed.forward and backward).
constexpr double kReplayLaunches = 2;

/// Neighbouring parts are one graph, whose first op has its launches.
void launch_by_graphs(OpWork& op, const Block& block, const CudaGraphs& graphs) {
  const auto index = static_cast<std::size_t>(op.op - block.ops.data());
  if (!is_captured(graphs, block, index)) return;
  const bool first = index == 0 || !is_captured(graphs, block, index - 1);
  const double launches = first ? kReplayLaunches : 0;
  op.launches = {.forward = launches, .backward = launches};
}

}  // namespace

void count_launches(StepWork& work, const Implementation& implementation) {
  const bool eager = implementation.compile == CompileScope::off;
  for (OpWork& op : work.ops) {
    const Block& block = work.graph->blocks[op.block];
    const double times = times_of(*op.op, block);
    op.launches = {.forward = times * static_cast<double>(op.forward_calls.size()),
                   .backward = times * static_cast<double>(op.backward_calls.size())};
    if (eager) {
      op.launches.forward = std::max(op.launches.forward, forward_launches(*op.op));
      op.launches.backward = std::max(op.launches.backward, backward_launches(*op.op, block));
    }
    op.launches.forward += static_cast<double>(op.forward_messages.size());
    op.launches.backward += static_cast<double>(op.backward_messages.size());
    const CudaGraphs& graphs = implementation.cuda_graph;
    if (graphs.full_iteration) {
      op.launches = {};
    } else if (graphs.of_layers() && op.sums == GradientSums::none) {
      launch_by_graphs(op, block, graphs);
    }
  }
}

}  // namespace memest
