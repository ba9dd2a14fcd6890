// Numbers of two answers side by side.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/report/diff_report.hpp"

namespace memest {

using FigureNumber = std::variant<Bytes, Flops, double>;

/// One number of both answers; a side without has none.
struct FigureRow {
  std::string group;  ///< "weights", "memory", "time"
  std::string name;
  std::string unit;  ///< "B", "FLOP", "s", "USD", "tokens/s"; empty: a share
  std::optional<FigureNumber> a;
  std::optional<FigureNumber> b;
  /// B less A. A term that one side's peak has not counts as no bytes; else none where a side has
  /// no number.
  std::optional<FigureNumber> difference;

  [[nodiscard]] bool differs() const;
  /// One answer has the number, and the other cannot have it.
  bool one_sided = false;
};

/// Every number of either, in A's order, each that B alone has behind the one that it follows in B.
std::vector<FigureRow> figure_rows(const SpecComparison& comparison);

/// A part of the answer that a side does not have.
struct UnknownPart {
  std::string part;  ///< "memory", "flops", "time", "cost"
  std::string a;     ///< why A has none; empty: it has
  std::string b;
};
std::vector<UnknownPart> unknown_parts(const SpecComparison& comparison);

/// "3.20 GiB", "12.0 %", "0.812 USD".
std::string figure_text(const FigureNumber& number, const std::string& unit);
/// As above, with its sign: "+3.20 GiB", "-512 B".
std::string signed_text(const FigureNumber& number, const std::string& unit);
/// Digits alone, for machines.
std::string digits_of(const FigureNumber& number);

}  // namespace memest
