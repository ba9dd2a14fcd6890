// What drawn specs are made of: the same draws, in the same order, with every compiler and every
// standard library.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>

namespace memest::test {

/// Words and numbers one after another. What stands left of a `<<` is made before what stands right
/// of it ([expr.shift]); of `a() + b()` a compiler may call `b` first, and g++ does.
class Text {
 public:
  Text& operator<<(const std::string& words) {
    text_ += words;
    return *this;
  }
  Text& operator<<(std::integral auto number) { return *this << std::to_string(number); }
  operator std::string() const { return text_; }

 private:
  std::string text_;
};

class Draws {
 public:
  explicit Draws(std::uint32_t seed) : random_(seed) {}

  /// The standard's distributions are each library's own; its engines are not.
  std::size_t below(std::size_t bound) { return random_() % bound; }

  template <class... Values>
  std::common_type_t<Values...> one_of(Values... values) {
    const std::array<std::common_type_t<Values...>, sizeof...(Values)> all{std::move(values)...};
    return all[below(all.size())];
  }

  /// "true" or "false".
  const char* flag() { return one_of("true", "false"); }

  /// From 0 up to 1, not 1.
  double share() { return static_cast<double>(random_()) / 0x1p32; }

 private:
  std::mt19937 random_;
};

}  // namespace memest::test
