#include "reader/recorded/varied_lines.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "memest/reader/family_text.hpp"
#include "memest/units/int128.hpp"
#include "reader/samples/work_lines.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr std::string_view kKernelName = "w n ";
constexpr std::string_view kKernel = "w k ";
constexpr std::string_view kOperator = "w o ";
constexpr std::string_view kEvent = "w e ";
constexpr std::string_view kEventWait = "w t ";
constexpr std::string_view kHostWait = "w h event ";
constexpr std::string_view kModule = "w > ";  // a family has no modules
constexpr std::string_view kWork = "w ";
constexpr std::string_view kWorkHead = "# work: ";

/// Up to the blank behind so many words.
std::size_t behind_words(std::string_view line, std::size_t words) {
  std::size_t at = 0;
  for (; words > 0; --words) {
    at = line.find(' ', at);
    if (at == std::string_view::npos) return line.size();
    ++at;
  }
  return at;
}

/// Kernels by number, renumbered as they are launched: those of other sizes have other names.
class LaunchedKernels {
 public:
  void name(std::string_view line) { names_.emplace_back(line.substr(behind_words(line, 3))); }

  /// A launch with its kernel's new number, and zeros for the grid and the threads of a block.
  std::string launch(std::string_view line) {
    constexpr std::size_t kWordsBefore = 5;  // w k THREAD STREAM OPERATOR
    const std::size_t at = behind_words(line, kWordsBefore);
    std::size_t old = 0;
    std::from_chars(line.data() + at, line.data() + line.size(), old);
    const auto [entry, is_new] = numbers_.try_emplace(old, numbers_.size());
    if (is_new) launched_.push_back(old < names_.size() ? names_[old] : "?");
    return std::string(line.substr(0, at)) + std::to_string(entry->second) + " 0 0 0 0";
  }

  std::vector<std::string> take() { return std::move(launched_); }

 private:
  std::vector<std::string> names_;
  std::map<std::size_t, std::size_t> numbers_;
  std::vector<std::string> launched_;
};

/// Events renumbered as they are recorded: which handle PyTorch takes again follows the clock.
class RecordedEvents {
 public:
  /// A line of an event, or of a wait for one.
  std::string renumbered(std::string_view line) {
    const bool is_wait_of_host = line.starts_with(kHostWait);
    const std::size_t at = behind_words(line, is_wait_of_host ? 3 : 2);
    std::size_t event = 0;
    const auto read = std::from_chars(line.data() + at, line.data() + line.size(), event);
    auto [entry, is_new] = numbers_.try_emplace(event, next_);
    if (line.starts_with(kEvent)) entry->second = next_;
    if (is_new || line.starts_with(kEvent)) ++next_;
    return std::string(line.substr(0, at)) + std::to_string(entry->second) +
           std::string(read.ptr, line.data() + line.size());
  }

 private:
  std::map<std::size_t, std::size_t> numbers_;
  std::size_t next_ = 0;
};

/// The words of a line, which has no place of its own.
std::vector<PlacedText> placed_words(std::string_view line) {
  std::vector<PlacedText> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back({line.substr(0, end), {}});
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

}  // namespace

std::optional<ComparableWork> comparable_work(std::string_view recording) {
  ComparableWork work;
  LaunchedKernels kernels;
  RecordedEvents events;
  while (!recording.empty()) {
    const std::string_view line = take_line(recording);
    if (line.starts_with(kWorkHead)) {
      const std::string_view of = line.substr(kWorkHead.size());
      if (of == "cut off") return std::nullopt;
      work.of = of;
    } else if (line.starts_with(kKernelName)) {
      kernels.name(line);
    } else if (line.starts_with(kKernel)) {
      std::string launch = kernels.launch(line);
      if (work.lines.empty() || work.lines.back() != launch)
        work.lines.push_back(std::move(launch));
    } else if (line.starts_with(kEvent) || line.starts_with(kEventWait) ||
               line.starts_with(kHostWait)) {
      work.lines.push_back(events.renumbered(line));
    } else if (line.starts_with(kWork) && !line.starts_with(kModule)) {
      work.lines.emplace_back(line);
    }
  }
  if (work.lines.empty()) return std::nullopt;
  work.kernels = kernels.take();
  return work;
}

std::string varied_work_text(const VariedWork& work, const std::vector<std::string>& names) {
  std::string text = std::string(kWorkHead) + work.of + "\n";
  for (std::size_t i = 0; i < work.kernels.size(); ++i) {
    text += std::string(kKernelName) + std::to_string(i) + " " + work.kernels[i] + "\n";
  }
  for (const VariedLine& line : work.lines) {
    text += line.texts.front();
    for (std::size_t i = 0; i < line.formulas.size(); ++i) {
      text += "(" + work.formulas[line.formulas[i]].text(names) + ")" + line.texts[i + 1];
    }
    text += "\n";
  }
  return text;
}

bool add_varied_line(std::string_view line, const std::vector<std::string>& names,
                     VariedWork& work) {
  if (line.starts_with(kKernelName)) {
    work.kernels.emplace_back(line.substr(behind_words(line, 3)));
    return true;
  }
  // The name of an operator may have brackets of its own.
  const std::size_t begin = behind_words(line, line.starts_with(kOperator) ? 4 : 2);
  VariedLine varied{{std::string(line.substr(0, begin))}, {}};
  std::string_view rest = line.substr(begin);
  while (!rest.empty()) {
    const std::size_t open = std::min(rest.find('('), rest.size());
    varied.texts.back() += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    std::size_t depth = 0;
    const auto* const close = std::ranges::find_if(rest, [&](char sign) {
      depth += sign == '(' ? 1 : 0;
      depth -= sign == ')' ? 1 : 0;
      return depth == 0;
    });
    if (close == rest.end()) return false;
    const auto length = static_cast<std::size_t>(close - rest.begin());
    auto formula = parse_formula(rest.substr(1, length - 1), names);
    if (!formula) return false;
    rest.remove_prefix(length + 1);
    const auto known = std::ranges::find(work.formulas, *formula);
    varied.formulas.push_back(static_cast<std::uint32_t>(known - work.formulas.begin()));
    if (known == work.formulas.end()) work.formulas.push_back(*std::move(formula));
    varied.texts.emplace_back();
  }
  work.lines.push_back(std::move(varied));
  return true;
}

std::optional<RecordedWork> work_at(const RecordedFamily& family, const SizePoint& point) {
  if (!family.work) return std::nullopt;
  const VariedWork& work = *family.work;
  WorkLines lines;
  Diagnostics diagnostics;
  const auto read = [&](const std::string& line) {
    const std::vector<PlacedText> words = placed_words(line);
    lines.read({words, diagnostics}, 0);
  };
  lines.begin({work.of, {}});
  for (std::size_t i = 0; i < work.kernels.size(); ++i) {
    read(std::string(kKernelName) + std::to_string(i) + " " + work.kernels[i]);
  }
  for (const VariedLine& line : work.lines) {
    const auto text = line_at(line, work, point);
    if (!text) return std::nullopt;
    read(*text);
  }
  if (!diagnostics.empty()) return std::nullopt;
  return lines.take();
}

}  // namespace memest
