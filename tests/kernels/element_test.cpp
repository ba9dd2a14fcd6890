#include "kernels/element.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace memest::kernels;

namespace {

/// The value of `bits` that is nearest to `value`, by trying all; a tie goes to the even one.
template <class T, class Bits>
double nearest(float value, Bits first_non_finite) {
  double best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t magnitude = 0; magnitude < first_non_finite; ++magnitude) {
    const double candidate = to_float(T{static_cast<Bits>(magnitude)});
    const double off = std::abs(std::abs(static_cast<double>(value)) - candidate);
    if (off < distance || (off == distance && magnitude % 2 == 0)) {
      distance = off;
      best = candidate;
    }
  }
  return std::copysign(best, value);
}

}  // namespace

TEST_CASE("every narrow value survives the way to a float and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const float bf16 = to_float(Bf16{narrow});
    if (!std::isnan(bf16)) REQUIRE(to_bf16(bf16).bits == narrow);
    const float fp16 = to_float(Fp16{narrow});
    if (!std::isnan(fp16)) REQUIRE(to_fp16(fp16).bits == narrow);
  }
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto narrow = static_cast<std::uint8_t>(bits);
    const float fp8 = to_float(Fp8{narrow});
    if (!std::isnan(fp8)) REQUIRE(to_fp8(fp8).bits == narrow);
  }
}

TEST_CASE("known values") {
  CHECK(to_float(Fp16{0x0001}) == std::ldexp(1.0F, -24));
  CHECK(to_float(Fp16{0x7BFF}) == 65504);
  CHECK(std::isinf(to_float(Fp16{0x7C00})));
  CHECK(to_float(Fp8{0x01}) == std::ldexp(1.0F, -9));
  CHECK(to_float(Fp8{0x7E}) == 448);
  CHECK(std::isnan(to_float(Fp8{0x7F})));
  CHECK(to_fp8(1e6F).bits == 0x7E);
  CHECK(to_fp8(-449).bits == 0xFE);
  CHECK(to_fp16(65519.9F).bits == 0x7BFF);
  CHECK(to_fp16(65520).bits == 0x7C00);
  CHECK(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
  for (const float nan : {std::nanf(""), -std::nanf("")}) {
    CHECK(std::isnan(to_float(to_bf16(nan))));
    CHECK(std::isnan(to_float(to_fp16(nan))));
    CHECK(std::isnan(to_float(to_fp8(nan))));
  }
}

TEST_CASE("a float becomes the nearest narrow value, ties the even one") {
  std::mt19937 generator(11);
  std::uniform_real_distribution<float> exponent(-12, 8.5);
  for (int i = 0; i < 3000; ++i) {
    const float value = std::exp2(exponent(generator)) * (i % 2 == 0 ? 1.0F : -1.0F);
    REQUIRE(to_float(to_fp8(value)) == nearest<Fp8, std::uint8_t>(value, 0x7F));
  }
  std::uniform_real_distribution<float> small(-26, -12);
  for (int i = 0; i < 300; ++i) {
    const float value = std::exp2(small(generator));
    REQUIRE(to_float(to_fp16(value)) == nearest<Fp16, std::uint16_t>(value, 0x7C00));
  }
  for (std::uint32_t magnitude = 0; magnitude < 0x7E; ++magnitude) {  // every tie
    const double below = to_float(Fp8{static_cast<std::uint8_t>(magnitude)});
    const double above = to_float(Fp8{static_cast<std::uint8_t>(magnitude + 1)});
    const auto tie = static_cast<float>((below + above) / 2);
    REQUIRE(to_fp8(tie).bits % 2 == 0);
  }
}
