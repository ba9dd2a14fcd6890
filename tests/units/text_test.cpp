#include "memest/units/text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

namespace memest {
namespace {

using namespace literals;
using Catch::Matchers::WithinRel;

TEST_CASE("sizes are read exactly, binary and decimal units apart") {
  CHECK(parse_bytes("80 GiB").value == 80_GiB);
  CHECK(parse_bytes("80GB").value == Bytes(80'000'000'000));
  CHECK(parse_bytes("79456894976 B").value == Bytes(79'456'894'976));
  CHECK(parse_bytes("1.5 GiB").value == Bytes(1'610'612'736));
  CHECK(parse_bytes("9007199254740993 B").value ==
        Bytes(9'007'199'254'740'993));  // not representable as a double
}

TEST_CASE("a size without its unit, or with an unknown one, says so and where") {
  CHECK(parse_bytes("80").error == UnitError::missing_unit);
  CHECK(parse_bytes("80 GBs").error == UnitError::unknown_unit);
  CHECK(parse_bytes("80 GBs").position == 3);
  CHECK(parse_bytes("gib").error == UnitError::not_a_number);
  CHECK(parse_bytes("080 GiB").error == UnitError::not_a_number);
  CHECK(parse_bytes("-1 GiB").error == UnitError::not_a_number);
  CHECK(parse_bytes("1,000 GiB").error == UnitError::not_a_number);
  CHECK(parse_bytes("nan GiB").error == UnitError::not_a_number);
  CHECK(parse_bytes("9999999999 TiB").error == UnitError::out_of_range);
}

TEST_CASE("rates and times") {
  CHECK_THAT(parse_quantity("3.35 TB/s", byte_rate_units()).value, WithinRel(3.35e12));
  CHECK_THAT(parse_quantity("989 TFLOP/s", flop_rate_units()).value, WithinRel(989e12));
  CHECK_THAT(parse_quantity("4 ms", time_units()).value, WithinRel(0.004));
  CHECK(parse_quantity("4 min/s", time_units()).error == UnitError::unknown_unit);
}

TEST_CASE("printed sizes say which unit") {
  CHECK(binary_text(512_B) == "512 B");
  CHECK(binary_text(80_GiB) == "80.00 GiB");
  CHECK(binary_text(Bytes(16'060'522'496)) == "14.96 GiB");
  CHECK(decimal_text(Bytes(16'060'522'496)) == "16.06 GB");
  CHECK(grouped(8'030'261'248) == "8,030,261,248");
  CHECK(grouped(-1'000) == "-1,000");
  CHECK(grouped(999) == "999");
}

}  // namespace
}  // namespace memest
