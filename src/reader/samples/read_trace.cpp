#include "memest/reader/read_trace.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reader/job/read_allocator.hpp"
#include "reader/recorded/family_lines.hpp"
#include "reader/samples/snapshot.hpp"
#include "reader/samples/trace_modules.hpp"
#include "reader/samples/trace_operations.hpp"
#include "reader/samples/trace_places.hpp"
#include "reader/samples/work_lines.hpp"
#include "reader/text/gzip.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostTraceText = std::size_t{512} << 20U;
constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 50U;  // bytes
constexpr std::int64_t kMostStreams = 1000;
constexpr std::int64_t kLastAddress = std::int64_t{1} << 62U;
constexpr std::int64_t kMostNumber = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostByte = 255;
constexpr std::string_view kFirstLine = "# allocator trace 1";

/// An integer of the base, nothing but digits.
std::optional<std::int64_t> digits_of(std::string_view text, int base, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (text.front() == '-' || number > most) return {};
  return number;
}

class TraceReader {
 public:
  explicit TraceReader(SourcePointer source) : source_(std::move(source)) {}

  Checked<Recording> read() {
    trace_.file = source_->name;
    trace_.settings_text = "default";
    std::string_view rest = source_->text;
    while (!rest.empty() && diagnostics_.size() < kMostErrors) {
      ++line_;
      read_line(take_line(rest));
      if (line_ == 1 && !diagnostics_.empty()) return std::move(diagnostics_);
    }
    if (line_ == 0) refuse({}, "the file is empty", "");
    places_.give(trace_);
    if (diagnostics_.empty() && trace_.device_memory == Bytes(0)) {
      refuse({}, "the trace does not say how much memory the device has",
             "it is a line of the head: # total: BYTES");
    }
    if (diagnostics_.empty() && trace_.context > trace_.device_memory) {
      refuse({}, "the trace's context is more than the device has", "");
    }
    if (!diagnostics_.empty()) return std::move(diagnostics_);
    recording_.work = work_.take();
    modules_.give(recording_);
    return std::move(recording_);
  }

 private:
  void read_line(std::string_view line) {
    const PlacedText whole{line, span(line)};
    if (line_ == 1) {
      if (line == kFamilyLine) {
        refuse(whole, "this is a recording for many sizes, and no trace of one",
               "memest replay --at plays it at one");
      } else if (line != kFirstLine) {
        refuse(whole, "this is no allocator trace",
               "a trace begins with the line '" + std::string(kFirstLine) + "'");
      }
      return;
    }
    if (line.starts_with('#')) return read_head(whole);
    split(whole);
    if (words_.empty()) return;
    if (words_.front().text == "=") return read_marker();
    const std::string_view first = words_.front().text;
    if (first == "p") return places_.define({words_, diagnostics_}, whole);
    if (first == "@") return places_.choose({words_, diagnostics_}, trace_);
    if (TraceModules::are_meant(first)) return modules_.read({words_, diagnostics_});
    if (first == "w") return work_.read({words_, diagnostics_}, modules_.size());
    const auto* const operation =
        std::find_if(kOperations.begin(), kOperations.end(), [&](const Operation& row) {
          return words_.front().text == std::string_view(&row.letter, 1);
        });
    if (operation == kOperations.end()) {
      return refuse(words_.front(), "unknown event " + quote(words_.front().text),
                    "known are a, f, q, o, e, r, S, s, M, U, l, p, n, w, @, > and =");
    }
    read_event(*operation);
  }

  /// `# key: value`; what has no meaning for a replay is for people.
  void read_head(const PlacedText& line) {
    const std::size_t colon = line.text.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = line.part(1, colon - 1).trimmed().text;
    const PlacedText value = line.part(colon + 1, line.text.size() - colon - 1).trimmed();
    if (key == "case") {
      trace_.name = value.text;
    } else if (key == "conf" && value.text != "default") {
      trace_.settings_text = value.text;
      trace_.settings = read_allocator_text(value, diagnostics_);
    } else if (key == "total") {
      if (const auto total = number(value, "a number of bytes", kLargestSize)) {
        trace_.device_memory = Bytes(*total);
      }
    } else if (key == "context") {
      if (const auto context = number(value, "a number of bytes", kLargestSize)) {
        trace_.context = Bytes(*context);
      }
    } else if (key == "capacity" && value.text != "none") {
      if (const auto capacity = number(value, "a number of bytes, or none", kLargestSize)) {
        trace_.capacity = Bytes(*capacity);
      }
    } else {
      read_run(key, value);
    }
  }

