// Linear layers whose products run in 8 or 4 bits: torchao's, which save and answer what they would
// have, and Transformer Engine's, whose recipes (common/recipe/__init__.py) decide what is kept.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

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

enum class TeRecipe : std::uint8_t {
  delayed,    ///< DelayedScaling: a scale a tensor, of earlier steps' largest values
  current,    ///< Float8CurrentScaling: a scale a tensor, of its own largest value
  blockwise,  ///< Float8BlockScaling: one for 1 × 128 elements, of weights for 128 × 128
  mxfp8,      ///< MXFP8BlockScaling: one for 32 elements
  nvfp4       ///< NVFP4BlockScaling: one for 16 elements, and one for the tensor
};

/// A recipe is a row: sizes, and the GPUs that run it.
struct TeRecipeRow {
  TeRecipe recipe;
  std::string_view word;  ///< Megatron's: of --fp8-recipe, or --fp4-recipe
  DType operand;          ///< of the products
  OperandScaling scaling;
  ComputeCapability least;  ///< that runs it (quantization.py, check_*_support)
  std::int64_t bits;        ///< of an element
  std::int64_t block;       ///< elements along a row, or a column, that share a scale; 0: all
  std::int64_t scale_bytes;
  /// Elements of a weight that share one which is stored.
  std::int64_t weight_block;
  /// Times that the kernels of a cast by rows and columns read their operand.
  std::int64_t reads;
};
inline constexpr std::array kTeRecipes = {
    TeRecipeRow{TeRecipe::delayed, "delayed", DType::fp8, OperandScaling::fixed, kAda, 8, 0, 0, 0,
                1},
    // tensor/float8_tensor.py: a kernel for the largest value, and one for the cast.
    TeRecipeRow{TeRecipe::current, "tensorwise", DType::fp8, OperandScaling::per_tensor, kAda, 8, 0,
                0, 0, 2},
    TeRecipeRow{TeRecipe::blockwise, "blockwise", DType::fp8, OperandScaling::block_128, kHopper, 8,
                128, 4, std::int64_t{128} * 128, 1},
    TeRecipeRow{TeRecipe::mxfp8, "mxfp8", DType::fp8, OperandScaling::per_tensor, kBlackwell, 8, 32,
                1, 32, 1},
    // NVFP4Quantizer::quantize_impl: the largest values before and behind the Hadamard transform,
    // then the rows, then the transformed columns.
    TeRecipeRow{TeRecipe::nvfp4, "nvfp4", DType::fp4, OperandScaling::block_16, kBlackwell, 4, 16,
                1, 16, 3},
};
const TeRecipeRow& row_of(TeRecipe recipe);
/// "delayed", "tensorwise", ...: Megatron's word.
std::string_view name_of(TeRecipe recipe);
/// The recipe of Megatron's word; none where it is no such word.
std::optional<TeRecipe> te_recipe_of(std::string_view word);

/// One scale a tensor.
constexpr bool scales_tensors(TeRecipe recipe) {
  return recipe == TeRecipe::delayed || recipe == TeRecipe::current;
}
/// Whether products read a tensor by columns as it lies (nvte_is_non_tn_fp8_gemm_supported): else a
/// transposed copy is made of one with a scale for all.
constexpr bool reads_columns(ComputeCapability capability) {
  return capability >= kBlackwell && capability < ComputeCapability{12, 0};
}
/// Copies of a tensor that is multiplied both by rows and by columns.
constexpr std::int64_t te_copies(TeRecipe recipe, ComputeCapability capability) {
  return scales_tensors(recipe) && reads_columns(capability) ? 1 : 2;
}

/// That of the GPU; Hopper's where it is not known.
ComputeCapability te_capability(const GpuSpec& gpu);

/// Which linear layers of Transformer Engine multiply in 8 or 4 bits, and how.
struct TeLinears {
  TeRecipe recipe = TeRecipe::delayed;
  /// Weights live in fp8 and are all-gathered so (--fp8-param-gather): no copy in 16 bits is kept.
  bool param_gather = false;
  std::int64_t first_bf16 = 0;  ///< layers at the start whose products stay in bf16
  std::int64_t last_bf16 = 0;   ///< and at the end

  /// Whether layer `layer` of `layers` has its products in the recipe's type.
  [[nodiscard]] bool quantizes(std::int64_t layer, std::int64_t layers) const {
    return layer >= first_bf16 && layer < layers - last_bf16;
  }

  friend bool operator==(const TeLinears&, const TeLinears&) = default;
};

/// Bytes of the copies that are kept of a weight of so many elements, beside its 16 bits or, with
/// `param_gather`, in their place.
std::int64_t te_weight_bytes(std::int64_t elements, TeRecipe recipe, ComputeCapability capability);

}  // namespace memest
