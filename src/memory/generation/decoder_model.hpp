// A decoder as generate() calls it: the forward of the prompts, then passes of one token a sequence
// over the key-value cache that the one before left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/engine/engine.hpp"
#include "memory/models/graph_part.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// The keyword arguments of a forward.
struct ModelInputs {
  HeldStorage ids;
  HeldStorage positions;
  HeldStorage mask;
};

class DecoderModel {
 public:
  /// All outlive the model; `timeline` is the recorder's.
  struct Parts {
    const Graph& graph;
    const ForwardOrder& order;  ///< of the prompts' forward
    EngineSettings settings;
    std::optional<LaunchDevice> device;
    Timeline& timeline;
    Recorder& recorder;
  };
  explicit DecoderModel(Parts parts);

  /// Returns the logits.
  HeldStorage prefill(const ModelInputs& inputs);
  /// Over a cache of `past` tokens.
  HeldStorage decode(const ModelInputs& inputs, std::int64_t past);
  /// The cache of `tokens` tokens becomes that of other sequences (Cache.reorder_cache).
  void reorder_cache(std::int64_t tokens);
  void drop_cache();

 private:
  /// Passes that run the same operations.
  struct Passes {
    std::int64_t first = 0;  ///< tokens in the cache, from here on
    GraphPart part;
  };

  /// Those over a cache of `past` tokens, with sizes to match.
  Passes& passes_over(std::int64_t past);
  HeldStorage run(Engine& engine, const ModelInputs& inputs);
  void keep_answered(Engine& engine);

  Parts parts_;
  std::vector<Passes> passes_;
  HeldVector cache_;  ///< keys and values, layer by layer
  HeldVector windows_;
};

}  // namespace memest
