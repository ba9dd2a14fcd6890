#include "memest/reader/catalog.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "memest/reader/profile.hpp"
#include "memest/spec/gpu/sibling.hpp"
#include "reader/catalog/catalog_files.hpp"
#include "reader/keys/check.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

constexpr std::string_view kPriceList = "prices/on-demand.yaml";

/// Whether the text has `alias` in its list of aliases: a look that spares parsing forty files to
/// find one.
bool lists_alias(std::string_view text, std::string_view alias) {
  constexpr std::string_view kMark = "\naliases: [";
  const std::size_t start = text.find(kMark);
  if (start == std::string_view::npos) return false;
  std::string_view aliases = text.substr(start + kMark.size());
  aliases = aliases.substr(0, aliases.find(']'));
  while (!aliases.empty()) {
    const std::string_view word = aliases.substr(0, aliases.find(','));
    const std::size_t first = std::min(word.find_first_not_of(" \""), word.size());
    const std::size_t last = word.find_last_not_of(" \"");
    if (last != std::string_view::npos && word.substr(first, last + 1 - first) == alias)
      return true;
    aliases.remove_prefix(std::min(word.size() + 1, aliases.size()));
  }
  return false;
}

/// Every file of a folder, through `read`.
template <class T>
std::vector<T> all_of_folder(std::string_view folder, T (*read)(const Value&)) {
  std::vector<T> all;
  for (const std::string& name : catalog_names(folder)) {
    all.push_back(read(read_embedded(std::string(folder) + "/" + name + ".yaml")));
  }
  return all;
}

/// The GPUs of the catalog that have a profile, each file read when it is asked for.
class MeasuredGpus {
 public:
  /// The GPU with its own profile, where there is one, and those of its siblings.
  GpuSpec with_profiles(GpuSpec gpu) {
    std::vector<std::pair<double, GpuSpec*>> siblings;
    for (GpuSpec& measured : gpus_) {
      if (measured.slug == gpu.slug) {
        gpu.profile = profile_of(measured);
      } else if (const auto distance = distance_between(gpu, measured)) {
        siblings.emplace_back(*distance, &measured);
      }
    }
    std::sort(siblings.begin(), siblings.end());
    for (const auto& [distance, measured] : siblings) {
      profile_of(*measured);
      gpu.siblings.push_back(sibling_of(gpu, *measured));
    }
    return gpu;
  }

 private:
  static std::shared_ptr<const GpuProfile> profile_of(GpuSpec& measured) {
    if (measured.profile == nullptr) {
      measured.profile = std::make_shared<const GpuProfile>(*find_profile(measured.slug));
    }
    return measured.profile;
  }

  static std::vector<GpuSpec> read() {
    std::vector<GpuSpec> measured;
    for (const std::string& slug : catalog_names("gpus")) {
      if (find_embedded("gpus/" + slug + std::string(kProfileSuffix)) == nullptr) continue;
      measured.push_back(gpu_of_file(read_embedded("gpus/" + slug + ".yaml")));
    }
    return measured;
  }

  std::vector<GpuSpec> gpus_ = read();
};

/// Profiles are shared: whoever asks for the same GPU again gets the same ones.
GpuSpec with_profiles(GpuSpec gpu) {
  static std::mutex mutex;
  static MeasuredGpus measured;
  const std::scoped_lock lock(mutex);
  return measured.with_profiles(std::move(gpu));
}

GpuSpec gpu_with_profiles(const Value& file) { return with_profiles(gpu_of_file(file)); }

Checked<GpuSpec> read_gpu_file(const std::string& path) {
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return source.diagnostics();
  const Checked<Value> file = parse_source(source.value());
  if (!file.ok()) return file.diagnostics();
  Diagnostics faults;
  if (file.value().kind != ValueKind::mapping) {
    return error_at(file.value().span, "the description of a GPU is a mapping of keys");
  }
  check_table(file.value(), gpu_file_keys(), {source.value(), 0, 0, 0}, faults);
  if (!faults.empty()) return faults;
  return gpu_with_profiles(file.value());
}

/// The GPU of a profile, with that profile.
Checked<GpuSpec> read_profiled_gpu(const std::string& path) {
  Checked<GpuProfile> profile = read_profile_file(path);
  if (!profile.ok()) return profile.diagnostics();
  Checked<GpuSpec> gpu = gpu_of_profile(profile.value());
  if (!gpu.ok()) return gpu;
  GpuSpec result = std::move(gpu).value();
  result.profile = std::make_shared<const GpuProfile>(std::move(profile).value());
  return result;
}

