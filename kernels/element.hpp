// Elements narrower than a float as their bits, and their conversions: exact to a float, from a
// float to the nearest, ties to even. Constant expressions, so that host and device share them; a
// device uses its own instruction where it has one (device/codec.cuh).
#pragma once

#include <bit>
#include <cstdint>

namespace memest::kernels {

struct Bf16 {
  std::uint16_t bits;  ///< the upper half of a float's
};
struct Fp16 {
  std::uint16_t bits;  ///< IEEE 754 binary16
};
struct Fp8 {
  std::uint8_t bits;  ///< e4m3, finite (OCP 8-bit floating point, 2023): no infinities, largest 448
};

constexpr float to_float(float value) { return value; }
constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// A narrow float: sign, exponent, `kMantissa` bits, with the exponent's bias. The value of a
/// subnormal is its mantissa times 2^(1 - bias - kMantissa).
template <int kMantissa, int kBias>
constexpr float widen(std::uint32_t sign, std::uint32_t magnitude) {
  const std::uint32_t exponent = magnitude >> kMantissa;
  if (exponent == 0) {
    const float ulp =
        std::bit_cast<float>(static_cast<std::uint32_t>(128 - kBias - kMantissa) << 23);
    const float value = static_cast<float>(magnitude) * ulp;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t rebiased = (magnitude << (23 - kMantissa)) + ((127U - kBias) << 23);
  return std::bit_cast<float>(sign << 31 | rebiased);
}

constexpr float to_float(Fp16 value) {
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  const std::uint32_t sign = value.bits >> 15;
  if (magnitude >= 0x7C00) {  // infinite, or not a number
    return std::bit_cast<float>(sign << 31 | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  }
  return widen<10, 15>(sign, magnitude);
}
constexpr float to_float(Fp8 value) {
  const std::uint32_t magnitude = value.bits & 0x7FU;
  const std::uint32_t sign = value.bits >> 7;
  if (magnitude == 0x7F) return std::bit_cast<float>(0x7FC00000U);
  return widen<3, 7>(sign, magnitude);
}

/// Bits of a float without its lowest `dropped`, rounded.
constexpr std::uint32_t rounded(std::uint32_t bits, int dropped) {
  const std::uint32_t half = (1U << (dropped - 1)) - 1;
  return (bits + half + (bits >> dropped & 1U)) >> dropped;
}

/// The other way, for a magnitude under what overflows.
template <int kMantissa, int kBias>
constexpr std::uint32_t narrow(float magnitude) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  if (bits < kLeastNormal) {
    // A sum with a float whose last place is the subnormals' rounds for us.
    constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(151 - kBias - kMantissa) << 23;
    return std::bit_cast<std::uint32_t>(magnitude + std::bit_cast<float>(kMagic)) - kMagic;
  }
  return rounded(bits - ((127U - kBias) << 23), 23 - kMantissa);
}

constexpr bool is_nan(std::uint32_t float_bits) { return (float_bits & 0x7FFFFFFFU) > 0x7F800000U; }

constexpr Bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan(bits)) return {0x7FFF};
  return {static_cast<std::uint16_t>(rounded(bits, 16))};
}
constexpr Fp16 to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << 15;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (is_nan(bits)) return {0x7FFF};
  constexpr std::uint32_t kOverflows = 0x477FF000;  // 65520, half a place past the largest
  if (magnitude >= kOverflows) return {static_cast<std::uint16_t>(sign | 0x7C00)};
  return {static_cast<std::uint16_t>(sign | narrow<10, 15>(std::bit_cast<float>(magnitude)))};
}
/// Saturates.
constexpr Fp8 to_fp8(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << 7;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (is_nan(bits)) return {0x7F};
  constexpr std::uint32_t kLargest = 0x43E00000;  // 448
  if (magnitude >= kLargest) return {static_cast<std::uint8_t>(sign | 0x7E)};
  return {static_cast<std::uint8_t>(sign | narrow<3, 7>(std::bit_cast<float>(magnitude)))};
}

}  // namespace memest::kernels
