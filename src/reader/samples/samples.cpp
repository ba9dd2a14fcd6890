#include "memest/reader/samples.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <variant>

#include "reader/samples/sample_row.hpp"
#include "reader/text/csv.hpp"
#include "reader/text/gzip.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

/// Warnings about single rows that are shown; the rest is counted.
constexpr std::size_t kMostWarnings = 10;
/// Most bytes of a file, decompressed: hundreds of thousands of rows.
constexpr std::size_t kMostSampleBytes = std::size_t{64} << 20;

void shorten(Diagnostics& warnings) {
  if (warnings.size() <= kMostWarnings) return;
  const std::size_t more = warnings.size() - kMostWarnings;
  const SourceSpan span = warnings[kMostWarnings].span;
  warnings.resize(kMostWarnings);
  warnings.push_back({Severity::warning, span,
                      std::to_string(more) + " more rows have holes and are passed over", "",
                      false});
}

/// One warning an operation that is not known.
void warn_of(const std::vector<const CsvCell*>& unknown, Diagnostics& warnings) {
  std::vector<std::pair<const CsvCell*, std::size_t>> first;
  for (const CsvCell* cell : unknown) {
    const auto known = std::find_if(first.begin(), first.end(), [cell](const auto& entry) {
      return entry.first->text == cell->text;
    });
    if (known == first.end()) {
      first.emplace_back(cell, 1);
    } else {
      ++known->second;
    }
  }
  for (const auto& [cell, count] : first) {
    warnings.push_back({Severity::warning, cell->span,
                        "no law is about " + quote(cell->text) + ": " + std::to_string(count) +
                            (count == 1 ? " row is" : " rows are") + " passed over",
                        "", false});
  }
}

std::optional<Diagnostic> missing_column(const CsvTable& table) {
  for (const std::string_view column : {"op", "seconds"}) {
    if (table.has(column)) continue;
    return error_at(table.head().span, "samples need a column " + quote(column),
                    "docs/calibration.md lists the columns");
  }
  return std::nullopt;
}

/// The row's line, with the cells that its end leaves out.
std::string whole_line(const CsvTable& table, const CsvRow& row) {
  const std::size_t cells = table.head().cells.size();
  std::string line(row.line);
  if (row.cells.size() < cells) line.append(cells - row.cells.size(), ',');
  return line;
}

}  // namespace

std::vector<Sample> SampleTable::samples() const {
  std::vector<Sample> result;
  for (const SampleRow& row : rows) {
    if (row.sample) result.push_back(*row.sample);
  }
  return result;
}

Checked<SampleTable> read_sample_rows(const std::string& path) {
  const Checked<SourcePointer> source = read_compressed(path, kMostSampleBytes);
  if (!source.ok()) return source.diagnostics();
  const Checked<CsvTable> csv = CsvTable::parse(source.value());
  if (!csv.ok()) return csv.diagnostics();
  if (auto missing = missing_column(csv.value())) return *std::move(missing);
  SampleTable table;
  table.head = csv.value().head().line;
  Diagnostics warnings;
  std::vector<const CsvCell*> unknown_ops;
  for (const CsvRow& row : csv.value().rows()) {
    table.rows.push_back(
        {whole_line(csv.value(), row), sample_of(csv.value(), row, warnings, unknown_ops)});
  }
  if (table.rows.empty()) return error_at(csv.value().head().span, "no row follows");
  shorten(warnings);
  warn_of(unknown_ops, warnings);
  return {std::move(table), std::move(warnings)};
}

Checked<SampleTable> read_samples(const std::string& path) {
  Checked<SampleTable> table = read_sample_rows(path);
  if (!table.ok()) return table;
  const std::vector<SampleRow>& rows = table.value().rows;
  if (std::any_of(rows.begin(), rows.end(),
                  [](const SampleRow& row) { return row.sample.has_value(); })) {
    return table;
  }
  Diagnostics mistakes = table.diagnostics();
  for (Diagnostic& mistake : mistakes) mistake.severity = Severity::error;
  return mistakes;
}

}  // namespace memest
