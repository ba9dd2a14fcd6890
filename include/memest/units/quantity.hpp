// A quantity is a number that knows what it counts. Only sums that mean something compile: bytes
// add to bytes, bytes over bytes per second are seconds, a like over a like is a plain number.
// Bytes and FLOPs are exact integers; overflow throws.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

#include "memest/units/int128.hpp"

namespace memest {

/// `Tag::Value` is the representation: std::int64_t or Int128 where exact, double where measured.
template <class Tag>
class Quantity {
 public:
  using Value = typename Tag::Value;
  static constexpr bool kExact = !std::is_floating_point_v<Value>;

  constexpr Quantity() = default;
  /// Exact quantities take integers only, so that `Bytes{3.5}` does not compile.
  template <class Number>
  requires(!kExact || std::is_integral_v<Number> ||
           std::is_same_v<Number, Int128>) constexpr explicit Quantity(Number value)
      : value_(static_cast<Value>(value)) {}

  /// The raw number in the tag's base unit (B, FLOP, s, B/s, FLOP/s, USD).
  [[nodiscard]] constexpr Value value() const { return value_; }
  [[nodiscard]] constexpr double as_double() const { return static_cast<double>(value_); }

  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

  friend constexpr Quantity operator+(Quantity left, Quantity right) {
    if constexpr (kExact) {
      return Quantity(checked_add(left.value_, right.value_));
    } else {
      return Quantity(left.value_ + right.value_);
    }
  }
  friend constexpr Quantity operator-(Quantity left, Quantity right) {
    if constexpr (kExact) {
      return Quantity(checked_subtract(left.value_, right.value_));
    } else {
      return Quantity(left.value_ - right.value_);
    }
  }
  /// Exact quantities scale by integers only; a fraction needs a named rounding
  /// (divide_rounding_up).
  template <class Number>
  requires(std::is_arithmetic_v<Number> &&
           (!kExact || std::is_integral_v<Number>)) friend constexpr Quantity
  operator*(Quantity quantity, Number factor) {
    if constexpr (kExact) {
      return Quantity(checked_multiply(quantity.value_, static_cast<Value>(factor)));
    } else {
      return Quantity(quantity.value_ * static_cast<Value>(factor));
    }
  }
  template <class Number>
  requires(std::is_arithmetic_v<Number> &&
           (!kExact || std::is_integral_v<Number>)) friend constexpr Quantity
  operator*(Number factor, Quantity quantity) {
    return quantity * factor;
  }
  template <class Number>
  requires(std::is_arithmetic_v<Number> && !kExact) friend constexpr Quantity operator/(
      Quantity quantity, Number divisor) {
    return Quantity(quantity.value_ / static_cast<Value>(divisor));
  }
  friend constexpr double operator/(Quantity left, Quantity right) {
    return left.as_double() / right.as_double();
  }

 private:
  Value value_{};
};

struct BytesTag {
  using Value = std::int64_t;
};
struct FlopsTag {
  using Value = Int128;
};
struct SecondsTag {
  using Value = double;
};
struct BytesPerSecondTag {
  using Value = double;
};
struct FlopsPerSecondTag {
  using Value = double;
};
struct HertzTag {
  using Value = double;
};
struct WattsTag {
  using Value = double;
};
struct DollarsTag {
  using Value = double;
};
struct DollarsPerHourTag {
  using Value = double;
};

using Bytes = Quantity<BytesTag>;      ///< bytes, exact
using Flops = Quantity<FlopsTag>;      ///< floating-point operations (a multiply-add is two), exact
using Seconds = Quantity<SecondsTag>;  ///< seconds
using BytesPerSecond = Quantity<BytesPerSecondTag>;  ///< bytes a second
using FlopsPerSecond = Quantity<FlopsPerSecondTag>;  ///< FLOPs a second
using Hertz = Quantity<HertzTag>;                    ///< cycles a second
using Watts = Quantity<WattsTag>;                    ///< watts
using Dollars = Quantity<DollarsTag>;                ///< US dollars
using DollarsPerHour =
    Quantity<DollarsPerHourTag>;  ///< US dollars an hour, for one GPU unless said otherwise

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(amount.as_double() / rate.value());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.as_double() / rate.value());
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return FlopsPerSecond(work.as_double() / time.value());
}
constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return BytesPerSecond(amount.as_double() / time.value());
}
constexpr Dollars operator*(DollarsPerHour price, Seconds time) {
  return Dollars(price.value() * time.value() / 3600.0);
}

/// The largest share of `ranks` equal ranks: ⌈whole / ranks⌉. `ranks` is positive.
constexpr Bytes divide_rounding_up(Bytes whole, std::int64_t ranks) {
  const std::int64_t quotient = whole.value() / ranks;
  return Bytes(quotient + (whole.value() % ranks > 0 ? 1 : 0));
}

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

namespace literals {
constexpr Bytes operator""_B(unsigned long long count) {
  return Bytes(static_cast<std::int64_t>(count));
}
constexpr Bytes operator""_KiB(unsigned long long count) {
  return Bytes(static_cast<std::int64_t>(count)) * kKiB;
}
constexpr Bytes operator""_MiB(unsigned long long count) {
  return Bytes(static_cast<std::int64_t>(count)) * kMiB;
}
constexpr Bytes operator""_GiB(unsigned long long count) {
  return Bytes(static_cast<std::int64_t>(count)) * kGiB;
}
}  // namespace literals

}  // namespace memest
