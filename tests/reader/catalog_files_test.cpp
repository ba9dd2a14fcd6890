// Look-ups do not check the files that the library carries: here each is held to its keys.
#include "reader/catalog/catalog_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "memest/reader/embedded_configs.hpp"

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

}  // namespace
}  // namespace memest
