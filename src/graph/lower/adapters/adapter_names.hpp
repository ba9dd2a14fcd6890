// The names of what an adapter adds to a linear module, joined when the program is compiled: a
// tensor's place and an op's name are literals.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace memest {

template <std::size_t n>
struct Literal {
  // NOLINTNEXTLINE(google-explicit-constructor): a template's argument is written as the literal
  consteval Literal(const char (&given)[n]) { std::ranges::copy(given, std::begin(text)); }
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): an argument of a template has no std::array
  char text[n] = {};
};

template <Literal left, Literal right>
constexpr auto kJoinedText = [] {
  std::array<char, sizeof(left.text) + sizeof(right.text) - 1> joined{};
  std::copy_n(left.text, sizeof(left.text) - 1, joined.begin());
  std::copy_n(right.text, sizeof(right.text), joined.begin() + sizeof(left.text) - 1);
  return joined;
}();
template <Literal left, Literal right>
constexpr std::string_view kJoined{kJoinedText<left, right>.data(),
                                   kJoinedText<left, right>.size() - 1};

struct AdapterNames {
  std::string_view a;  ///< the products with the two matrices
  std::string_view b;
  std::string_view sum;
  std::string_view unit_a;  ///< the same with the identity in place of the input
  std::string_view unit_b;
  std::string_view norm;  ///< of the rows of the adapted weight, and what is scaled by it
  std::string_view magnitude;
  std::string_view plain;   ///< the base layer's product without its bias
  std::string_view scales;  ///< IA3's
  std::string_view vera_a;
  std::string_view vera_b;
  std::string_view vera_d;
  std::string_view vera;
};

template <Literal projection>
constexpr AdapterNames adapter_names() {
  return {.a = kJoined<projection, ".lora_A">,
          .b = kJoined<projection, ".lora_B">,
          .sum = kJoined<projection, ".lora">,
          .unit_a = kJoined<projection, ".update.lora_A">,
          .unit_b = kJoined<projection, ".update.lora_B">,
          .norm = kJoined<projection, ".dora">,
          .magnitude = kJoined<projection, ".lora_magnitude_vector">,
          .plain = kJoined<projection, ".dora.linear">,
          .scales = kJoined<projection, ".ia3_l">,
          .vera_a = kJoined<projection, ".vera_A">,
          .vera_b = kJoined<projection, ".vera_B">,
          .vera_d = kJoined<projection, ".vera_lambda_d">,
          .vera = kJoined<projection, ".vera_lambda_b">};
}

}  // namespace memest
