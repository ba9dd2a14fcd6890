// Products of Transformer Engine's layers in 8 and 4 bits, as Megatron takes them.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "memest/reader/catalog.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// The precision that is megatron but for its products, by recipe.
constexpr std::array<std::string_view, kTeRecipes.size()> kTePrecisions = {
    "fp8", "fp8-current", "fp8-blockwise", "mxfp8", "nvfp4"};

/// Keys of training.float8 that are torchao's, and those that are Megatron's.
constexpr std::array<std::string_view, 3> kOfTorchao = {"all_gather", "precompute_scales",
                                                        "filter_fqns"};
constexpr std::array<std::string_view, 3> kOfMegatron = {"param_gather", "first_layers_bf16",
                                                         "last_layers_bf16"};

}  // namespace

void refuse_te_keys(const Value& float8, Diagnostics& diagnostics) {
  for (const std::string_view key : kOfMegatron) {
    if (const Value* written = float8.find(key)) {
      diagnostics.push_back(error_at(
          written->span, quote(std::string(key)) + " is of Transformer Engine's layers in Megatron",
          "leave it out, or set 'implementation' to megatron"));
    }
  }
}

std::optional<TeLinears> read_te_linears(const Value* float8, const Recipe& recipe,
                                         Diagnostics& diagnostics) {
  if (float8 == nullptr) {
    if (!recipe.te_recipe) return std::nullopt;
    return TeLinears{.recipe = *recipe.te_recipe};
  }
  for (const std::string_view key : kOfTorchao) {
    if (const Value* written = float8->find(key)) {
      diagnostics.push_back(error_at(written->span,
                                     quote(std::string(key)) + " is of torchao's linear layers",
                                     "leave it out under Megatron"));
    }
  }
  TeLinears linears{.recipe = recipe.te_recipe.value_or(TeRecipe::delayed)};
  if (const Value* word = float8->find("recipe")) {
    const std::optional<TeRecipe> written = te_recipe_of(word->text);
    if (!written) {
      diagnostics.push_back(
          error_at(word->span, "Transformer Engine has no recipe " + quote(word->text),
                   "Megatron's are delayed, tensorwise, blockwise, mxfp8 and nvfp4"));
    } else if (recipe.te_recipe && *recipe.te_recipe != *written) {
      diagnostics.push_back(error_at(word->span,
                                     "the precision " + quote(recipe.name) + " is the recipe " +
                                         quote(name_of(*recipe.te_recipe)),
                                     "leave one of them out"));
    }
    linears.recipe = written.value_or(linears.recipe);
  }
  linears.param_gather = as_flag(float8->find("param_gather")).value_or(false);
  linears.first_bf16 = as_count(float8->find("first_layers_bf16")).value_or(0);
  linears.last_bf16 = as_count(float8->find("last_layers_bf16")).value_or(0);
  return linears;
}

void name_precision(TrainingSpec& training) {
  if (!training.te_linears) return;
  if (training.recipe.name == "megatron") {
    const auto recipe = static_cast<std::size_t>(training.te_linears->recipe);
    training.recipe = find_recipe(std::string(kTePrecisions[recipe])).value();
  }
  // Transformer Engine's copies are counted weight by weight.
  training.recipe.fp8_weight_copies = 0;
}

