// Schedules of one micro-step: when a tensor that the backward reads is kept, dropped and made
// again, or moved to the host and back. Each is a list of actions, played over the operations and
// tensors of the replayed timeline: that gives its peak, what it computes twice, and how long it
// waits for the link to the host. Schemes: docs/techniques/schedules.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/step_tensors.hpp"
#include "memest/spec/job.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// The operations of a micro-step with what each takes.
struct ScheduledStep {
  StepTensors step;
  std::vector<double> forward;   ///< seconds, by operation
  std::vector<double> backward;  ///< likewise
  std::vector<double> out;       ///< seconds of a copy to the host, by tensor
  std::vector<double> in;        ///< and back
  /// Seconds in which managed pages of a tensor come when a kernel touches them, by the profile's
  /// managed-migration law; empty where nobody has measured it.
  std::vector<double> touched;
};

enum class ActionKind : std::uint8_t {
  forward,   ///< of an operation, for the first time or again
  backward,  ///< of an operation
  drop,      ///< of a tensor's memory on the device, behind a copy to the host that is on its way
  copy_out,  ///< of a tensor, beside what is computed, behind earlier copies
  copy_in    ///< its memory is taken now; what reads it waits
};

struct Action {
  ActionKind kind = ActionKind::forward;
  std::uint32_t index = 0;  ///< of the operation, or of the tensor

  friend bool operator==(const Action&, const Action&) = default;
};

/// The outcome of a list of actions.
struct Played {
  std::int64_t peak = 0;       ///< bytes, of the passes
  std::size_t peak_at = 0;     ///< a pass: forward passes are counted in order, then backward ones
  double seconds = 0;          ///< of both passes
  double recomputed = 0;       ///< of these, forwards that had run before
  double waited = 0;           ///< and for copies
  std::int64_t copied = 0;     ///< bytes to the host; as many come back
  std::int64_t host_peak = 0;  ///< bytes on the host
};

/// An action that cannot be done, and why: "its input is not on the device".
struct WrongAction {
  std::size_t action = 0;
  std::string reason;
};

/// Plays a whole micro-step: every operation forward, then backward in reverse.
std::variant<Played, WrongAction> play(const ScheduledStep& step, std::span<const Action> actions);

/// A stretch of operations behind which one tensor alone goes on.
struct ChainStage {
  std::uint32_t begin = 0;  ///< operations [begin, end)
  std::uint32_t end = 0;
  std::optional<std::uint32_t> input;  ///< the tensor; none: what the caller hands in
  bool is_layer = false;               ///< of a block that frameworks put into checkpoints
};
/// Cuts a step where one tensor is all that goes on; at most so many stages, those of one block
/// together first.
std::vector<ChainStage> chain_of(const StepTensors& step, std::size_t most = 128);

/// Whether a tensor that was made again stays (Wang et al., SuperNeurons, PPoPP 2018, 3.4).
enum class Retention : std::uint8_t {
  speed_centric,   ///< it stays for the backwards to come: a segment runs once more
  memory_centric,  ///< it goes again: a segment of n stages runs n·(n−1)/2 stages
  cost_aware       ///< it stays where the segment takes no more than the largest stage does
};

/// Keeps everything.
std::vector<Action> keep_all(const ScheduledStep& step);
/// Keeps the inputs of groups of so many layers, and all that is outside of layers.
std::vector<Action> checkpoint_groups(const ScheduledStep& step,
                                      const std::vector<ChainStage>& chain, std::size_t layers,
                                      Retention retention = Retention::speed_centric);
/// Keeps nothing: before a stage's backward all stages before it run again. n·(n−1)/2 forwards.
std::vector<Action> keep_nothing(const ScheduledStep& step, const std::vector<ChainStage>& chain);
/// The least time within `budget` bytes, of all schedules whose checkpoints stay until they are
/// read: the dynamic program of Herrmann et al. (Optimal checkpointing for heterogeneous chains,
/// arXiv:1911.13214), over memory in `slots` equal parts, into which sizes are rounded up. None
/// where nothing fits.
std::optional<std::vector<Action>> least_time(const ScheduledStep& step,
                                              const std::vector<ChainStage>& chain,
                                              std::int64_t budget, std::int64_t slots = 256);

