#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/reader/family_text.hpp"
#include "memest/reader/read_trace.hpp"
#include "reader/recorded/family_lines.hpp"
#include "reader/recorded/varied_lines.hpp"
#include "reader/samples/snapshot.hpp"
#include "reader/text/gzip.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostFamilyText = std::size_t{512} << 20U;
constexpr std::size_t kMostFamilyErrors = 20;
constexpr std::string_view kTraceLine = "# allocator trace 1";

/// A word of a line, by its place in it.
struct LineWord {
  std::size_t at = 0;
  std::string_view text;
};

std::vector<LineWord> words_of_line(std::string_view line) {
  std::vector<LineWord> words;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) return words;
    at = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back({begin, line.substr(begin, at - begin)});
  }
}

/// Takes the formulas out of a family's text. It leaves a trace whose sizes are 0, in the same
/// lines and columns, for the reader of traces.
class FamilyReader {
 public:
  explicit FamilyReader(SourcePointer source) : source_(std::move(source)) {}

  Checked<RecordedFamily> read() {
    std::string_view rest = source_->text;
    while (!rest.empty() && diagnostics_.size() < kMostFamilyErrors) {
      ++line_;
      read_line(take_line(rest));
    }
    check_points();
    if (!diagnostics_.empty()) return std::move(diagnostics_);
    return read_trace_of();
  }

 private:
  void read_line(std::string_view line) {
    std::string kept(line);
    const std::vector<LineWord> words = words_of_line(line);
    const std::string_view letter = words.empty() ? std::string_view() : words.front().text;
    if (line_ == 1) {
      kept = kTraceLine;
    } else if (line.starts_with('#')) {
      read_head(line);
      if (line.starts_with(family_head(kWorkKey, ""))) kept.clear();
    } else if (letter == "a") {
      constexpr std::size_t kSize = 2;  // a ID SIZE STREAM
      if (words.size() > kSize) {
        read_size(words[kSize]);
        kept.replace(words[kSize].at, words[kSize].text.size(),
                     "0" + std::string(words[kSize].text.size() - 1, ' '));
      }
    } else if (letter == "w") {
      read_work(line);
      kept.clear();
    } else if (letter == "o") {
      refuse(0, line, "a family has no requests that failed", "");
    }
    trace_ += kept + "\n";
  }

  void read_work(std::string_view line) {
    if (!family_.work) family_.work.emplace();
    if (add_varied_line(line, names_, *family_.work)) return;
    refuse(0, line, "this is no line of a step's work with formulas of what was varied",
           "a number is written 4096, a formula (batch*seq)");
  }

  void read_size(const LineWord& word) {
    const auto [known, is_new] = formulas_.try_emplace(
        std::string(word.text), static_cast<std::uint32_t>(family_.formulas.size()));
    if (is_new) {
      auto formula = parse_formula(word.text, names_);
      if (!formula) {
        formulas_.erase(known);
        std::string list;
        for (const std::string& name : names_) list += (list.empty() ? "" : " and ") + name;
        refuse(word.at, word.text,
               "expected a size in bytes or a formula of " + (list.empty() ? "sizes" : list) +
                   ", not '" + std::string(word.text) + "'",
               list.empty() ? "'# varied: NAME=N,N,N' stands before the first event" : "");
        return;
      }
      family_.formulas.push_back(*std::move(formula));
    }
    family_.formula_of.push_back(known->second);
  }

  void read_head(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = trimmed(line.substr(1, colon - 1));
    const std::string_view value = line.substr(colon + 1);
    if (key == kVariedKey) {
      read_varied(line, trimmed(value));
    } else if (key == kRecordedKey) {
      if (auto point = read_point(line, value)) family_.fitted.push_back(*std::move(point));
    } else if (key == kHeldOutKey) {
      if (auto point = read_point(line, value)) family_.held_out = *std::move(point);
    } else if (key == kWorkKey) {
      family_.work.emplace().of = trimmed(value);
    } else if (key == kNoWorkKey) {
      family_.no_work = trimmed(value);
    }
  }

