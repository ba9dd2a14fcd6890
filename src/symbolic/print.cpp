// A formula's tree as text: a letter or its value for every symbol.

#include <array>
#include <string>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/symbolic/formula.hpp"

namespace memest {
namespace {

using Kind = Formula::Kind;
using SymbolText = std::function<std::string(Symbol)>;

constexpr std::string_view kTimes = "·";

std::string superscript(std::int64_t power) {
  static constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result;
  for (const char digit : std::to_string(power))
    result += kDigits[static_cast<std::size_t>(digit - '0')];
  return result;
}

std::string sum_text(const Formula& sum, const SymbolText& symbol_text) {
  std::string text;
  for (const Formula& part : sum.parts) {
    const bool negative = part.kind == Kind::negative;
    if (!text.empty()) text += negative ? " - " : " + ";
    // The sign of a first part is its own.
    text += text_of(negative && !text.empty() ? part.parts[0] : part, symbol_text);
  }
  return text;
}

std::string product_text(const Formula& product, const SymbolText& symbol_text) {
  std::string text;
  for (const Formula& part : product.parts) {
    if (!text.empty()) text += kTimes;
    const std::string factor = text_of(part, symbol_text);
    text += part.kind == Kind::sum ? "(" + factor + ")" : factor;
  }
  return text;
}

std::string quotient_text(const Formula& quotient, const SymbolText& symbol_text) {
  const Formula& below = quotient.parts[1];
  const std::string divisor = text_of(below, symbol_text);
  return text_of(quotient.parts[0], symbol_text) +
         (below.kind == Kind::product ? "/(" + divisor + ")" : "/" + divisor);
}

}  // namespace

std::string_view name_of(Formula::Kind kind) {
  switch (kind) {
    case Kind::number:
      return "number";
    case Kind::letter:
      return "letter";
    case Kind::sum:
      return "sum";
    case Kind::product:
      return "product";
    case Kind::quotient:
      return "quotient";
    case Kind::power:
      return "power";
    case Kind::negative:
      return "negative";
  }
  unreachable("a formula's kind beyond the enum");
}

std::string text_of(const Formula& formula, const SymbolText& letter_text) {
  switch (formula.kind) {
    case Kind::number:
      return std::to_string(formula.number);
    case Kind::letter:
      return letter_text(formula.symbol);
    case Kind::sum:
      return sum_text(formula, letter_text);
    case Kind::product:
      return product_text(formula, letter_text);
    case Kind::quotient:
      return quotient_text(formula, letter_text);
    case Kind::power:
      return text_of(formula.parts[0], letter_text) + superscript(formula.number);
    case Kind::negative:
      return "-" + text_of(formula.parts[0], letter_text);
  }
  unreachable("a formula's kind beyond the enum");
}

std::string Expr::text() const {
  return text_of(written_form(*this), [](Symbol symbol) { return std::string(letter(symbol)); });
}

std::string Expr::substituted(const Bindings& bindings) const {
  return text_of(written_form(*this),
                 [&bindings](Symbol symbol) { return std::to_string(bindings.at(symbol)); });
}

}  // namespace memest
