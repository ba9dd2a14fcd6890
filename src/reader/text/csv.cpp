#include "reader/text/csv.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

/// Reads one line into cells.
class LineReader {
 public:
  LineReader(const std::shared_ptr<const SourceText>& source, std::string_view line,
             std::int32_t number)
      : source_(source), line_(line), number_(number) {}

  std::optional<CsvRow> read(Diagnostics& faults) {
    CsvRow row;
    row.line = line_;
    row.span = {source_, number_, 1, static_cast<std::int32_t>(line_.size())};
    for (bool more = true; more;) {
      const std::size_t begin = at_;
      std::optional<std::string> text = at_quote() ? quoted_text() : plain_text();
      if (!text) {
        faults.push_back(
            error_at(span_of(begin, line_.size()), "a quote that does not end on its line", ""));
        return std::nullopt;
      }
      row.cells.push_back({*std::move(text), span_of(begin, at_)});
      more = at_ < line_.size();
      if (more) ++at_;  // the comma
    }
    return row;
  }

 private:
  [[nodiscard]] bool at_quote() const { return at_ < line_.size() && line_[at_] == '"'; }

  std::optional<std::string> plain_text() {
    const std::size_t end = std::min(line_.find(',', at_), line_.size());
    std::string text(line_.substr(at_, end - at_));
    at_ = end;
    return text;
  }

  std::optional<std::string> quoted_text() {
    std::string text;
    for (++at_; at_ < line_.size(); ++at_) {
      if (line_[at_] != '"') {
        text += line_[at_];
        continue;
      }
      ++at_;
      if (!at_quote()) {
        at_ = std::min(line_.find(',', at_), line_.size());
        return text;
      }
      // RFC 4180, 2.7.
      text += '"';  // a doubled quote stands for one
    }
    return std::nullopt;
  }

  [[nodiscard]] SourceSpan span_of(std::size_t begin, std::size_t end) const {
    return {source_, number_, static_cast<std::int32_t>(begin + 1),
            static_cast<std::int32_t>(end - begin)};
  }

  const std::shared_ptr<const SourceText>& source_;
  std::string_view line_;
  std::int32_t number_;
  std::size_t at_ = 0;
};

}  // namespace

Checked<CsvTable> CsvTable::parse(const std::shared_ptr<const SourceText>& source) {
  CsvTable table;
  Diagnostics faults;
  std::string_view rest = source->text;
  for (std::int32_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (line.empty()) continue;
    std::optional<CsvRow> row = LineReader(source, line, number).read(faults);
    if (!row) continue;
    if (table.head_.cells.empty()) {
      table.head_ = *std::move(row);
    } else {
      table.rows_.push_back(*std::move(row));
    }
  }
  if (!faults.empty()) return faults;
  if (table.head_.cells.empty()) {
    return error_at({source, 1, 1, 0}, "an empty file: the first line names the columns");
  }
  return table;
}

std::size_t CsvTable::index_of(std::string_view column) const {
  const auto found = std::find_if(head_.cells.begin(), head_.cells.end(),
                                  [column](const CsvCell& cell) { return cell.text == column; });
  return static_cast<std::size_t>(found - head_.cells.begin());
}

bool CsvTable::has(std::string_view column) const { return index_of(column) < head_.cells.size(); }

const CsvCell* CsvTable::cell(const CsvRow& row, std::string_view column) const {
  const std::size_t index = index_of(column);
  return index < head_.cells.size() && index < row.cells.size() ? &row.cells[index] : nullptr;
}

}  // namespace memest
