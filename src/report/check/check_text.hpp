// The words of a budget line, shared by every format of `memest check`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/check_report.hpp"

namespace memest {

/// `amount` in the unit of the item: "74.00 GiB", "9.98 s", "250 USD", "412 PFLOP".
std::string amount_text(BudgetItem item, double amount);

/// "B", "s", "USD", "FLOP".
std::string_view unit_of(BudgetItem item);

/// "memory: 80.1 GiB of 74.0 GiB, 6.1 GiB over: optimizer states 32.1 GiB, ...".
std::string sentence_of(const CheckedLine& checked);

/// "within budget, as locked", "over budget, moved".
std::string remark_of(const CheckedFile& file);

/// Whether a line of the file is too close to call.
bool is_close(const CheckedFile& file);

/// How many specs there are of each kind.
struct CheckTotals {
  std::size_t specs = 0;
  std::size_t within = 0;
  std::size_t too_close = 0;  ///< of those within
  std::size_t over = 0;
  std::size_t not_known = 0;
  std::size_t invalid = 0;
  std::size_t moved = 0;
  std::size_t higher = 0;  ///< of those that moved, by the figure that tells most
  std::size_t lower = 0;
  std::size_t added = 0;
  std::size_t gone = 0;
  std::size_t passed_over = 0;
};
CheckTotals totals_of(const CheckedSpecs& specs);

struct NamedCount {
  std::string_view name;  ///< "over", "passed_over"
  std::size_t count;
};
/// These numbers as rows, for formats that hold any.
std::vector<NamedCount> named_totals(const CheckTotals& totals);

/// Numbers that most ask for, as text: empty where one is not known.
struct FileNumbers {
  std::string memory;  ///< "61.2 of 79.1 GiB"
  std::string step;    ///< or of a call, where nothing is trained
  std::string cost;    ///< a billion tokens
};
FileNumbers numbers_of(const CheckedFile& file);

/// Parts of memest that are others than those that the lock rests on, though nothing moved; empty
/// where there are none.
std::string other_basis_text(const CheckedSpecs& specs);

/// The way out where a lock does not hold; empty where it does.
std::string advice_of(const CheckedSpecs& specs);

/// "12 files are no specs: a.yaml, b.yaml, ...": empty where there are none.
std::string passed_over_text(const CheckedSpecs& specs);

/// The errors that are shown of a file: as many as on a terminal.
std::span<const Diagnostic> shown_of(const Diagnostics& errors);

}  // namespace memest