Recipe recipe_of(const Value& file) {
  Recipe recipe;
  recipe.name = text_at(file, "name");
  recipe.description = text_at(file, "description");
  recipe.source = text_at(file, "source");
  recipe.weights = *type_at(file, "weights");
  recipe.gradients = *type_at(file, "gradients");
  recipe.master = type_at(file, "master");
  recipe.states = *type_at(file, "states");
  recipe.compute = *type_at(file, "compute");
  recipe.autocast = flag_at(file, "autocast");
  recipe.gathered_units = flag_at(file, "gathered_units");
  recipe.reduce = type_at(file, "reduce").value_or(recipe.gradients);
  recipe.step_gradients = type_at(file, "step_gradients");
  recipe.te_recipe = te_recipe_of(text_at(file, "te_recipe"));
  recipe.fp8_weight_copies = static_cast<int>(count_at(file, "fp8_weight_copies"));
  return recipe;
}

OptimizerState state_of(const Value& entry) {
  static constexpr std::array<std::pair<std::string_view, StateShape>, 5> kShapes = {
      {{"like-parameter", StateShape::like_parameter},
       {"rows-and-columns", StateShape::rows_and_columns},
       {"blockwise-8bit", StateShape::blockwise_8bit},
       {"square-factors", StateShape::square_factors},
       {"scalar", StateShape::scalar}}};
  OptimizerState state;
  state.name = text_at(entry, "name");
  const std::string shape = text_at(entry, "shape");
  for (const auto& [name, value] : kShapes) {
    if (name == shape) state.shape = value;
  }
  state.dtype = type_at(entry, "dtype");
  state.on_host = flag_at(entry, "on_host");
  state.matrices_only = flag_at(entry, "matrices_only");
  state.vectors_only = flag_at(entry, "vectors_only");
  state.largest_factor = count_at(entry, "largest_factor");
  return state;
}

std::vector<OptimizerState> states_at(const Value& table) {
  std::vector<OptimizerState> states;
  if (const Value* entries = table.find("states")) {
    for (const Value& entry : entries->items) states.push_back(state_of(entry));
  }
  return states;
}

ImplementationTransient implementation_of(const Value& entry) {
  static constexpr std::array kImplementations = {OptimizerImplementation::foreach_,
                                                  OptimizerImplementation::fused,
                                                  OptimizerImplementation::for_loop};
  ImplementationTransient result;
  const std::string name = text_at(entry, "name");
  for (const OptimizerImplementation implementation : kImplementations) {
    if (name_of(implementation) == name) result.implementation = implementation;
  }
  result.transient.whole_copies = count_at(entry, "whole_copies");
  result.transient.largest_copies = count_at(entry, "largest_copies");
  // A loop over parameters rebinds its names: while it makes the next, the last one's is still
  // there.
  result.transient.running_pair = flag_at(entry, "running_pair");
  result.transient.dtype = type_at(entry, "dtype");
  result.extra_states = states_at(entry);
  return result;
}

OptimizerRule rule_of(std::string_view name) {
  using enum OptimizerRule;
  static constexpr std::array kRules = {
      std::pair<std::string_view, OptimizerRule>{"sgd", sgd},
      std::pair<std::string_view, OptimizerRule>{"momentum", momentum},
      std::pair<std::string_view, OptimizerRule>{"adam", adam},
      std::pair<std::string_view, OptimizerRule>{"adamw", adamw},
      std::pair<std::string_view, OptimizerRule>{"amsgrad", amsgrad},
      std::pair<std::string_view, OptimizerRule>{"rmsprop", rmsprop},
      std::pair<std::string_view, OptimizerRule>{"rmsprop-centered", rmsprop_centered},
      std::pair<std::string_view, OptimizerRule>{"rmsprop-centered-momentum",
                                                 rmsprop_centered_momentum},
      std::pair<std::string_view, OptimizerRule>{"adagrad", adagrad},
      std::pair<std::string_view, OptimizerRule>{"adamax", adamax},
      std::pair<std::string_view, OptimizerRule>{"nadam", nadam},
      std::pair<std::string_view, OptimizerRule>{"radam", radam},
      std::pair<std::string_view, OptimizerRule>{"rprop", rprop},
      std::pair<std::string_view, OptimizerRule>{"adadelta", adadelta},
      std::pair<std::string_view, OptimizerRule>{"asgd", asgd},
      std::pair<std::string_view, OptimizerRule>{"adafactor", adafactor},
      std::pair<std::string_view, OptimizerRule>{"adafactor-transformers", adafactor_transformers},
      std::pair<std::string_view, OptimizerRule>{"lion", lion},
      std::pair<std::string_view, OptimizerRule>{"muon", muon},
      std::pair<std::string_view, OptimizerRule>{"shampoo", shampoo},
      std::pair<std::string_view, OptimizerRule>{"soap", soap},
  };
  const auto* const row =
      std::ranges::find(kRules, name, [](const auto& one) { return one.first; });
  return row == kRules.end() ? other : row->second;
}

