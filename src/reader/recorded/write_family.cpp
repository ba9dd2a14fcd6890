#include <string>

#include "memest/diag/expect.hpp"
#include "memest/reader/family_text.hpp"
#include "reader/recorded/family_lines.hpp"
#include "reader/recorded/varied_lines.hpp"

namespace memest {
namespace {

/// "batch=2 seq=512".
std::string words_of(const std::vector<std::string>& names, const SizePoint& point) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : " ") + names[i] + "=" + std::to_string(point[i]);
  }
  return text;
}

class FamilyWriter {
 public:
  explicit FamilyWriter(const RecordedFamily& family) : family_(family), names_(family.names()) {}

  std::string write() {
    write_head();
    for (const TraceEvent& event : family_.trace.events) write_event(event);
    if (family_.work) text_ += varied_work_text(*family_.work, names_);
    if (!family_.no_work.empty()) line(family_head(kNoWorkKey, family_.no_work));
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += text + "\n"; }

  void write_head() {
    line(std::string(kFamilyLine));
    line("# total: " + std::to_string(family_.trace.device_memory.value()));
    line("# context: " + std::to_string(family_.trace.context.value()));
    line("# conf: " + family_.trace.settings_text);
    if (!family_.torch.empty()) line("# torch: " + family_.torch);
    if (!family_.rank.empty()) line("# rank: " + family_.rank);
    if (!family_.gpu.empty()) line("# gpu: " + family_.gpu);
    if (family_.masks_keep_all) line("# masks: all");
    for (const DeviceRead& read : family_.reads) {
      line("# read: " + std::to_string(read.count) + " " + std::to_string(read.size.value()) + " " +
           std::to_string(read.first) + (read.place.empty() ? "" : " " + read.place));
    }
    for (const VariedSize& varied : family_.varied) {
      std::string values;
      for (const std::int64_t value : varied.values) {
        values += (values.empty() ? "" : ",") + std::to_string(value);
      }
      line(family_head(kVariedKey, varied.name + "=" + values));
    }
    for (const SizePoint& point : family_.fitted) {
      line(family_head(kRecordedKey, words_of(names_, point)));
    }
    line(family_head(kHeldOutKey, words_of(names_, family_.held_out)));
  }

  void write_event(const TraceEvent& event) {
    const std::string number = std::to_string(event.number);
    switch (event.kind) {
      case TraceEventKind::allocate:
        write_place(static_cast<std::size_t>(event.number));
        line("a " + number + " " + formula_text(static_cast<std::size_t>(event.number)) + " " +
             std::to_string(event.stream));
        return;
      case TraceEventKind::free:
        return line("f " + number);
      case TraceEventKind::free_when_done:
        return line("q " + number);
      case TraceEventKind::empty_cache:
        return line("e");
      case TraceEventKind::reset_peaks:
        return line("r");
      case TraceEventKind::marker:
        return line("= " + family_.trace.markers[static_cast<std::size_t>(event.number)].name);
      case TraceEventKind::out_of_memory:
      case TraceEventKind::segment_obtained:
      case TraceEventKind::segment_returned:
      case TraceEventKind::mapped:
      case TraceEventKind::unmapped:
      case TraceEventKind::owner:
        break;
    }
    unreachable("a family has the events that a program decides");
  }

  std::string formula_text(std::size_t allocation) const {
    return family_.formulas[family_.formula_of[allocation]].text(names_);
  }

  /// Says where the allocation is asked for, where that is not where the one before was.
  void write_place(std::size_t allocation) {
    const AllocatorTrace& trace = family_.trace;
    if (trace.asked_at.empty()) return;
    const std::size_t place = trace.asked_at[allocation];
    for (; defined_ <= place; ++defined_) {
      const std::string& text = trace.places[defined_];
      line("p " + std::to_string(defined_) + (text.empty() ? "" : " " + text));
    }
    if (chosen_ != place) line("@ " + std::to_string(place));
    chosen_ = place;
  }

  const RecordedFamily& family_;
  std::vector<std::string> names_;
  std::string text_;
  std::size_t defined_ = 0;  // places that are written
  std::size_t chosen_ = static_cast<std::size_t>(-1);
};

}  // namespace

std::string write_family(const RecordedFamily& family) { return FamilyWriter(family).write(); }

}  // namespace memest