namespace {

/// A job with such products breaks it where it asks for `key` of training.float8, or for the
/// recipe.
struct TeRule {
  std::string_view key;
  bool (*broken)(const Job&, const TeLinears&);
  std::string_view message;
  std::string_view hint;
};

template <TeRecipe recipe>
bool lacks_kernels(const Job& job, const TeLinears& linears) {
  if (linears.recipe != recipe) return false;
  const auto capability = job.hardware.gpu.compute_capability();
  if (!capability) return std::holds_alternative<GfxTarget>(job.hardware.gpu.target);
  return *capability < row_of(recipe).least;
}

bool is_older(const Job& job, TeRelease release) {
  return job.training->implementation.transformer_engine < release;
}

constexpr std::array kTeRules = {
    TeRule{"",
           [](const Job& job, const TeLinears&) {
             return job.training->implementation.layers != LayerSpec::te;
           },
           "Megatron's local layers multiply in 16 bits",
           "leave 'layers: local' out, or use the precision megatron"},
    TeRule{"",
           [](const Job& job, const TeLinears&) {
             const std::string& name = job.training->recipe.name;
             return !job.training->recipe.te_recipe && name != "megatron" &&
                    name != "megatron-bf16-grad";
           },
           "products in 8 or 4 bits are beside weights in bf16",
           "use the precision megatron or megatron-bf16-grad"},
    // quantization.py, check_fp8_support, check_fp8_block_scaling_support, check_mxfp8_support and
    // check_nvfp4_support.
    TeRule{"recipe", lacks_kernels<TeRecipe::delayed>,
           "fp8 products run from compute capability 8.9 on", "use the precision megatron"},
    TeRule{"recipe", lacks_kernels<TeRecipe::current>,
           "fp8 products run from compute capability 8.9 on", "use the precision megatron"},
    TeRule{"recipe", lacks_kernels<TeRecipe::blockwise>,
           "fp8 products with scales by blocks run from compute capability 9.0 on",
           "use fp8, fp8-current or megatron"},
    TeRule{"recipe", lacks_kernels<TeRecipe::mxfp8>,
           "MXFP8 products run from compute capability 10.0 on",
           "use fp8, fp8-current or fp8-blockwise"},
    TeRule{"recipe", lacks_kernels<TeRecipe::nvfp4>,
           "NVFP4 products run from compute capability 10.0 on",
           "use fp8, fp8-current or fp8-blockwise"},
    TeRule{"recipe",
           [](const Job& job, const TeLinears& linears) {
             const auto capability = job.hardware.gpu.compute_capability();
             return linears.recipe == TeRecipe::mxfp8 && capability &&
                    *capability >= ComputeCapability{12, 0};
           },
           "Transformer Engine 2.11 has no MXFP8 on compute capability 12.0",
           "use fp8 or fp8-current"},
    // fp8_utils.py, get_fp8_recipe: blockwise wants 2.3; fp4_utils.py: 2.7.
    TeRule{"recipe",
           [](const Job& job, const TeLinears& linears) {
             return is_older(job, TeRelease::te_2_9) &&
                    (linears.recipe == TeRecipe::blockwise || linears.recipe == TeRecipe::nvfp4);
           },
           "Transformer Engine 2.2 has neither blockwise nor NVFP4",
           "write 'transformer_engine: 2.9', or leave it out"},
    // transformer_config.py: "Delayed scaling does not support first / last layer in BF16."
    TeRule{"first_layers_bf16",
           [](const Job&, const TeLinears& linears) {
             return linears.recipe == TeRecipe::delayed && linears.first_bf16 > 0;
           },
           "delayed scaling leaves no layers in bf16",
           "set 'recipe' to tensorwise, or leave it out"},
    TeRule{"last_layers_bf16",
           [](const Job&, const TeLinears& linears) {
             return linears.recipe == TeRecipe::delayed && linears.last_bf16 > 0;
           },
           "delayed scaling leaves no layers in bf16",
           "set 'recipe' to tensorwise, or leave it out"},
    TeRule{"param_gather",
           [](const Job&, const TeLinears& linears) {
             return linears.recipe == TeRecipe::nvfp4 && linears.param_gather;
           },
           "weights that live in fp4 are not available yet", "leave 'param_gather' out"},
    // arguments.py: "--fp8-param-gather only supported with distributed optimizer".
    TeRule{"param_gather",
           [](const Job& job, const TeLinears& linears) {
             const Parallelism& p = job.parallelism;
             const bool in_units = p.zero == ZeroStage::optimizer_gradients_weights;
             return linears.param_gather && !p.distributed_optimizer && !in_units;
           },
           "Megatron's distributed optimizer alone gathers weights that live in fp8",
           "write 'distributed_optimizer: true' in 'parallelism'"},
    TeRule{"",
           [](const Job& job, const TeLinears& linears) {
             const bool casts_in_step = linears.recipe == TeRecipe::delayed && linears.param_gather;
             return job.training->optimizer.typed &&
                    (casts_in_step || linears.recipe == TeRecipe::nvfp4);
           },
           "types of its own for what the optimizer keeps are not available yet beside this recipe",
           "leave 'exp_avg', 'exp_avg_sq' and 'main_params' out"},
};

}  // namespace

void check_te_linears(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const std::optional<TeLinears>& linears = job.training->te_linears;
  if (!linears) return;
  const Value& training = *root.find("training");
  const Value* const float8 = training.find("float8");
  const Value* const asks = float8 != nullptr ? float8 : training.find("precision");
  for (const TeRule& rule : kTeRules) {
    if (!rule.broken(job, *linears)) continue;
    const Value* const own =
        float8 == nullptr || rule.key.empty() ? nullptr : float8->find(rule.key);
    const Value& at = own != nullptr ? *own : *asks;
    diagnostics.push_back(error_at(at.span, std::string(rule.message), std::string(rule.hint)));
  }
}

}  // namespace memest
