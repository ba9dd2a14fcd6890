// A model's config.json of the Hugging Face Hub beside other files: `model: {hf: ...}`.
#include <memory>

#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/hf/hf_config.hpp"

namespace memest {
namespace {

/// The keys that decide the model; null where the config is refused, which its reader will tell.
Value used_members(const Value& config) {
  for (const ConfigPart part : {ConfigPart::whole, ConfigPart::text}) {
    const Checked<ImportedModel> model = import_hf_config(config, "config", part);
    if (!model.ok()) continue;
    const auto text = std::make_shared<const SourceText>(SourceText{"", model.value().keys});
    const Checked<Value> used = parse_yaml(text);
    if (used.ok()) return used.value();
  }
  return {};
}

void write_config(ForeignImport& file) {
  const Value used = used_members(file.root());
  Value config;
  config.kind = ValueKind::mapping;
  config.span = file.root().span;
  for (const Member& member : file.root().members) {
    if (used.kind == ValueKind::mapping && used.find(member.key) == nullptr) continue;
    config.members.push_back(member);
    file.credit(member.key, "model.hf");
  }
  file.write("model.hf", std::move(config), "model_type");
}

constexpr KeyRow kKeys[] = {no_effect("*", "neither parameters nor computation")};
constexpr std::span<const KeyRow> kTables[] = {kKeys};
constexpr std::string_view kByType[] = {"model_type"};
constexpr TellingKeys kTelling[] = {kByType};
constexpr Derivation kDerivations[] = {write_config};
constexpr Dialect kDialect = {.name = "hugging-face-config",
                              .noun = "a Hugging Face config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace

const Dialect& hugging_face_config() { return kDialect; }

}  // namespace memest
