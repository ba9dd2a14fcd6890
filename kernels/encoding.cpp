#include "kernels/encoding.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/element.hpp"
#include "memest/diag/expect.hpp"

namespace memest::kernels {
namespace {

template <class T>
struct Number {
  static T from(double value) {
    if constexpr (std::numeric_limits<T>::is_integer) {
      // C++ leaves the cast of a NaN to an integer undefined; this is a value that no result has.
      if (std::isnan(value)) return std::numeric_limits<T>::max();
    }
    return static_cast<T>(value);
  }
  static double to(T value) { return static_cast<double>(value); }
};
template <>
struct Number<Bf16> {
  static Bf16 from(double value) { return to_bf16(static_cast<float>(value)); }
  static double to(Bf16 value) { return to_float(value); }
};
template <>
struct Number<Fp16> {
  static Fp16 from(double value) { return to_fp16(static_cast<float>(value)); }
  static double to(Fp16 value) { return to_float(value); }
};
template <>
struct Number<Fp8> {
  static Fp8 from(double value) { return to_fp8(static_cast<float>(value)); }
  static double to(Fp8 value) { return to_float(value); }
};

template <class T>
struct Converter {
  static std::vector<unsigned char> encode(std::span<const double> values) {
    std::vector<unsigned char> bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = Number<T>::from(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
  }
  static std::vector<double> decode(std::span<const unsigned char> bytes) {
    std::vector<double> values(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      T value{};
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = Number<T>::to(value);
    }
    return values;
  }
};

/// `use` of the converter of a type.
template <class Use>
auto with_converter(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::fp64:
      return use(Converter<double>());
    case DType::fp32:
      return use(Converter<float>());
    case DType::bf16:
      return use(Converter<Bf16>());
    case DType::fp16:
      return use(Converter<Fp16>());
    case DType::fp8:
      return use(Converter<Fp8>());
    case DType::int64:
      return use(Converter<std::int64_t>());
    case DType::int32:
      return use(Converter<std::int32_t>());
    case DType::int8:
      return use(Converter<std::int8_t>());
    case DType::uint8:
    case DType::boolean:
      return use(Converter<std::uint8_t>());
    case DType::fp4:
      unreachable("no kernel of memest's own reads or writes fp4");
  }
  return use(Converter<double>());
}

}  // namespace

std::vector<unsigned char> encode(DType dtype, std::span<const double> values) {
  return with_converter(dtype, [&](auto converter) { return converter.encode(values); });
}

std::vector<double> decode(DType dtype, std::span<const unsigned char> bytes) {
  return with_converter(dtype, [&](auto converter) { return converter.decode(bytes); });
}

}  // namespace memest::kernels
