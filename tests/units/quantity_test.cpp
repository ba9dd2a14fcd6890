#include "memest/units/quantity.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace memest {
namespace {

using namespace literals;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

template <class Left, class Right>
concept Addable = requires(Left left, Right right) {
  left + right;
};
template <class Left, class Right>
concept Scalable = requires(Left left, Right right) {
  left* right;
};

TEST_CASE("only sums that mean something compile") {
  STATIC_REQUIRE(Addable<Bytes, Bytes>);
  STATIC_REQUIRE_FALSE(Addable<Bytes, Flops>);
  STATIC_REQUIRE_FALSE(Addable<Bytes, int>);
  STATIC_REQUIRE_FALSE(Addable<Seconds, Bytes>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Bytes, double>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, Bytes>);
}

TEST_CASE("exact quantities scale by integers only") {
  STATIC_REQUIRE(Scalable<Bytes, int>);
  STATIC_REQUIRE_FALSE(Scalable<Bytes, double>);
  STATIC_REQUIRE(Scalable<Seconds, double>);
}

TEST_CASE("a like over a like is a number, bytes over a rate are seconds") {
  STATIC_REQUIRE(std::is_same_v<decltype(1_GiB / 1_MiB), double>);
  CHECK(1_GiB / 1_MiB == 1024.0);
  CHECK((Bytes(3'000) / BytesPerSecond(1'000.0)).value() == 3.0);
  CHECK((Flops(10) / FlopsPerSecond(4.0)).value() == 2.5);
  CHECK((DollarsPerHour(3.6) * Seconds(1000.0)).value() == 1.0);
}

TEST_CASE("overflow throws instead of wrapping") {
  CHECK_THROWS_AS(Bytes(kMost) + 1_B, OverflowError);
  CHECK_THROWS_AS(Bytes(-kMost) - 2_B, OverflowError);
  CHECK_THROWS_AS(Bytes(kMost / 2 + 1) * 2, OverflowError);
  CHECK_THROWS_AS(narrow_to_int64(Int128{kMost} + 1), OverflowError);
}

TEST_CASE("FLOPs of a large step fit: 405 billion parameters on 16 million tokens") {
  const Flops step = Flops(6) * std::int64_t{405'853'388'800} * std::int64_t{16'777'216};
  CHECK(to_string(step.value()) == "40854539809377484800");
}

TEST_CASE("a share is rounded up") {
  CHECK(divide_rounding_up(10_B, 4) == 3_B);
  CHECK(divide_rounding_up(8_B, 4) == 2_B);
  CHECK(divide_rounding_up(0_B, 4) == 0_B);
}

TEST_CASE("128-bit integers print all their digits") {
  CHECK(to_string(Int128{0}) == "0");
  CHECK(to_string(Int128{-42}) == "-42");
  const Int128 least = Int128{1} << 127;
  CHECK(to_string(least) == "-170141183460469231731687303715884105728");
}

}  // namespace
}  // namespace memest
