// The files that `memest timeline` writes beside its answer: its events as a table, as PyTorch's
// memory snapshot, as a trace of slices and counters, and a static plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memest/graph/forward_storages.hpp"
#include "memest/memory/forward_buffers.hpp"
#include "memest/memory/packing.hpp"
#include "memest/memory/step_course.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Who may write into its input, and what a pass's buffers take where they are shared.
struct BufferReuse {
  std::vector<InPlaceRow> rows;
  ForwardBuffers buffers;
};

/// A rank's steps as they ran; job, memory, course, arenas and reuse outlive it.
struct TimelineRun {
  const Job& job;
  const StepMemory& memory;
  const StepCourse& course;
  JobRank rank = {};
  std::span<const Arena> arenas = {};  ///< where a static plan is asked for
  const BufferReuse* reuse = nullptr;  ///< likewise
};

/// RFC 4180 CSV, a row an event, as far as memory lasts. Block, op, tensor and holding are those of
/// the storage; step and phase those of the event.
std::string events_csv(const TimelineRun& run);

/// RFC 4180 CSV of the arenas: a row a tensor, by stream and offset, with its bytes (rounded up to
/// 512 B) and the events of its life, the last excluded.
std::string packing_csv(const TimelineRun& run);

/// torch.cuda.memory._dump_snapshot()'s pickle, which pytorch.org/memory_viz opens.
/// Times are indices of events; an allocation's frames are tensor, block and phase.
std::string memory_snapshot(const TimelineRun& run);

/// JSON in the Trace Event Format of chrome://tracing and Perfetto: steps, phases, blocks and ops
/// as slices, allocated and reserved bytes as counters. An event takes a microsecond.
std::string trace_events(const TimelineRun& run);

}  // namespace memest
