// Products in 8 and 4 bits, of Megatron's flags and of Megatron-Bridge's YAML.
#include <algorithm>
#include <string>

#include "memest/spec/float8.hpp"
#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

/// A precision of megatron/bridge/training/mixed_precision.py.
struct BridgePrecision {
  std::string_view name;
  TeLinears linears;
};
constexpr BridgePrecision kBridgePrecisions[] = {
    {"bf16_with_fp8_delayed_scaling_mixed", {.recipe = TeRecipe::delayed, .param_gather = true}},
    {"bf16_with_fp8_current_scaling_mixed",
     {.recipe = TeRecipe::current, .param_gather = true, .first_bf16 = 1, .last_bf16 = 1}},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed",
     {.recipe = TeRecipe::current, .param_gather = true, .first_bf16 = 2, .last_bf16 = 2}},
    {"bf16_with_fp8_subchannel_scaling_mixed", {.recipe = TeRecipe::blockwise}},
    {"bf16_with_mxfp8_mixed", {.recipe = TeRecipe::mxfp8, .param_gather = true}},
    {"bf16_with_nvfp4_mixed", {.recipe = TeRecipe::nvfp4}},
};

/// Bridge has every name with hyphens too.
const BridgePrecision* precision_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  const auto* const row = std::ranges::find(kBridgePrecisions, name, &BridgePrecision::name);
  return row == std::end(kBridgePrecisions) ? nullptr : row;
}

/// The keys that decide together, of a command line, of a model's config and of mixed_precision.
struct QuantizedKeys {
  std::string_view format;
  std::string_view recipe;
  std::string_view param_gather;
  std::string_view four_bit_format;
  std::string_view four_bit_recipe;
  std::string_view four_bit_param_gather;
  std::string_view ends;
  std::string_view at_start;
  std::string_view at_end;
};
constexpr QuantizedKeys kQuantizedFlags = {"--fp8-format",
                                           "--fp8-recipe",
                                           "--fp8-param-gather",
                                           "--fp4-format",
                                           "--fp4-recipe",
                                           "--fp4-param-gather",
                                           "--first-last-layers-bf16",
                                           "--num-layers-at-start-in-bf16",
                                           "--num-layers-at-end-in-bf16"};
constexpr QuantizedKeys kQuantizedPaths = {"model.fp8",
                                           "model.fp8_recipe",
                                           "model.fp8_param",
                                           "model.fp4",
                                           "model.fp4_recipe",
                                           "model.fp4_param",
                                           "model.first_last_layers_bf16",
                                           "model.num_layers_at_start_in_bf16",
                                           "model.num_layers_at_end_in_bf16"};
constexpr QuantizedKeys kQuantizedMixed = {"mixed_precision.fp8",
                                           "mixed_precision.fp8_recipe",
                                           "mixed_precision.fp8_param_gather",
                                           "mixed_precision.fp4",
                                           "mixed_precision.fp4_recipe",
                                           "mixed_precision.fp4_param_gather",
                                           "mixed_precision.first_last_layers_bf16",
                                           "mixed_precision.num_layers_at_start_in_bf16",
                                           "mixed_precision.num_layers_at_end_in_bf16"};

bool asks(const ForeignImport& file, std::string_view key) {
  return file.find(key) != nullptr && !is_same_word(file.text(key), "none");
}

void write_named(ForeignImport& file, const TeLinears& linears) {
  const auto write = [&](std::string_view own, std::string_view value) {
    file.write("training.float8." + std::string(own), value, {"mixed_precision"});
  };
  write("recipe", name_of(linears.recipe));
  if (linears.param_gather) write("param_gather", "true");
  if (linears.first_bf16 == 0) return;
  write("first_layers_bf16", std::to_string(linears.first_bf16));
  write("last_layers_bf16", std::to_string(linears.last_bf16));
}

void write_by_keys(ForeignImport& file, const QuantizedKeys& keys, std::string_view usual) {
  const bool four = asks(file, keys.four_bit_format);
  if (!four && !asks(file, keys.format)) return;
  const std::string_view key = four ? keys.four_bit_recipe : keys.recipe;
  const std::string recipe = file.text(key, four ? "nvfp4" : usual);
  if (!te_recipe_of(recipe)) {
    return file.refuse(key, "the recipe " + quote(recipe),
                       "known are delayed, tensorwise, blockwise, mxfp8 and nvfp4");
  }
  file.write("training.float8.recipe", recipe, {key, four ? keys.four_bit_format : keys.format});
  const std::string_view gather = four ? keys.four_bit_param_gather : keys.param_gather;
  if (file.flag(gather)) file.write("training.float8.param_gather", "true", {gather});
  if (!file.flag(keys.ends)) return;
  // transformer_config.py: num_layers_at_start_in_bf16 and num_layers_at_end_in_bf16 are 1.
  file.write("training.float8.first_layers_bf16", file.text(keys.at_start, "1"),
             {keys.at_start, keys.ends});
  file.write("training.float8.last_layers_bf16", file.text(keys.at_end, "1"),
             {keys.at_end, keys.ends});
}

}  // namespace

bool is_quantized_precision(const std::string& name) { return precision_of(name) != nullptr; }

void write_quantized(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (!megatron.is_yaml()) return write_by_keys(file, kQuantizedFlags, "delayed");
  const Value* mixed = file.find("mixed_precision");
  if (mixed == nullptr) return write_by_keys(file, kQuantizedPaths, "delayed");
  // MixedPrecisionConfig has another default, and writes what it has over the model's.
  if (mixed->kind != ValueKind::scalar) return write_by_keys(file, kQuantizedMixed, "tensorwise");
  if (const BridgePrecision* row = precision_of(mixed->text)) write_named(file, row->linears);
}

}  // namespace memest::megatron
