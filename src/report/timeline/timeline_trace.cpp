// The timeline in the Trace Event Format. Slices nest: step, phase, block, op.
#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "memest/memory/storage_maker.hpp"
#include "memest/report/timeline_files.hpp"
#include "report/pages/json.hpp"
#include "report/timeline/span_cursor.hpp"

namespace memest {
namespace {

// A viewer nests slices by their times within one thread of one process, so all share one.
constexpr int kProcess = 1;
constexpr int kThread = 1;

/// A slice whose end is not known yet.
struct OpenSlice {
  std::string name;
  std::uint32_t begin = 0;
};

class TraceWriter {
 public:
  explicit TraceWriter(const TimelineRun& run)
      : run_(run),
        timeline_(run.memory.timeline),
        end_(static_cast<std::uint32_t>(run.course.points.size())) {}

  std::string write() {
    out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    write_name("process_name", "memest timeline: an event takes a microsecond");
    write_name("thread_name", "step, phase, block, op");
    write_steps();
    write_blocks();
    write_counters();
    out_.erase(out_.size() - 2);  // the last comma
    return out_ + "\n]}\n";
  }

 private:
  void write_name(std::string_view what, std::string_view name) {
    fmt::format_to(
        std::back_inserter(out_),
        "{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}},\n", what,
        kProcess, kThread, printed(name));
  }

  /// Slices of no length are left out: a viewer cannot nest them.
  void write_slice(const OpenSlice& slice, std::uint32_t end, std::string_view category) {
    end = std::min(end, end_);
    if (slice.begin >= end) return;
    fmt::format_to(
        std::back_inserter(out_),
        "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":{}}},\n",
        category, printed(slice.name), slice.begin, end - slice.begin, kProcess, kThread);
  }

  void write_steps() {
    std::optional<OpenSlice> step;
    std::uint32_t step_end = 0;
    std::uint16_t number = 0;
    for (const Span& span : timeline_.spans) {
      if (span.step > 0 && (!step || span.step != number)) {
        if (step) write_slice(*step, step_end, "step");
        number = span.step;
        step = OpenSlice{fmt::format("step {}", number), span.begin};
      }
      step_end = span.end;
      const std::string name =
          span.micro_step == 0
              ? std::string(name_of(span.phase))
              : fmt::format("{}, micro-step {}", name_of(span.phase), span.micro_step);
      write_slice({name, span.begin}, span.end, "phase");
    }
    if (step) write_slice(*step, step_end, "step");
  }

  /// Blocks and ops begin with the first storage that they make and last until another makes one.
  void write_blocks() {
    SpanCursor cursor(timeline_);
    const Span* span = nullptr;
    std::optional<OpenSlice> block;
    std::optional<OpenSlice> op;
    const auto close = [&](std::uint32_t end) {
      if (op) write_slice(*op, end, "op");
      if (block) write_slice(*block, end, "block");
      op.reset();
      block.reset();
    };
    for (std::uint32_t i = 0; i < end_; ++i) {
      const Span* now = cursor.at(i);
      // No slice may reach over the end of the one around it.
      if (now != span) close(span == nullptr ? i : span->end);
      span = now;
      const Event event = timeline_.events[i];
      if (span == nullptr || event.kind == EventKind::free) continue;
      const StorageMaker maker = maker_of(timeline_, run_.memory.graph, event.storage);
      if (maker.block.empty()) continue;
      if (!block || block->name != maker.block) {
        close(i);
        block = OpenSlice{maker.block, i};
      }
      if (op && op->name == maker.op) continue;
      if (op) write_slice(*op, i, "op");
      op = OpenSlice{maker.op, i};
    }
    close(end_);
  }

  void write_counter(std::string_view name, std::uint32_t event, Bytes bytes) {
    fmt::format_to(
        std::back_inserter(out_),
        "{{\"ph\":\"C\",\"name\":\"{}\",\"ts\":{},\"pid\":{},\"args\":{{\"bytes\":{}}}}},\n", name,
        event, kProcess, bytes.value());
  }

  void write_counters() {
    Bytes reserved(-1);
    for (std::uint32_t i = 0; i < end_; ++i) {
      const CoursePoint& point = run_.course.points[i];
      // Every event changes what is allocated; what is reserved changes with a segment alone.
      write_counter("allocated", i, point.allocated);
      if (point.reserved != reserved) write_counter("reserved", i, point.reserved);
      reserved = point.reserved;
    }
  }

  const TimelineRun& run_;
  const Timeline& timeline_;
  std::uint32_t end_;
  std::string out_;
};

}  // namespace

std::string trace_events(const TimelineRun& run) { return TraceWriter(run).write(); }

}  // namespace memest
