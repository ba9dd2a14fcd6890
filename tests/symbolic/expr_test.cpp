#include "memest/symbolic/expr.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <random>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

const Expr b = Symbol::micro_batch;
const Expr s = Symbol::seq_len;
const Expr h = Symbol::hidden_size;
const Expr a = Symbol::heads;
const Expr t = Symbol::tensor;
const Expr D = Symbol::data;
const Expr phi = Symbol::parameters;

Bindings small_sizes() {
  return Bindings()
      .set(Symbol::micro_batch, 2)
      .set(Symbol::seq_len, 128)
      .set(Symbol::hidden_size, 96)
      .set(Symbol::heads, 12)
      .set(Symbol::tensor, 4)
      .set(Symbol::data, 7)
      .set(Symbol::parameters, 1'000'003);
}

/// A random formula of up to four terms over b, s, h and t, small enough not to overflow at
/// small_sizes().
Expr random_formula(std::mt19937& random) {
  const Expr letters[] = {b, s, h, t};
  Expr result;
  for (unsigned terms = 1 + random() % 4; terms > 0; --terms) {
    Expr term = Rational{static_cast<std::int64_t>(random() % 19) - 9,
                         1 + static_cast<std::int64_t>(random() % 6)};
    for (unsigned factors = random() % 4; factors > 0; --factors) {
      const Expr& letter = letters[random() % 4];
      term = random() % 3 == 0 ? term / letter : term * letter;
    }
    result += term;
  }
  return result;
}

TEST_CASE("equal formulas compare equal however they were built") {
  CHECK(s * b * h * 34 + s * b * h * (5 * a * s / h) == b * h * s * (34 + 5 * a * s / h));
  CHECK(h - h == Expr());
  CHECK((h + 1) * (h - 1) == h * h - 1);
  CHECK(Expr(Rational(1, 2)) * h + h / 2 == h);
}

TEST_CASE("formulas form a commutative ring") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Expr x = random_formula(random);
    const Expr y = random_formula(random);
    const Expr z = random_formula(random);
    REQUIRE(x + y == y + x);
    REQUIRE(x * y == y * x);
    REQUIRE((x + y) + z == x + (y + z));
    REQUIRE((x * y) * z == x * (y * z));
    REQUIRE(x * (y + z) == x * y + x * z);
    REQUIRE(x - x == Expr());
    REQUIRE(x * 1 == x);
  }
}

TEST_CASE("evaluation is exact and rounds the whole up, not its terms") {
  CHECK((phi / D).evaluate(small_sizes()) == 142'858);  // 1,000,003 / 7 = 142,857.57
  CHECK((phi / D + phi / D).evaluate(small_sizes()) == 285'716);
  CHECK((phi / D * D).evaluate(small_sizes()) == 1'000'003);
  CHECK((Expr(0) - phi / D).evaluate(small_sizes()) == -142'857);
  CHECK((b * s * h * (10 + 24 / t)).evaluate(small_sizes()) == Int128{2} * 128 * 96 * 16);
}

TEST_CASE("sums and products evaluate to the sum and product of whole values") {
  std::mt19937 random(11);
  const Bindings sizes = small_sizes();
  for (int round = 0; round < 100; ++round) {
    // Multiplied by every denominator that a random formula can have, a formula is whole.
    const Expr whole = 60 * t * t * t * h * h * h * s * s * s * b * b * b;
    const Expr x = random_formula(random) * whole;
    const Expr y = random_formula(random) * 60 * t * t * t * h * h * h * s * s * s * b * b * b;
    REQUIRE((x + y).evaluate(sizes) == x.evaluate(sizes) + y.evaluate(sizes));
  }
}

TEST_CASE("overflow and unset symbols are errors") {
  const Bindings large = Bindings().set(Symbol::seq_len, std::numeric_limits<std::int64_t>::max());
  CHECK((s * s).evaluate(large) == Int128{std::numeric_limits<std::int64_t>::max()} *
                                       std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS((s * s).bytes(large), OverflowError);
  CHECK_THROWS_AS((s * s * s).evaluate(large), OverflowError);
  CHECK_THROWS_AS(h.evaluate(large), InternalError);
  CHECK_THROWS_AS((s / t).evaluate(Bindings(large).set(Symbol::tensor, 0)), InternalError);
  CHECK_THROWS_AS(Expr(std::numeric_limits<std::int64_t>::max()) * 2, OverflowError);
}

TEST_CASE("a formula divides by a single monomial only") {
  CHECK((h * s + h) / h == s + 1);
  CHECK_THROWS_AS(h / (s + 1), InternalError);
  CHECK_THROWS_AS(h / Expr(), InternalError);
}

TEST_CASE("substitution replaces every power") {
  CHECK((s * h / t).substitute(Symbol::tensor, 1) == s * h);
  CHECK((h * h).substitute(Symbol::hidden_size, a + 1) == a * a + 2 * a + 1);
  CHECK((5 * a * s / h).substitute(Symbol::hidden_size, 4 * a) == 5 * s / 4);
}

TEST_CASE("formulas print as people write them") {
  CHECK(Expr().text() == "0");
  CHECK(Expr(34).text() == "34");
  CHECK((2 * phi).text() == "2·Φ");
  CHECK((2 * phi + 12 * phi / D).text() == "2·Φ + 12·Φ/D");
  CHECK((s * b * h * (34 + 5 * a * s / h)).text() == "b·s·h·(34 + 5·s·a/h)");
  CHECK((s * b * h * (10 + 24 / t + 5 * a * s / (h * t))).text() ==
        "b·s·h·(10 + 5·s·a/(h·t) + 24/t)");
  CHECK((a * s * s * b / 2).text() == "b·s²·a/2");
  CHECK((s * b * (16 * h + 4 * a + 8) + 16 * a).text() == "b·s·(16·h + 4·a + 8) + 16·a");
  CHECK((s * b * (8 * h + 4)).text() == "b·s·(8·h + 4)");
  CHECK((h - 3 * s).text() == "-3·s + h");
}

TEST_CASE("values stand where the letters stood") {
  CHECK((2 * phi + 12 * phi / D).substituted(small_sizes()) == "2·1000003 + 12·1000003/7");
}

}  // namespace
}  // namespace memest
