#include "memest/graph/forward_storages.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/index_lists.hpp"

namespace memest {
namespace {

class PassWalk {
 public:
  explicit PassWalk(const Graph& graph) : graph_(graph) {
    for (std::size_t at = 0; at < graph.order.size(); ++at) {
      const BlockRun& run = graph.order[at];
      const bool begins_stage =
          std::find(graph.stages.begin(), graph.stages.end(), at) != graph.stages.end();
      if (begins_stage) entered_ = false;  // what it is given comes from another rank
      for (std::int64_t i = 0; i < run.repeat; ++i) enter(run.block);
    }
    if (!pass_.storages.empty()) pass_.output = last_output_;
  }

  ForwardStorages pass() && { return std::move(pass_); }

 private:
  /// As the engine links blocks (memory/engine, ForwardOrder::link).
  StorageIndex storage_of(const Block& block, TensorId id) {
    const Tensor& tensor = block.tensors[id];
    const bool named = tensor.shared || tensor.outlives_block;
    if (named) {
      const auto known = named_.find(tensor.name);
      if (known != named_.end()) return known->second;
    }
    const bool enters = id == block.input && tensor.role == Role::input;
    if (enters && !named && entered_) return last_output_;
    const auto index = static_cast<StorageIndex>(pass_.storages.size());
    ForwardStorage storage;
    storage.bytes = tensor.bytes().bytes(graph_.sizes).value();
    storage.dtype = tensor.dtype;
    storage.answered = tensor.answered || tensor.held_by_graph;
    pass_.storages.push_back(storage);
    if (named) named_.emplace(tensor.name, index);
    return index;
  }

  void enter(std::size_t number) {
    const Block& block = graph_.blocks[number];
    std::vector<StorageIndex> of(block.tensors.size(), 0);
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      if (block.tensors[id].storage == id) of[id] = storage_of(block, id);
    }
    for (TensorId id = 0; id < block.tensors.size(); ++id) of[id] = of[block.tensors[id].storage];
    if (block.checkpointable) pass_.storages[of[block.input]].begins_layer = true;
    for (std::size_t i = 0; i < block.ops.size(); ++i) run(number, i, of);
    last_output_ = of[block.output];
    entered_ = true;
  }

  void run(std::size_t number, std::size_t index, const std::vector<StorageIndex>& of) {
    const Op& op = graph_.blocks[number].ops[index];
    for (const TensorId id : op.attributes) pass_.storages[of[id]].answered = true;
    if (op.kind == OpKind::view) return;
    ForwardOp made{
        .block = number, .op = index, .reads = {}, .writes = {}, .keeps = {}, .scratch = {}};
    for (const TensorId id : op.inputs) add_once(made.reads, of[id]);
    for (const TensorId id : op.outputs) {
      add_once(made.writes, of[id]);
      const bool fresh =
          std::find(made.reads.begin(), made.reads.end(), of[id]) == made.reads.end();
      if (fresh) pass_.storages[of[id]].made = true;
    }
    for (const TensorId id : op.saved) add_once(made.keeps, of[id]);
    for (const TensorId id : op.forward_scratch) {
      add_once(made.scratch, of[id]);
      pass_.storages[of[id]].made = true;
    }
    pass_.ops.push_back(std::move(made));
  }

  const Graph& graph_;
  ForwardStorages pass_;
  std::map<std::string_view, StorageIndex> named_;
  StorageIndex last_output_ = 0;
  bool entered_ = false;
};

}  // namespace

ForwardStorages forward_storages(const Graph& graph) { return PassWalk(graph).pass(); }

bool may_be_in_place(OpKind kind) {
  return kind == OpKind::activation || kind == OpKind::dropout || kind == OpKind::add ||
         kind == OpKind::multiply || kind == OpKind::scale || kind == OpKind::mask;
}

}  // namespace memest
