#include "memest/memory/size_polynomial.hpp"

#include <catch2/catch_test_macros.hpp>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

const Expr b(Symbol::micro_batch);
const Expr s(Symbol::seq_len);
const Expr h(Symbol::hidden_size);

Bindings sized() {
  Bindings bindings;
  bindings.set(Symbol::micro_batch, 3).set(Symbol::seq_len, 5).set(Symbol::hidden_size, 7);
  bindings.set(Symbol::data, 8);
  return bindings;
}

TEST_CASE("a bound formula has the value of the formula", "[memory]") {
  const Expr formula = 34 * s * b * h + 5 * b * s * s + h / Expr(Symbol::data) + 11;
  const SizePolynomial bound(formula, sized());
  for (const std::int64_t micro_batch : {1, 2, 64}) {
    for (const std::int64_t seq_len : {1, 5, 8192}) {
      Bindings bindings = sized();
      bindings.set(Symbol::micro_batch, micro_batch).set(Symbol::seq_len, seq_len);
      CHECK(bound.evaluate({micro_batch, seq_len}) == formula.evaluate(bindings));
    }
  }
}

TEST_CASE("an unset symbol is a mistake of memest, a product out of range an overflow",
          "[memory]") {
  CHECK_THROWS_AS(SizePolynomial(Expr(Symbol::vocab_size), sized()), InternalError);
  const SizePolynomial square(b * s * s, sized());
  CHECK_THROWS_AS(square.evaluate({std::int64_t{1} << 40, std::int64_t{1} << 40}), OverflowError);
}

TEST_CASE("a formula dominates another where no coefficient is smaller", "[memory]") {
  const auto bound = [](const Expr& formula) { return SizePolynomial(formula, sized()); };
  CHECK(bound(2 * b * s + 1).dominates(bound(b * s)));
  CHECK_FALSE(bound(2 * b * s).dominates(bound(b * s + 1)));
  CHECK(bound(b * s).dominates(bound(b * s)));
}

}  // namespace
}  // namespace memest
