// FLOPs, traffic and time of a recorded step: each piece of work by the laws of a GPU, in the
// streams that the program gave it to, behind what they wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "memest/time/gpu_laws.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Kinds of work by what bounds them. `unknown` are kernels of which nothing but their name is
/// known: they take the time of an empty one.
enum class WorkClass : std::uint8_t {
  product,
  attention,
  convolution,
  memory,
  message,
  copy,
  unknown
};
/// "products", "attention", ...
std::string_view name_of(WorkClass kind);

/// The sum over calls of one phase, of one kind, or of one operator.
struct RecordedWorkTime {
  std::string name;
  WorkClass kind = WorkClass::unknown;  ///< of the longest call
  std::int64_t calls = 0;
  Flops flops;  ///< as torch's FlopCounterMode counts: no causal halving
  Bytes bytes;  ///< read and written, or sent
  Seconds seconds;
};

/// The kernels that a module's forward asks for itself, not through its parts, and those of the
/// nodes that it makes for the backward; what the backward computes anew has no module.
struct RecordedModuleTime {
  std::size_t module = 0;    ///< index into RecordedWork::modules
  RecordedWorkTime forward;  ///< and of what is neither
  RecordedWorkTime backward;

  [[nodiscard]] Seconds seconds() const { return forward.seconds + backward.seconds; }
};

/// The time of one process's step.
struct RecordedTime {
  std::string of;        ///< "step2", or "program" where it has no optimizer
  bool cut_off = false;  ///< there was more work than was recorded
  Seconds step;
  Seconds low;
  Seconds high;
  Seconds device;  ///< of `step`, that the busiest stream works
  Seconds host;    ///< that the host takes to ask for all of it, without its waits
  std::int64_t launches = 0;
  Flops flops;
  std::optional<FlopsPerSecond> peak;       ///< of the type that most products are of
  double utilisation = 0;                   ///< of `flops` over the peak; 0 where that is not known
  std::vector<RecordedWorkTime> phases;     ///< in the step's order, micro-batches together
  std::vector<RecordedWorkTime> kinds;      ///< the same work by kind, longest first
  std::vector<RecordedWorkTime> operators;  ///< the same work by operator
  std::vector<RecordedModule> modules;      ///< as RecordedWork has them
  std::vector<RecordedModuleTime> module_times;  ///< of those with work, longest first
  std::vector<std::string> unknown;              ///< kernels of WorkClass::unknown, by name
  LawOrigin origin;                              ///< of the laws behind most of it
};

/// The time of a step that others like it stand around. `hardware` has the GPU type and how many
/// share a node; `published` is what whole runs were off by. Unavailable where the GPU has no
/// memory bandwidth or no link that the step needs. Throws OverflowError.
std::variant<RecordedTime, Unavailable> time_of(const RecordedWork& work, const Hardware& hardware,
                                                const SourceMargin& published);

/// The time of a recording's step, or why it has none; nothing where no work was recorded.
using RecordedStepTime = std::variant<std::monostate, RecordedTime, Unavailable>;
RecordedStepTime time_of(const std::optional<RecordedWork>& work, const Hardware& hardware,
                         const SourceMargin& published);

}  // namespace memest
