#include "memest/reader/preset_needs.hpp"

#include "reader/catalog/catalog_files.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/source.hpp"

namespace memest {

std::optional<PresetNeed> find_preset_need(const std::string& name) {
  if (find_embedded("models/" + name + ".yaml") == nullptr) return std::nullopt;
  const Value file = read_embedded("presets/needs.yaml");
  for (const Value& row : file.find("needs")->items) {
    if (text_at(row, "preset") != name) continue;
    return PresetNeed{.gpus = count_at(row, "gpus"), .flags = text_at(row, "flags")};
  }
  return std::nullopt;
}

}  // namespace memest
