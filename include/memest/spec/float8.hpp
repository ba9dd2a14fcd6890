// Linear layers of torchao's float8: their products run in 8 bits, what they save and answer does
// not.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memest {

/// torchao's Float8LinearRecipeName.
enum class Float8Recipe : std::uint8_t {
  tensorwise,         ///< a scale a tensor
  rowwise,            ///< a scale a row or column, whichever the product sums along
  rowwise_with_gw_hp  ///< as rowwise, and the weight's gradient from tensors not cast
};
inline constexpr std::array kFloat8Recipes = {Float8Recipe::tensorwise, Float8Recipe::rowwise,
                                              Float8Recipe::rowwise_with_gw_hp};
/// "tensorwise", "rowwise", "rowwise_with_gw_hp".
std::string_view name_of(Float8Recipe recipe);

/// Among Float8Linears::filter_fqns: torchtitan's word for torchao's _auto_filter_for_recipe.
inline constexpr std::string_view kAutoFilterSmallKn = "auto_filter_small_kn";

/// Which linear layers convert_to_float8_training(...) replaces, and how.
struct Float8Linears {
  Float8Recipe recipe = Float8Recipe::tensorwise;
  /// FSDP2 gathers the weights cast (enable_fsdp_float8_all_gather).
  bool all_gather = false;
  /// Modules whose name contains one of these are left out.
  std::vector<std::string> filter_fqns;

  friend bool operator==(const Float8Linears&, const Float8Linears&) = default;
};

}  // namespace memest
