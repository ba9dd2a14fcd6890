#include "reader/samples/usage_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "reader/text/csv.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr const char* kHowToLog =
    "nvidia-smi --query-gpu=timestamp,index,memory.used --format=csv -lms 100 > FILE";
constexpr std::string_view kLogBlanks = " \t\r";

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0;
       (at = line.find_first_not_of(kLogBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kLogBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string_view line_at(std::string_view text, std::size_t number) {
  for (; number > 0 && !text.empty(); --number) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return trimmed(text.substr(0, text.find('\n')));
}

/// Forms that are known and not read, by what their first line has.
struct OtherForm {
  std::string_view sign;
  std::string_view name;
};
constexpr std::array<OtherForm, 5> kOtherForms = {{
    {"NVSMI LOG", "the text of nvidia-smi -q"},
    {"nvidia_smi_log", "the XML of nvidia-smi -q -x"},
    {"NVIDIA-SMI", "the table that nvidia-smi prints for people"},
    {"+-----", "the table that nvidia-smi prints for people"},
    {"#Entity", "a log of DCGM's dcgmi dmon"},
}};

/// MiB: NVML counts bytes, and nvidia-smi shows 2^20 of them whether it writes MiB or MB.
std::optional<Bytes> size_of(std::string_view cell) {
  for (const std::string_view unit : {"MiB", "MB"}) {
    if (cell.ends_with(unit)) cell.remove_suffix(unit.size());
  }
  constexpr double kMost = 1e9;
  const std::optional<double> number = number_of(trimmed(cell));
  if (!number || *number < 0 || *number > kMost) return {};
  return Bytes(std::llround(*number * static_cast<double>(kMiB)));
}

/// A figure that the GPU or its driver does not give.
bool is_missing(std::string_view cell) {
  return cell == "-" || cell.starts_with("[N/A]") || cell == "N/A" ||
         cell.find("Not Supported") != std::string_view::npos;
}

class PeakFinder {
 public:
  explicit PeakFinder(UsageLog& log) : log_(log) {}

  UsedMemory& add(const std::string& name, Bytes used, std::int64_t line) {
    auto found = std::ranges::find(log_.gpus, name, &UsedMemory::name);
    if (found == log_.gpus.end()) {
      log_.gpus.push_back({name, used, line});
      found = log_.gpus.end() - 1;
    }
    ++found->samples;
    if (used > found->peak) {
      found->peak = used;
      found->line = line;
    }
    return *found;
  }

 private:
  UsageLog& log_;
};

Diagnostic no_figure(const std::shared_ptr<const SourceText>& source, const std::string& column) {
  return error_at({source, 0, 0, 0}, "the log has no figure under '" + column + "'", kHowToLog);
}

/// The column whose title, without its unit, is one of `names`.
std::optional<std::size_t> column_of(const CsvRow& head,
                                     std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < head.cells.size(); ++i) {
    const std::string_view title = head.cells[i].text;
    const std::string_view word = trimmed(title.substr(0, title.find('[')));
    if (std::ranges::find(names, word) != names.end()) return i;
  }
  return {};
}

Checked<UsageLog> read_query(const std::shared_ptr<const SourceText>& source, UsageLog log) {
  const Checked<CsvTable> table = CsvTable::parse(source);
  if (!table.ok()) return table.diagnostics();
  const CsvRow& head = table.value().head();
  const auto used = column_of(head, {"memory.used"});
  if (!used) {
    return error_at(head.span, "the log has no column 'memory.used'", kHowToLog);
  }
  const auto gpu = column_of(head, {"index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"});
  const auto total = column_of(head, {"memory.total"});
  PeakFinder peaks(log);
  for (const CsvRow& row : table.value().rows()) {
    const auto cell = [&row](const std::optional<std::size_t>& column) {
      return column && *column < row.cells.size() ? trimmed(row.cells[*column].text)
                                                  : std::string_view();
    };
    // A log that was begun anew in the same file has its head again.
    if (is_missing(cell(used)) || row.line == head.line) continue;
    const std::optional<Bytes> size = size_of(cell(used));
    if (!size) {
      const bool there = *used < row.cells.size();
      return error_at(there ? row.cells[*used].span : row.span,
                      "expected the memory in use in MiB, not " + quote(cell(used)));
    }
    UsedMemory& found = peaks.add(std::string(cell(gpu)), *size, row.span.line);
    if (!found.capacity) found.capacity = size_of(cell(total));
  }
  if (log.gpus.empty()) return no_figure(source, "memory.used");
  return log;
}

/// `# gpu  pid  fb ...` over `# Idx  #  MB ...`, repeated every few lines.
Checked<UsageLog> read_monitor(const std::shared_ptr<const SourceText>& source, UsageLog log) {
  std::vector<std::string_view> titles;
  PeakFinder peaks(log);
  std::string_view rest = source->text;
  for (std::int32_t line = 1; !rest.empty(); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    std::vector<std::string_view> words = words_in(text);
    if (words.empty()) continue;
    if (words.front().front() == '#') {
      words.front().remove_prefix(1);
      if (words.front().empty()) words.erase(words.begin());
      if (std::ranges::find(words, "gpu") != words.end()) titles = std::move(words);
      continue;
    }
    const auto cell = [&](std::string_view title) {
      const auto found = std::ranges::find(titles, title);
      const auto index = static_cast<std::size_t>(found - titles.begin());
      return found == titles.end() || index >= words.size() ? std::string_view() : words[index];
    };
    if (std::ranges::find(titles, "fb") == titles.end()) {
      return error_at({source, line, 1, 0}, "the log has no column 'fb'",
                      log.form + " -s m shows the memory in use");
    }
    if (is_missing(cell("fb")) || is_missing(cell("pid"))) continue;
    const std::optional<Bytes> used = size_of(cell("fb"));
    if (!used) {
      return error_at({source, line, 1, static_cast<std::int32_t>(text.size())},
                      "expected the memory in use in MB under 'fb', not " + quote(cell("fb")));
    }
    std::string name(cell("gpu"));
    if (!cell("pid").empty()) name += ", process " + std::string(cell("pid"));
    peaks.add(name, *used, line);
  }
  if (log.gpus.empty()) return no_figure(source, "fb");
  return log;
}

}  // namespace

