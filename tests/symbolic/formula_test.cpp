#include "memest/symbolic/formula.hpp"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

namespace memest {
namespace {

using Kind = Formula::Kind;

/// A random sum of up to five monomials over four letters, powers from -2 to 3.
Expr drawn(std::mt19937& random) {
  const Symbol letters[] = {Symbol::micro_batch, Symbol::seq_len, Symbol::hidden_size,
                            Symbol::tensor};
  Expr sum;
  for (auto terms = 1 + random() % 5; terms > 0; --terms) {
    Expr term = Rational{static_cast<std::int64_t>(random() % 19) - 9,
                         1 + static_cast<std::int64_t>(random() % 4)};
    for (const Symbol letter : letters) {
      for (int power = static_cast<int>(random() % 6) - 2; power != 0;
           power += power > 0 ? -1 : 1) {
        term = power > 0 ? term * letter : term / letter;
      }
    }
    sum += term;
  }
  return sum;
}

/// The tree as an Expr: reading what was written gives the formula back.
Expr read(const Formula& formula) {
  switch (formula.kind) {
    case Kind::number:
      return formula.number;
    case Kind::letter:
      return formula.symbol;
    case Kind::negative:
      return Expr(0) - read(formula.parts[0]);
    case Kind::quotient:
      return read(formula.parts[0]) / read(formula.parts[1]);
    case Kind::power: {
      Expr power = 1;
      for (std::int64_t i = 0; i < formula.number; ++i) power *= read(formula.parts[0]);
      return power;
    }
    case Kind::sum:
    case Kind::product:
      break;
  }
  Expr result = formula.kind == Kind::sum ? 0 : 1;
  for (const Formula& part : formula.parts) {
    if (formula.kind == Kind::sum) {
      result += read(part);
    } else {
      result *= read(part);
    }
  }
  return result;
}

void check_shape(const Formula& formula) {
  const std::size_t parts = formula.parts.size();
  switch (formula.kind) {
    case Kind::number:
    case Kind::letter:
      CHECK(parts == 0);
      break;
    case Kind::sum:
    case Kind::product:
      CHECK(parts >= 2);
      break;
    case Kind::quotient:
      CHECK(parts == 2);
      break;
    case Kind::power:
      CHECK(formula.number >= 2);
      CHECK(parts == 1);
      break;
    case Kind::negative:
      CHECK(parts == 1);
      break;
  }
  for (const Formula& part : formula.parts) check_shape(part);
}

TEST_CASE("reading the form in which a formula is written gives the formula") {
  std::mt19937 random(18);
  for (int i = 0; i < 2000; ++i) {
    const Expr expr = drawn(random);
    const Formula written = written_form(expr);
    INFO(expr.text());
    CHECK(read(written) == expr);
    check_shape(written);
  }
}

TEST_CASE("nothing is written as the number 0") {
  CHECK(written_form(Expr()).kind == Kind::number);
  CHECK(written_form(Expr()).number == 0);
}

}  // namespace
}  // namespace memest