  /// The lines that `memest record` writes of the program.
  void read_run(std::string_view key, const PlacedText& value) {
    if (key == "torch") {
      recording_.torch = value.text;
    } else if (key == "rank") {
      recording_.rank = value.text;
    } else if (key == "gpu") {
      recording_.gpu = value.text;
    } else if (key == "exit code") {
      recording_.exit_code = number(value, "an exit code", kMostByte);
    } else if (key == "masks") {
      recording_.masks_keep_all = value.text == "all";
    } else if (key == "stopped") {
      recording_.stopped = true;
    } else if (key == "device peak") {
      if (const auto peak = number(value, "a number of bytes", kLargestSize)) {
        recording_.device_peak = Bytes(*peak);
      }
    } else if (key == "read") {
      read_read(value);
    } else if (key == "work") {
      work_.begin(value);
    }
  }

  /// `# read: COUNT BYTES FIRST PLACE`.
  void read_read(const PlacedText& value) {
    split(value);
    if (words_.size() < 3)
      return refuse(value, "'# read:' is written # read: COUNT BYTES FIRST PLACE");
    DeviceRead read;
    read.count = number(words_[0], "a count", kMostNumber).value_or(0);
    read.size = Bytes(number(words_[1], "a size in bytes", kLargestSize).value_or(0));
    read.first = number(words_[2], "a byte", kMostByte).value_or(0);
    read.place = rest_behind(value, words_[2]);
    recording_.reads.push_back(std::move(read));
  }

  void read_event(const Operation& operation) {
    const auto operands = static_cast<std::size_t>(
        std::find(operation.operands.begin(), operation.operands.end(), Operand::none) -
        operation.operands.begin());
    if (words_.size() != operands + 1) {
      return refuse(words_.front(), "'" + std::string(1, operation.letter) + "' is written " +
                                        std::string(operation.form));
    }
    TraceEvent event;
    event.kind = operation.kind;
    event.line = line_;
    for (std::size_t i = 0; i < operands; ++i) {
      if (!read_operand(words_[i + 1], operation.operands[i], event)) return;
    }
    if (event.kind == TraceEventKind::out_of_memory) trace_.failed_at = places_.chosen();
    trace_.events.push_back(event);
  }

  bool read_operand(const PlacedText& word, Operand operand, TraceEvent& event) {
    switch (operand) {
      case Operand::none:
        return true;
      case Operand::id: {
        const auto id = number(word, "the number of an allocation", kMostNumber);
        return id && read_id(word, *id, event);
      }
      case Operand::size: {
        const auto size = number(word, "a size in bytes", kLargestSize);
        event.size = Bytes(size.value_or(0));
        return size.has_value();
      }
      case Operand::stream: {
        const auto stream = number(word, "the number of a stream", kMostStreams);
        event.stream = static_cast<std::int32_t>(stream.value_or(0));
        return stream.has_value();
      }
      case Operand::address: {
        const auto address = digits_of(word.text, 16, kLastAddress);
        event.number = address.value_or(0);
        if (!address) refuse(word, "expected a hexadecimal address, not " + quote(word.text));
        return address.has_value();
      }
      case Operand::block: {
        if (word.text == "-") {
          event.number = -1;
          return true;
        }
        const auto block = number(word, "the number of a block, or -", kMostNumber);
        event.number = block.value_or(0);
        return block.has_value();
      }
    }
    unreachable("an operand beyond the enum");
  }

  /// Allocations are numbered from 0 on as they come; `live_` knows those that are not freed.
  bool read_id(const PlacedText& word, std::int64_t id, TraceEvent& event) {
    if (event.kind == TraceEventKind::allocate) {
      if (id <= last_id_) {
        refuse(word, "the numbers of allocations count up, and " + std::to_string(last_id_) +
                         " was there before");
        return false;
      }
      last_id_ = id;
      event.number = trace_.allocations++;
      places_.note(trace_);
      modules_.note(trace_);
      live_.emplace(id, Live{event.number, false});
      return true;
    }
    const auto found = live_.find(id);
    if (found == live_.end()) {
      refuse(word, "allocation " + std::to_string(id) + " is not there to be freed");
      return false;
    }
    event.number = found->second.number;
    if (event.kind == TraceEventKind::free) {
      live_.erase(found);
    } else if (std::exchange(found->second.awaited, true)) {
      refuse(word, "allocation " + std::to_string(id) + " is freed twice");
      return false;
    }
    return true;
  }