std::optional<FoundLog> find_log_form(std::string_view text) {
  const std::string_view first = line_at(text, 0);
  const std::string_view second = line_at(text, 1);
  const bool query = first.find(',') != std::string_view::npos || first.ends_with(" [MiB]");
  const bool named = first.find("memory.used") != std::string_view::npos ||
                     first.starts_with("timestamp") ||
                     first.find("utilization.gpu") != std::string_view::npos;
  if (query && named) return FoundLog{LogForm::query, "nvidia-smi --query-gpu"};
  if (query && first.find(" MiB") != std::string_view::npos) {
    return FoundLog{LogForm::other, "a log of nvidia-smi without the names of its columns"};
  }
  if (first.starts_with('#') && second.starts_with('#') &&
      second.find("Idx") != std::string_view::npos) {
    const bool processes = first.find(" pid") != std::string_view::npos;
    return FoundLog{LogForm::monitor, processes ? "nvidia-smi pmon" : "nvidia-smi dmon"};
  }
  for (const OtherForm& other : kOtherForms) {
    // `date` may stand above the table, a declaration above the XML.
    for (const std::string_view line : {first, second}) {
      if (line.find(other.sign) != std::string_view::npos)
        return FoundLog{LogForm::other, other.name};
    }
  }
  return {};
}

Checked<UsageLog> read_usage_log(const std::shared_ptr<const SourceText>& source,
                                 const FoundLog& found) {
  UsageLog log{source->name, std::string(found.name), {}};
  switch (found.form) {
    case LogForm::query:
      return read_query(source, std::move(log));
    case LogForm::monitor:
      return read_monitor(source, std::move(log));
    case LogForm::other:
      break;
  }
  return error_at({source, 0, 0, 0}, "this is " + log.form + ", which memest does not read",
                  kHowToLog);
}

}  // namespace memest
