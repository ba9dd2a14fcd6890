// Comma-separated values (RFC 4180, a record a line), with the place of every cell.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

struct CsvCell {
  std::string text;  ///< without its quotes
  SourceSpan span;
};

struct CsvRow {
  std::vector<CsvCell> cells;
  SourceSpan span;        ///< the line
  std::string_view line;  ///< as written, without its end
};

/// A file with a head row. Rows live as long as their source.
class CsvTable {
 public:
  /// Refuses a file without a head, and a quote that is not closed on its line.
  static Checked<CsvTable> parse(const std::shared_ptr<const SourceText>& source);

  [[nodiscard]] const CsvRow& head() const { return head_; }
  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }
  /// The cell under `column`; null where the head has no such column or the row ends before it.
  [[nodiscard]] const CsvCell* cell(const CsvRow& row, std::string_view column) const;
  [[nodiscard]] bool has(std::string_view column) const;

 private:
  [[nodiscard]] std::size_t index_of(std::string_view column) const;

  CsvRow head_;
  std::vector<CsvRow> rows_;
};

}  // namespace memest
