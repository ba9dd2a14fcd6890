#include "memest/memory/storage_maker.hpp"

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

StorageMaker graph_maker(const Timeline& timeline, const Graph& graph, const Label& label) {
  const Block& block = graph.blocks[timeline.places[label.place].block];
  const std::string place = place_name(timeline, graph, label.place);
  if (label.tensor == kKernelScratch) {
    return {place, std::string(block.ops[label.op].name), "scratch"};
  }
  const Tensor& tensor = block.tensors[label.tensor];
  return {place, std::string(tensor.op), std::string(tensor.name)};
}

}  // namespace

StorageMaker maker_of(const Timeline& timeline, const Graph& graph, StorageId storage) {
  const Label& label = timeline.storages[storage].label;
  switch (label.origin) {
    case Origin::forward:
      return graph_maker(timeline, graph, label);
    case Origin::recompute: {
      StorageMaker maker = graph_maker(timeline, graph, label);
      maker.tensor += " (recomputed)";
      return maker;
    }
    case Origin::unpacked: {
      StorageMaker maker = graph_maker(timeline, graph, label);
      maker.tensor += " (back from the host)";
      return maker;
    }
    case Origin::backward: {
      StorageMaker maker = graph_maker(timeline, graph, label);
      if (label.tensor == kKernelScratch) {
        maker.tensor += " of the backward";
      } else {
        maker.tensor.insert(0, "gradient of ");
      }
      return maker;
    }
    case Origin::parameter:
    case Origin::buffer:
    case Origin::unit:
    case Origin::loop:
      return {"", "", storage_name(timeline, graph, storage)};
  }
  unreachable("every origin has a maker");
}

}  // namespace memest
