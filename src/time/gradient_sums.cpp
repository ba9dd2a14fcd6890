#include "time/gradient_sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Autograd's node of a tensor waits for all gradients of it, and adds each to those before
/// (torch/csrc/autograd/input_buffer.cpp, InputBuffer::accumulate). In place or not, a sum reads
/// two tensors and writes one.
constexpr double kTensorsOfSum = 3;

const Op& op_of_sums() {
  static const Op sums = [] {
    Op op;
    op.kind = OpKind::add;
    op.name = "sums of gradients";
    return op;
  }();
  return sums;
}

/// Gradients that reach a tensor in one execution of a block.
struct Arrivals {
  std::size_t block = 0;
  TensorId tensor = 0;
  double count = 0;
};

bool makes_weight(const Op& op, const Block& block) {
  return std::ranges::any_of(
      op.outputs, [&block](TensorId id) { return block.tensors[id].role == Role::cast_parameter; });
}

class SumWriter {
 public:
  SumWriter(const Graph& graph, const Bindings& sizes, const std::vector<double>& executions)
      : graph_(graph), sizes_(sizes), executions_(executions) {}

  std::vector<OpWork> write() && {
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      sums_.push_back(empty_sum(block));
      const bool fused = graph_.blocks[block].compiled || graph_.is_one_region;
      if (executions_[block] == 0 || fused) continue;
      for (const Op& op : graph_.blocks[block].ops) add_bias(sums_.back(), op);
      for (const Arrivals& arrivals : arrivals_in(block)) sort_in(arrivals);
    }
    for (const auto& [name, members] : named_) add_named(members);
    add_table();
    std::erase_if(sums_, [](const OpWork& sum) { return sum.backward_calls.empty(); });
    return std::move(sums_);
  }

 private:
  [[nodiscard]] OpWork empty_sum(std::size_t block) const {
    OpWork sum;
    sum.op = &op_of_sums();
    sum.sums = GradientSums::of_block;
    sum.block = block;
    sum.executions = executions_[block];
    return sum;
  }

  [[nodiscard]] const Tensor& tensor_of(const Arrivals& arrivals) const {
    return graph_.blocks[arrivals.block].tensors[arrivals.tensor];
  }

  /// A linear layer hands its output's gradient on as that of its bias, and the engine sums the
  /// rows (engine.cpp, validate_outputs): a launch of the operation, as it is counted. Transformer
  /// Engine's products and casts sum them on their way.
  void add_bias(OpWork& sums, const Op& op) const {
    const Block& block = graph_.blocks[sums.block];
    const bool fused = op.workspace == Workspace::transformer_engine;
    const auto is_of_bias = [&](const InputGradient& gradient) {
      return block.tensors[gradient.input].shape.size() == 1;
    };
    if (op.kind != OpKind::linear || fused || std::ranges::none_of(op.gradients, is_of_bias)) {
      return;
    }
    const Tensor& result = block.tensors[op.outputs.front()];
    StreamShape sum{.op = StreamOp::layernorm, .dtype = result.dtype};
    sum.bytes = result.bytes().bytes(sizes_).value();
    sums.backward.bytes += static_cast<double>(sum.bytes);
    sums.backward_calls.emplace_back(sum);
  }

  [[nodiscard]] std::vector<Arrivals> arrivals_in(std::size_t index) const {
    const Block& block = graph_.blocks[index];
    std::vector<double> counts(block.tensors.size(), 0);
    for (const Op& op : block.ops) {
      // Autocast casts weights that layers share once, and what it made has the users.
      if (graph_.shared_layers && makes_weight(op, block)) continue;
      for (const InputGradient& gradient : op.gradients) counts[gradient.input] += 1;
    }
    std::vector<Arrivals> arrivals;
    for (TensorId id = 0; id < counts.size(); ++id) {
      if (counts[id] > 0) arrivals.push_back({index, id, counts[id]});
    }
    return arrivals;
  }

  /// The first gradient of a tensor is taken as it is, all others are added to it. Where a tensor
  /// has users in several blocks, the first is the last block's.
  void sort_in(const Arrivals& arrivals) {
    const Block& block = graph_.blocks[arrivals.block];
    const Tensor& tensor = tensor_of(arrivals);
    const bool is_parameter = tensor.role == Role::parameter;
    if (is_parameter && (tensor.shared || is_table(arrivals))) {
      table_.push_back(arrivals);
    } else if (tensor.shared || tensor.outlives_block) {
      named_[tensor.name].push_back(arrivals);
    } else if (is_parameter || tensor.role == Role::cast_parameter) {
      add(sums_[arrivals.block], tensor, arrivals.count - 1 / uses_of_weights(block));
    } else {
      const bool is_last = arrivals.block == graph_.order.back().block;
      const bool waits = arrivals.tensor == block.output && !is_last;
      add(sums_[arrivals.block], tensor, arrivals.count - (waits ? 0 : 1));
    }
  }

  /// The table that a tied head shares: the first that the model looks up.
  [[nodiscard]] bool is_table(const Arrivals& arrivals) const {
    const std::size_t first = graph_.order.front().block;
    if (arrivals.block != first) return false;
    const std::vector<Op>& ops = graph_.blocks[first].ops;
    const auto looks_up = std::ranges::find(ops, OpKind::embedding, &Op::kind);
    return looks_up != ops.end() &&
           std::ranges::find(looks_up->inputs, arrivals.tensor) != looks_up->inputs.end();
  }

  /// Layers that read one layer's weights.
  [[nodiscard]] double uses_of_weights(const Block& block) const {
    if (!graph_.shared_layers || !block.checkpointable) return 1;
    return static_cast<double>(graph_.layers()) /
           static_cast<double>(graph_.shared_layers->distinct);
  }

  [[nodiscard]] double all_of(const std::vector<Arrivals>& members) const {
    double all = 0;
    for (const Arrivals& member : members) all += executions_[member.block] * member.count;
    return all;
  }

  void add_named(const std::vector<Arrivals>& members) {
    const double all = all_of(members);
    for (const Arrivals& member : members) {
      add(sums_[member.block], tensor_of(member), member.count * (all - 1) / all);
    }
  }

  void add_table() {
    if (table_.empty()) return;
    OpWork sum = empty_sum(graph_.order.front().block);
    sum.executions = 1;
    sum.sums = GradientSums::of_ends;
    add(sum, tensor_of(table_.front()), all_of(table_) - 1);
    sums_.push_back(std::move(sum));
  }

  /// A sum less than one an execution is spread over all: one of several layers may lack it.
  void add(OpWork& sum, const Tensor& tensor, double times) const {
    const double bytes = kTensorsOfSum * tensor.bytes().bytes(sizes_).as_double();
    sum.launches.backward += times;
    sum.backward.bytes += times * bytes;
    const auto add_call = [&](double part) {
      StreamShape shape{.op = StreamOp::add, .dtype = tensor.dtype};
      shape.bytes = std::llround(part * bytes);
      sum.backward_calls.emplace_back(shape);
    };
    const auto whole = static_cast<std::int64_t>(times);
    for (std::int64_t i = 0; i < whole; ++i) add_call(1);
    const double rest = times - static_cast<double>(whole);
    if (rest > 0) add_call(rest);
  }

  const Graph& graph_;
  const Bindings& sizes_;
  const std::vector<double>& executions_;
  std::vector<OpWork> sums_;  // by block, then the table's
  std::map<std::string_view, std::vector<Arrivals>> named_;
  std::vector<Arrivals> table_;
};

}  // namespace

std::vector<OpWork> gradient_sums(const Graph& graph, const Bindings& sizes,
                                  const std::vector<double>& executions) {
  return SumWriter(graph, sizes, executions).write();
}

}  // namespace memest
