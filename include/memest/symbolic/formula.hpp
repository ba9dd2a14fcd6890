// A formula as it is written: a tree of sums, products, quotients and powers over letters and whole
// numbers. Expr knows what a formula is worth and combines like terms; here stands in which order
// people read it, the common factor in front. text() and substituted() of an Expr print this tree.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memest/symbolic/expr.hpp"

namespace memest {

/// One node: a leaf, or an operation over `parts`.
struct Formula {
  enum class Kind : std::uint8_t {
    number,    ///< `number`
    letter,    ///< `symbol`
    sum,       ///< of two parts and more
    product,   ///< of two parts and more
    quotient,  ///< the first part over the second
    power,     ///< the first part to the power of `number`, 2 and more
    negative   ///< of one part
  };

  Kind kind = Kind::number;
  std::int64_t number = 0;
  Symbol symbol = Symbol::count_;
  std::vector<Formula> parts = {};
};

/// "sum", "product", "quotient", "power", "negative"; "number" and "letter" of leaves.
std::string_view name_of(Formula::Kind kind);

/// The tree in which `expr` is written.
Formula written_form(const Expr& expr);

/// The tree as text, each letter as `letter_text` says.
std::string text_of(const Formula& formula, const std::function<std::string(Symbol)>& letter_text);

}  // namespace memest