  void read_varied(std::string_view line, std::string_view value) {
    auto varied = parse_varied(value);
    if (!varied || !std::ranges::is_sorted(varied->values, std::ranges::less_equal())) {
      return refuse(0, line, "'# varied:' is written # varied: NAME=N,N,N",
                    "whole numbers that ascend");
    }
    if (std::ranges::find(names_, varied->name) != names_.end()) {
      return refuse(0, line, "'" + varied->name + "' is varied twice", "");
    }
    names_.push_back(varied->name);
    family_.varied.push_back(*std::move(varied));
  }

  std::optional<SizePoint> read_point(std::string_view line, std::string_view value) {
    const std::vector<LineWord> words = words_of_line(value);
    SizePoint point;
    for (std::size_t i = 0; i < words.size() && i < names_.size(); ++i) {
      const auto read = parse_size_value(words[i].text);
      if (read && read->first == names_[i]) point.push_back(read->second);
    }
    if (!names_.empty() && point.size() == names_.size() && words.size() == names_.size()) {
      return point;
    }
    refuse(0, line, "a point has a value of every size that is varied, as '# varied:' lists them",
           "");
    return std::nullopt;
  }

  void check_points() {
    if (!diagnostics_.empty()) return;
    if (names_.empty()) return refuse_file("the family does not say what was varied");
    if (family_.fitted.empty() || family_.held_out.empty()) {
      refuse_file("the family does not say at which sizes it was recorded");
    }
  }

  void refuse_file(std::string message) {
    diagnostics_.push_back(
        error_at({source_, 0, 0, 0}, std::move(message), "memest record --vary writes families"));
  }

  Checked<RecordedFamily> read_trace_of() {
    const auto text = std::make_shared<const SourceText>(SourceText{source_->name, trace_});
    Checked<Recording> recording = read_recording(text);
    if (!recording.ok()) {
      Diagnostics diagnostics = recording.diagnostics();
      for (Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.span.source == text) diagnostic.span.source = source_;
      }
      return diagnostics;
    }
    Recording read = std::move(recording).value();
    expect(static_cast<std::size_t>(read.trace.allocations) == family_.formula_of.size(),
           "every allocation of a family has a formula");
    family_.torch = std::move(read.torch);
    family_.rank = std::move(read.rank);
    family_.gpu = std::move(read.gpu);
    family_.reads = std::move(read.reads);
    family_.masks_keep_all = read.masks_keep_all;
    family_.trace = std::move(read.trace);
    return std::move(family_);
  }

  void refuse(std::size_t at, std::string_view text, std::string message, std::string hint) {
    constexpr std::size_t kLongest = 1'000'000;
    const SourceSpan span{source_, line_, static_cast<std::int32_t>(std::min(at, kLongest)) + 1,
                          static_cast<std::int32_t>(std::min(text.size(), kLongest))};
    diagnostics_.push_back(error_at(span, std::move(message), std::move(hint)));
  }

  SourcePointer source_;
  RecordedFamily family_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint32_t, std::less<>> formulas_;  // by text, indices of the family's
  std::string trace_;
  Diagnostics diagnostics_;
  std::int32_t line_ = 0;
};

bool is_family(std::string_view text) {
  const std::string_view first = text.substr(0, text.find_first_of("\r\n"));
  return first == kFamilyLine;
}

}  // namespace

Checked<RecordedFamily> read_family(const std::shared_ptr<const SourceText>& source) {
  return FamilyReader(source).read();
}

Checked<std::variant<Recording, RecordedFamily>> read_recording_or_family(const std::string& path) {
  using Read = std::variant<Recording, RecordedFamily>;
  const Checked<SourcePointer> source = read_compressed(path, kMostFamilyText);
  if (!source.ok()) return source.diagnostics();
  if (is_family(source.value()->text)) {
    Checked<RecordedFamily> family = read_family(source.value());
    if (!family.ok()) return family.diagnostics();
    return Read(std::move(family).value());
  }
  Checked<Recording> recording =
      is_pickle(source.value()->text) ? read_recording(path) : read_recording(source.value());
  if (!recording.ok()) return recording.diagnostics();
  return Read(std::move(recording).value());
}

}  // namespace memest