  void read_marker() {
    if (words_.size() < 2) return refuse(words_.front(), "'=' is written = NAME KEY=VALUE...");
    TraceMarker marker;
    marker.name = words_[1].text;
    marker.line = line_;
    for (std::size_t i = 2; i < words_.size(); ++i) read_statistic(words_[i], marker);
    TraceEvent event;
    event.kind = TraceEventKind::marker;
    event.line = line_;
    event.number = static_cast<std::int64_t>(trace_.markers.size());
    trace_.events.push_back(event);
    trace_.markers.push_back(std::move(marker));
  }

  void read_statistic(const PlacedText& word, TraceMarker& marker) {
    const std::size_t equals = word.text.find('=');
    if (equals == std::string_view::npos) {
      return refuse(word, "a statistic is written KEY=VALUE, not " + quote(word.text));
    }
    const PlacedText key = word.part(0, equals);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kTracedStatistics; ++i) {
      names.emplace_back(name_of(static_cast<TracedStatistic>(i)));
    }
    const auto name = std::find(names.begin(), names.end(), key.text);
    if (name == names.end()) {
      const std::string hint = suggestion(key.text, names);
      return refuse(key, "unknown statistic " + quote(key.text),
                    hint.empty() ? "known: " + joined(names) : hint);
    }
    const PlacedText value = word.part(equals + 1, word.text.size() - equals - 1);
    marker.statistics[static_cast<std::size_t>(name - names.begin())] =
        number(value, "a whole number", std::numeric_limits<std::int64_t>::max());
  }

  std::optional<std::int64_t> number(const PlacedText& word, std::string_view noun,
                                     std::int64_t most) {
    const auto value = word.text.empty() ? std::nullopt : digits_of(word.text, 10, most);
    if (!value) refuse(word, "expected " + std::string(noun) + ", not " + quote(word.text));
    return value;
  }

  void split(const PlacedText& line) {
    words_.clear();
    std::size_t at = 0;
    while (true) {
      const std::size_t begin = line.text.find_first_not_of(" \t", at);
      if (begin == std::string_view::npos) return;
      at = std::min(line.text.find_first_of(" \t", begin), line.text.size());
      words_.push_back(line.part(begin, at - begin));
    }
  }

  [[nodiscard]] SourceSpan span(std::string_view line) const {
    constexpr std::size_t kLongest = 1'000'000;
    return {source_, line_, 1, static_cast<std::int32_t>(std::min(line.size(), kLongest))};
  }

  /// At the place of `text`; of the whole file where it has none.
  void refuse(const PlacedText& text, std::string message, std::string hint = {}) {
    SourceSpan place = text.span;
    if (place.source == nullptr) place.source = source_;
    diagnostics_.push_back(error_at(place, std::move(message), std::move(hint)));
  }

  struct Live {
    std::int64_t number = 0;
    bool awaited = false;
  };

  SourcePointer source_;
  Recording recording_;
  AllocatorTrace& trace_ = recording_.trace;
  TracePlaces places_;
  TraceModules modules_;
  WorkLines work_;
  Diagnostics diagnostics_;
  std::int32_t line_ = 0;
  std::vector<PlacedText> words_;
  std::int64_t last_id_ = -1;
  std::unordered_map<std::int64_t, Live> live_;
};

}  // namespace

Checked<AllocatorTrace> read_trace(const std::string& path) {
  Checked<Recording> recording = read_recording(path);
  if (!recording.ok()) return recording.diagnostics();
  return std::move(recording).value().trace;
}

Checked<AllocatorTrace> read_trace(const std::shared_ptr<const SourceText>& source) {
  Checked<Recording> recording = read_recording(source);
  if (!recording.ok()) return recording.diagnostics();
  return std::move(recording).value().trace;
}

Checked<Recording> read_recording(const std::shared_ptr<const SourceText>& source) {
  return TraceReader(source).read();
}

Checked<Recording> read_recording(const std::string& path) {
  const Checked<SourcePointer> source = read_compressed(path, kMostTraceText);
  if (!source.ok()) return source.diagnostics();
  if (!is_pickle(source.value()->text)) return read_recording(source.value());
  Checked<AllocatorTrace> snapshot = read_snapshot(source.value());
  if (!snapshot.ok()) return snapshot.diagnostics();
  if (snapshot.value().earlier.count == 0) {
    Recording recording;
    recording.trace = std::move(snapshot).value();
    return recording;
  }
  return error_at({source.value(), 0, 0, 0},
                  "the history begins when " + std::to_string(snapshot.value().earlier.count) +
                      " blocks are allocated already",
                  "memest diff SPEC FILE compares what there is of it");
}

}  // namespace memest
