// A recompute policy resolved for a framework: which layers are put into checkpoints, and how far
// their second forward runs. One rule for memory, FLOPs and time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// Checkpoints over the layers of one stage, numbered from 0 on.
struct CheckpointPlan {
  std::int64_t length = 0;  ///< layers of one checkpoint; 0: no whole layer is recomputed
  std::int64_t every = 1;   ///< one checkpoint, behind others that keep all, for so many layers
  std::int64_t most = 0;    ///< only the first layers of a stage have checkpoints; 0: all may
  std::vector<std::int64_t> chosen = {};  ///< these layers alone, ascending; empty: all may
  bool selects = false;                   ///< what the operations of a list make stays
  /// Parts of each layer, or beside whole layers of other blocks, each in a checkpoint of its own.
  std::optional<SelectiveRecompute> parts = {};
  /// A function of autograd's own recomputes the layers (torch.utils.checkpoint with
  /// use_reentrant=True, Megatron's): it holds their answer and that one's gradient.
  bool holds_answer = false;
  bool saves_arguments = false;  ///< that function saves all that it is called with (Megatron's)
  bool distributes = false;      ///< its first argument, as a share of each tensor-parallel rank
  bool to_end = false;           ///< a second forward runs to its end, which the layers' code needs
  bool stops_early = false;      ///< it ends behind what it saves last

  [[nodiscard]] bool recomputes(std::int64_t layer) const;
  /// Whether a checkpoint ends with it, in a stage of so many.
  [[nodiscard]] bool ends_checkpoint(std::int64_t layer, std::int64_t layers) const;
  /// How many of the first `layers` are recomputed.
  [[nodiscard]] std::int64_t recomputed_of(std::int64_t layers) const;
  /// How many checkpoints the first `layers` begin.
  [[nodiscard]] std::int64_t checkpoints_of(std::int64_t layers) const;
};

/// Which layers those are for a framework of this rule, in a stage of so many; how far they run is
/// left open.
CheckpointPlan checkpoint_plan_of(const Recompute& recompute, CheckpointRule rule,
                                  std::int64_t layers);
/// All of it, as the layers are compiled or not.
CheckpointPlan checkpoint_plan_of(const TrainingSpec& training, std::int64_t layers);

/// Whether every layer is recomputed in a reentrant checkpoint.
bool is_reentrant(const Recompute& recompute);
/// Whether the framework has it over so many ranks (FrameworkRow::recomputes_over_ranks).
bool leaves_recompute(const Implementation& implementation, std::int64_t ranks,
                      const Recompute& recompute);
/// Whether frozen embeddings are made to want a gradient (FrameworkRow::embeddings_want_gradient).
bool asks_embeddings_for_gradient(const TrainingSpec& training);

}  // namespace memest
