// The words of a budget line, shared by every format of `memest check`.
#pragma once

#include <span>
#include <string>

#include "memest/report/check_report.hpp"

namespace memest {

/// `amount` in the unit of the item: "74.00 GiB", "9.98 s", "250 USD", "412 PFLOP".
std::string amount_text(BudgetItem item, double amount);

/// "B", "s", "USD", "FLOP".
std::string_view unit_of(BudgetItem item);

/// "memory: 80.1 GiB of 74.0 GiB, 6.1 GiB over: optimizer states 32.1 GiB, ...".
std::string sentence_of(const CheckedLine& checked);

/// The errors that are shown of a file: as many as on a terminal.
std::span<const Diagnostic> shown_of(const Diagnostics& errors);

}  // namespace memest
