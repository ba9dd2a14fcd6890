#include "memory/generation/decoder_model.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace memest {
namespace {

/// The tensors of the block that a layer's cache holds before a pass.
std::vector<TensorId> held_before(const Block& block) {
  std::vector<TensorId> held;
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    if (block.tensors[id].cache_part == CachePart::before) held.push_back(id);
  }
  return held;
}

}  // namespace

DecoderModel::DecoderModel(Parts parts) : parts_(std::move(parts)) {
  parts_.settings.buffers =
      std::make_shared<LibraryBuffers>(parts_.settings.workspaces, parts_.recorder);
  for (const DecodePass& pass : parts_.graph.decoding) {
    passes_.push_back({pass.first, part_of(parts_.graph, pass.order, parts_.timeline)});
  }
}

DecoderModel::Passes& DecoderModel::passes_over(std::int64_t past) {
  const auto later = std::find_if(passes_.begin(), passes_.end(),
                                  [past](const Passes& passes) { return passes.first > past; });
  Passes& passes = *std::prev(later);
  passes.part.graph.sizes.set(Symbol::cached_keys, past + 1);
  return passes;
}

HeldStorage DecoderModel::prefill(const ModelInputs& inputs) {
  Engine engine(parts_.graph, parts_.order, parts_.settings, parts_.recorder);
  return run(engine, inputs);
}

HeldStorage DecoderModel::decode(const ModelInputs& inputs, std::int64_t past) {
  const Passes& passes = passes_over(past);
  const ForwardOrder order(passes.part.graph, parts_.device);
  EngineSettings settings = parts_.settings;
  settings.first_place = passes.part.place;
  Engine engine(passes.part.graph, order, settings, parts_.recorder);
  auto held = cache_.begin();
  const auto instances = static_cast<std::uint32_t>(order.instances().size());
  for (std::uint32_t i = 0; i < instances; ++i) {
    for (const TensorId id : held_before(passes.part.graph.blocks[order.instances()[i].block])) {
      engine.hand_in(i, id, (held++)->give_up());
    }
  }
  cache_.drop();
  return run(engine, inputs);
}

HeldStorage DecoderModel::run(Engine& engine, const ModelInputs& inputs) {
  engine.bind_input("position ids", inputs.positions.id());
  engine.bind_input("attention mask", inputs.mask.id());
  engine.forward(inputs.ids.id());
  keep_answered(engine);
  return parts_.recorder.adopt(engine.logits());
}

void DecoderModel::keep_answered(Engine& engine) {
  for (const Answered& answered : engine.take_answered()) {
    const StorageId id = answered.storage;
    const Label& label = parts_.timeline.storages[id].label;
    const Block& block = parts_.graph.blocks[parts_.timeline.places[label.place].block];
    const bool cached = block.tensors[label.tensor].cache_part == CachePart::after;
    (cached ? cache_ : windows_).push_back(parts_.recorder.adopt(id));
  }
}

// CacheLayerMixin.reorder_cache: keys.index_select(0, beam_idx), then the values.
void DecoderModel::reorder_cache(std::int64_t tokens) {
  const Graph& graph = passes_over(tokens).part.graph;
  auto held = cache_.begin();
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const TensorId id : held_before(block)) {
        const std::int64_t bytes = block.tensors[id].bytes().bytes(graph.sizes).value();
        Label label;
        label.holding = Holding::activations;
        label.tensor = static_cast<std::uint16_t>(LoopTensor::reordered_cache);
        *held++ = parts_.recorder.make(bytes, label);
      }
    }
  }
}

void DecoderModel::drop_cache() {
  cache_.drop();
  windows_.drop();
}

}  // namespace memest
