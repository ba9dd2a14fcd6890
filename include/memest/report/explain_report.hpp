// The answer of `memest explain`: every number as formula, formula with values, value and source.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A number that another one is the sum of.
struct SummedNumber {
  std::string name;
  std::variant<Bytes, Flops> number;
};

/// One number of an answer and why it is that number. A formula that is no polynomial (a maximum
/// over operations) is written in words.
struct Explanation {
  std::string group;  ///< "weights", "memory", "flops", "time", "money"
  std::string name;
  std::optional<Expr> expression;    ///< none where the formula is words
  Bindings bindings;                 ///< the values of the expression's letters
  std::vector<SummedNumber> summed;  ///< of a sum over other numbers
  std::string formula;
  std::string substituted;
  std::string value;  ///< with its unit
  std::variant<Bytes, Flops, double> number;
  std::string unit;  ///< of `number`
  std::string source;
};

/// Every number of the answer, in its order.
std::vector<Explanation> explain(const Job& job, const JobEstimate& estimate);

/// The explanations whose name or group holds `term`, all where it is empty; a word that matches
/// none is an error with the nearest name.
Checked<std::vector<Explanation>> select(std::vector<Explanation> explanations,
                                         const std::string& term);

/// The explanation asked for, as far as it is known.
struct Explained {
  std::vector<Explanation> rows;
  bool is_known = true;  ///< false: the answer has no memory, and the rows are not what was asked
};

Report report_explanations(const Job& job, const JobEstimate& estimate, const Explained& explained,
                           const Question& question);

}  // namespace memest
