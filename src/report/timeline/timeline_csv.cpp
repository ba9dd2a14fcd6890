#include <array>
#include <string>

#include "memest/memory/storage_maker.hpp"
#include "memest/report/timeline_files.hpp"
#include "report/pages/csv.hpp"
#include "report/timeline/span_cursor.hpp"

namespace memest {
namespace {

constexpr std::size_t kColumns = 13;
using CsvCells = std::array<std::string, kColumns>;

std::string number_text(std::int64_t number) { return std::to_string(number); }

}  // namespace

std::string events_csv(const TimelineRun& run) {
  const Timeline& timeline = run.memory.timeline;
  std::string out;
  append_csv_line(
      out, CsvCells{"event", "step", "micro_step", "phase", "block", "op", "tensor", "holding",
                    "kind", "bytes", "allocated_bytes", "reserved_bytes", "stream"});
  SpanCursor cursor(timeline);
  for (std::uint32_t i = 0; i < run.course.points.size(); ++i) {
    const Event event = timeline.events[i];
    const Storage& storage = timeline.storages[event.storage];
    const CoursePoint& point = run.course.points[i];
    const Span* span = cursor.at(i);
    StorageMaker maker = maker_of(timeline, run.memory.graph, event.storage);
    append_csv_line(out,
                    CsvCells{number_text(i), span == nullptr ? "" : number_text(span->step),
                             span == nullptr ? "" : number_text(span->micro_step),
                             span == nullptr ? "" : std::string(name_of(span->phase)),
                             std::move(maker.block), std::move(maker.op), std::move(maker.tensor),
                             std::string(name_of(storage.label.holding)),
                             event.kind == EventKind::allocate ? "allocate" : "free",
                             number_text(storage.bytes), number_text(point.allocated.value()),
                             number_text(point.reserved.value()),
                             number_text(storage.stream.number())});
  }
  return out;
}

}  // namespace memest
