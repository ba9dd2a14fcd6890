// A model's config.json of the Hugging Face Hub beside other files: `model: {hf: ...}`.
#include <memory>
#include <string>
#include <utility>

#include "reader/foreign/hugging_face/hugging_face.hpp"
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

void credit_all(ForeignImport& file, const std::string& path, const Value& value) {
  for (const Member& member : value.members)
    credit_all(file, path + "." + member.key, member.value);
  file.credit(path, "model.hf");
}

constexpr std::string_view kSection = "config";
constexpr KeyRow kKeys[] = {no_effect("config.*", "neither parameters nor computation")};
constexpr std::span<const KeyRow> kTables[] = {kKeys};
constexpr std::string_view kByType[] = {"model_type"};
constexpr TellingKeys kTelling[] = {kByType};
constexpr Derivation kDerivations[] = {hugging_face::write_config};
constexpr Dialect kDialect = {.name = "hugging-face-config",
                              .noun = "a Hugging Face config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .section = kSection};

}  // namespace

void hugging_face::write_config(ForeignImport& file) {
  const Value* whole = file.find(kSection);
  if (whole == nullptr) return;
  const Value used = used_members(*whole);
  Value config;
  config.kind = ValueKind::mapping;
  config.span = whole->span;
  for (const Member& member : whole->members) {
    if (used.kind == ValueKind::mapping && used.find(member.key) == nullptr) continue;
    config.members.push_back(member);
    credit_all(file, std::string(kSection) + "." + member.key, member.value);
  }
  file.write("model.hf", std::move(config), "config.model_type");
}

const Dialect& hugging_face_config() { return kDialect; }

}  // namespace memest
