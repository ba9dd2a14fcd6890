// Look-ups do not check the files that the library carries: here each is held to its keys.
#include "reader/catalog/catalog_files.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "memest/reader/embedded_configs.hpp"
#include "reader/keys/check.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// None for presets of models, which are read as any spec is, and for tables of samples.
std::span<const Key> keys_of(std::string_view path) {
  if (path.ends_with(".profile.yaml")) return profile_keys();
  const std::string_view folder = path.substr(0, path.find('/'));
  if (folder == "gpus") return gpu_file_keys();
  if (folder == "recipes") return recipe_file_keys();
  if (folder == "optimizers") return optimizer_file_keys();
  if (folder == "prices") return price_file_keys();
  if (folder == "ceilings") return ceiling_file_keys();
  if (folder == "residuals") return residual_file_keys();
  if (folder == "presets") return need_file_keys();
  return {};
}

TEST_CASE("every file of the catalogs has the keys of its kind") {
  std::size_t checked = 0;
  for (const EmbeddedFile& file : embedded_configs()) {
    const std::span<const Key> keys = keys_of(file.path);
    if (keys.empty() || !file.path.ends_with(".yaml")) continue;
    INFO(file.path);
    const Diagnostics faults = faults_of_embedded(file.path, keys);
    INFO((faults.empty() ? "" : faults.front().message));
    CHECK(faults.empty());
    ++checked;
  }
  constexpr std::size_t kGpusRecipesAndOptimizers = 80;
  CHECK(checked > kGpusRecipesAndOptimizers);
}

TEST_CASE("a file held to the keys of another kind has faults") {
  CHECK_FALSE(faults_of_embedded("gpus/l4.yaml", recipe_file_keys()).empty());
}

Value parsed(std::string target) {
  return parse_yaml(std::make_shared<const SourceText>(
                        SourceText{"card.yaml", "name: card\ncompute_capability: " + target}))
      .value();
}

TEST_CASE("a GPU's target is read as a compute capability or a gfx target") {
  const auto target_of = [](std::string text) {
    const Value file = parsed(std::move(text));
    return as_target(file.find("compute_capability")).value();
  };
  CHECK(target_of("9.0") == GpuTarget(ComputeCapability{9, 0}));
  CHECK(target_of("'12.1'") == GpuTarget(ComputeCapability{12, 1}));
  CHECK(target_of("gfx90a") == GpuTarget(GfxTarget{9, 0, 10}));
  CHECK(target_of("gfx1100") == GpuTarget(GfxTarget{11, 0, 0}));
  CHECK(ComputeCapability{9, 0} < ComputeCapability{10, 0});
  CHECK(ComputeCapability{8, 6} < ComputeCapability{8, 9});
}

TEST_CASE("another text than a target is refused with its place") {
  for (const std::string text :
       {"9", "9.x", ".0", "9.00", "-9.0", "sm_90", "gfx", "gfx9", "gfx94g", "10.3.1", "'9.0 '"}) {
    const Value file = parsed(text);
    Diagnostics faults;
    check_table(file, gpu_file_keys(), file.span, faults);
    const std::string shown = text.front() == '\'' ? text : "'" + text + "'";
    const auto fault =
        std::ranges::find(faults, 2, [](const Diagnostic& one) { return one.span.line; });
    REQUIRE(fault != faults.end());
    CHECK(fault->message ==
          "'compute_capability' is a compute capability or a gfx target, such as '9.0' or "
          "'gfx942', not " +
              shown);
    CHECK(fault->span.column == 21);
  }
}

}  // namespace
}  // namespace memest