/// How a tensor gets from the forward to its backward.
enum class Fate : std::uint8_t { keep, swap, recompute };
/// Whether its makers can run again when the forward is over: none of them reads what another
/// changes in place.
bool can_recompute(const StepTensors& step, std::uint32_t tensor);
/// Moves and drops tensors as `fates` say. Copies begin with the forward's last read; a copy back
/// as soon as the one before it has ended and it fits into `budget`, in the order of the backward's
/// reads. Memory is waited for where the budget asks for it.
std::vector<Action> by_fates(const ScheduledStep& step, std::span<const Fate> fates,
                             std::int64_t budget);

/// Swaps what lies idle over the longest stretch of operations first, no more than the budget asks
/// for (Le et al., TFLMS, arXiv:1807.02037).
std::vector<Fate> swap_long_edges(const ScheduledStep& step, std::int64_t budget);
/// Swaps what contractions read, the least recently used first, and only under pressure
/// (SuperNeurons, 3.3).
std::vector<Action> swap_contraction_inputs(const ScheduledStep& step, std::int64_t budget);
/// How managed pages come back to a device that is oversubscribed.
enum class Paging : std::uint8_t {
  on_demand,  ///< when a kernel touches them: nothing else runs then
  prefetched  ///< by cudaMemPrefetchAsync in the order of the backward's reads, as bulk copies
};
/// Tensors in unified memory: pages of the least recently used leave when an operation would not
/// fit. Those that come on demand are played with `touched` in place of `in`.
std::vector<Action> page_under_pressure(const ScheduledStep& step, std::int64_t budget,
                                        Paging paging);
/// Swaps what is alive at the peak, by bytes times idle seconds, until the peak is within `budget`.
std::vector<Fate> swap_around_peak(const ScheduledStep& step, std::int64_t budget);
/// Recomputes all but what contractions make (the mirror of Chen et al., arXiv:1604.06174, 4.1).
std::vector<Fate> recompute_cheap(const ScheduledStep& step);
/// Swaps what contractions read; recomputes the rest.
std::vector<Fate> swap_contractions_recompute_rest(const ScheduledStep& step);
/// For each tensor whichever costs least: starts from the best of the schemes above within
/// `budget`, and changes fates one by one as long as a change saves time.
std::vector<Fate> least_cost_fates(const ScheduledStep& step, std::int64_t budget);

/// A row of the answer.
struct ScheduleRow {
  std::string name;  ///< "recompute in 4 groups"
  Played played;
  Bytes peak;          ///< of the whole step, the optimizer's too
  Seconds step;        ///< all micro-steps and the optimizer
  bool fits = false;   ///< peak within the budget: the allocator's own losses come on top
  Bytes paged_states;  ///< of unified memory: pages that leave and come back once a step
  /// The peak of the same in PyTorch, replayed, where a spec can say it.
  std::optional<Bytes> replayed;
  std::vector<Action> actions;
};

struct ScheduleAnswer {
  Bytes budget;
  Seconds step;  ///< that keeps all
  std::size_t stages = 0;
  std::size_t layers = 0;
  Bytes states;                   ///< of the optimizer
  std::vector<ScheduleRow> rows;  ///< by family, as the documentation orders them
  ScheduledStep scheduled;
  Graph graph;
};

/// The schedules of a job within what its allocator may reserve, whatever it recomputes or saves on
/// the host as written. Unavailable where it does not train, shards or cuts the model, or its time
/// is not known. Throws OverflowError.
std::variant<ScheduleAnswer, Unavailable> schedules_of(const Job& written);

}  // namespace memest
