#include "memest/report/numbers.hpp"

#include <catch2/catch_test_macros.hpp>

namespace memest {
namespace {

TEST_CASE("three significant digits, thousands grouped") {
  CHECK(significant_text(9.984) == "9.98");
  CHECK(significant_text(9.999) == "10.0");
  CHECK(significant_text(99.96) == "100");
  CHECK(significant_text(1239.6) == "1,240");
  CHECK(significant_text(0.012345) == "0.0123");
  CHECK(significant_text(-43.21) == "-43.2");
  CHECK(significant_text(0) == "0");
}

TEST_CASE("every number says its unit, and a prefix rolls over") {
  CHECK(flops_text(Flops(412'000'000'000'000'000)) == "412 PFLOP");
  CHECK(flops_text(Flops(999'900'000'000'000)) == "1.00 PFLOP");
  CHECK(flops_text(Flops(12)) == "12.0 FLOP");
  CHECK(rate_text(FlopsPerSecond(989e12)) == "989 TFLOP/s");
  CHECK(rate_text(BytesPerSecond(3.35e12)) == "3.35 TB/s");
  CHECK(seconds_text(Seconds(9.98)) == "9.98 s");
  CHECK(seconds_text(Seconds(0.812)) == "812 ms");
  CHECK(seconds_text(Seconds(3.2e-6)) == "3.20 µs");
  CHECK(seconds_text(Seconds(1240)) == "1,240 s");
  CHECK(dollars_text(Dollars(15.62)) == "15.6 USD");
  CHECK(count_text(8'030'261'248.0) == "8.03 B");
  CHECK(count_text(445'123) == "445 k");
  CHECK(count_text(512) == "512");
  CHECK(percent_text(0.431) == "43 %");
  CHECK(percent_text(0.0123) == "1.2 %");
}

TEST_CASE("GiB is a power of two") { CHECK(gib_text(Bytes(85'899'345'920)) == "80.0"); }

}  // namespace
}  // namespace memest
