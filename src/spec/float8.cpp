#include "memest/spec/float8.hpp"

#include <algorithm>
#include <cstddef>

#include "memest/units/int128.hpp"

namespace memest {

const TeRecipeRow& row_of(TeRecipe recipe) { return kTeRecipes[static_cast<std::size_t>(recipe)]; }

std::string_view name_of(TeRecipe recipe) { return row_of(recipe).word; }

std::optional<TeRecipe> te_recipe_of(std::string_view word) {
  const auto* const row = std::ranges::find(kTeRecipes, word, &TeRecipeRow::word);
  if (row == kTeRecipes.end()) return std::nullopt;
  return row->recipe;
}

ComputeCapability te_capability(const GpuSpec& gpu) {
  return gpu.compute_capability().value_or(kHopper);
}

std::int64_t te_weight_bytes(std::int64_t elements, TeRecipe recipe, ComputeCapability capability) {
  const TeRecipeRow& row = row_of(recipe);
  constexpr std::int64_t kBitsOfAByte = 8;
  std::int64_t bytes = checked_multiply(elements, row.bits) / kBitsOfAByte;
  if (row.weight_block > 0) {
    bytes = checked_add(bytes, checked_multiply(elements, row.scale_bytes) / row.weight_block);
  }
  return checked_multiply(bytes, te_copies(recipe, capability));
}

}  // namespace memest