Optimizer optimizer_of(const Value& file) {
  Optimizer optimizer;
  optimizer.name = text_at(file, "name");
  optimizer.rule = rule_of(optimizer.name);
  optimizer.description = text_at(file, "description");
  optimizer.source = text_at(file, "source");
  optimizer.states = states_at(file);
  optimizer.states_in_constructor = flag_at(file, "states_in_constructor");
  for (const Value& entry : file.find("implementations")->items) {
    optimizer.implementations.push_back(implementation_of(entry));
  }
  return optimizer;
}

Price price_of(const Value& row) {
  return {.gpu = text_at(row, "gpu"),
          .price = DollarsPerHour(as_quantity(row.find("price"), Dimension::price).value_or(0)),
          .provider = text_at(row, "provider"),
          .source = text_at(row, "source"),
          .date = text_at(row, "date"),
          .is_default = flag_at(row, "default")};
}

template <class T>
Checked<T> read_named(Checked<Value> file, T (*read)(const Value&)) {
  if (!file.ok()) return file.diagnostics();
  return read(file.value());
}

}  // namespace

std::vector<std::string> all_gpu_names() {
  std::vector<std::string> names = catalog_names("gpus");
  for (const GpuSpec& gpu : all_of_folder("gpus", gpu_of_file)) {
    names.insert(names.end(), gpu.aliases.begin(), gpu.aliases.end());
  }
  return names;
}

Checked<GpuSpec> find_gpu(const std::string& written) {
  if (is_path(written)) {
    return written.ends_with(kProfileSuffix) ? read_profiled_gpu(written) : read_gpu_file(written);
  }
  std::string name = written;  // people write H100, slugs and aliases are in small letters
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string slug = name;
  if (find_embedded("gpus/" + name + ".yaml") == nullptr) {
    for (const EmbeddedFile& file : embedded_configs()) {
      if (file.path.starts_with("gpus/") && lists_alias(file.text, name)) slug = stem_of(file.path);
    }
  }
  const std::string path = "gpus/" + slug + ".yaml";
  if (find_embedded(path) != nullptr) return gpu_with_profiles(read_embedded(path));
  const std::string hint = suggestion(name, all_gpu_names());
  return error_at({}, "unknown GPU " + quote(written),
                  hint.empty() ? "`memest gpus` lists what is known" : hint);
}

Checked<GpuSpec> gpu_of_profile(const GpuProfile& profile) {
  if (profile.machine) return gpu_of(*profile.machine, profile.gpu);
  return find_gpu(profile.gpu);
}

Checked<Recipe> find_recipe(const std::string& name) {
  return read_named(find_in_catalog("recipes", name), recipe_of);
}

Checked<Optimizer> find_optimizer(const std::string& name) {
  return read_named(find_in_catalog("optimizers", name), optimizer_of);
}

std::vector<GpuSpec> all_gpus() { return all_of_folder("gpus", gpu_with_profiles); }
std::vector<Recipe> all_recipes() { return all_of_folder("recipes", recipe_of); }
std::vector<Optimizer> all_optimizers() { return all_of_folder("optimizers", optimizer_of); }

std::vector<Price> all_prices() {
  std::vector<Price> prices;
  const Value file = read_embedded(kPriceList);
  for (const Value& row : file.find("prices")->items) prices.push_back(price_of(row));
  return prices;
}

std::optional<Price> find_price(const std::string& gpu_slug) {
  for (Price& price : all_prices()) {
    if (price.is_default && price.gpu == gpu_slug) return std::move(price);
  }
  return std::nullopt;
}

std::vector<std::string> model_names() { return catalog_names("models"); }

}  // namespace memest
