// Hand-made blocks of a few operators, for the rules of the timeline.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"

namespace memest::testing {

/// A block under construction. Sizes are elements of fp32, so a tensor of n takes 4·n bytes.
class BlockSketch {
 public:
  explicit BlockSketch(std::string name) { block_.name = std::move(name); }

  TensorId tensor(std::string_view name, std::int64_t elements, Role role = Role::activation) {
    Tensor tensor;
    tensor.op = "op";
    tensor.name = name;
    tensor.shape = {Expr(elements)};
    tensor.role = role;
    tensor.storage = static_cast<TensorId>(block_.tensors.size());
    block_.tensors.push_back(std::move(tensor));
    return block_.tensors.back().storage;
  }
  TensorId input(std::int64_t elements) {
    block_.input = tensor("input", elements, Role::input);
    return block_.input;
  }
  TensorId view(std::string_view name, TensorId base) {
    const TensorId id = tensor(name, 1);
    block_.tensors[id] = block_.tensors[base];
    block_.tensors[id].name = name;
    return id;
  }
  Tensor& operator[](TensorId id) { return block_.tensors[id]; }

  Op& op(OpKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    Op op;
    op.kind = kind;
    op.name = "op";
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    block_.output = op.outputs.front();
    block_.ops.push_back(std::move(op));
    return block_.ops.back();
  }
  Block take(bool checkpointable = false) && {
    block_.checkpointable = checkpointable;
    return std::move(block_);
  }

 private:
  Block block_;
};

/// The op's backward makes a gradient for each of `inputs`.
inline void differentiate(Op& op, const std::vector<TensorId>& inputs) {
  for (const TensorId input : inputs) {
    const auto index = static_cast<std::uint8_t>(op.backward_tensors.size());
    op.backward_tensors.push_back({input, DType::fp32});
    op.backward_steps.push_back({StepKind::allocate, index});
    op.gradients.push_back({input, index, Reach::directly});
  }
}

inline Graph graph_of(std::vector<Block> blocks) {
  Graph graph;
  bind_tokens(graph.sizes, 1, 8);
  for (Block& block : blocks) {
    graph.order.push_back({graph.blocks.size(), 1});
    graph.blocks.push_back(std::move(block));
  }
  return graph;
}

inline Job one_step(const std::string& recipe = "fp32") {
  Job job = job_of(recipe, "sgd");
  job.training->steps = 1;
  return job;
}

inline Timeline timeline_of(const Graph& graph, const Job& job) {
  return std::get<Timeline>(write_timeline(graph, job));
}

/// The events of a phase of the first step as text: "+4 h" for 4 bytes made, "-h" for their end,
/// with the name of the tensor, or of what its gradient is like ("d h").
inline std::string events_of(const Timeline& timeline, const Graph& graph, Phase phase) {
  std::string text;
  for (const Span& span : timeline.spans) {
    if (span.phase != phase || span.step > 1) continue;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
      const Event event = timeline.events[i];
      const Storage& storage = timeline.storages[event.storage];
      const Label& label = storage.label;
      if (!text.empty()) text += ' ';
      text += event.kind == EventKind::allocate ? '+' : '-';
      if (label.origin == Origin::loop) {
        text += name_of(static_cast<LoopTensor>(label.tensor));
        continue;
      }
      if (label.origin == Origin::backward) text += "d";
      if (label.origin == Origin::recompute) text += "again ";
      if (label.tensor == kKernelScratch) {
        text += "scratch";
        continue;
      }
      text += graph.blocks[timeline.places[label.place].block].tensors[label.tensor].name;
    }
  }
  return text;
}

}  // namespace memest::testing
