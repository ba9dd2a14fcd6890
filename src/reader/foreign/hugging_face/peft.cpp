// peft's adapter_config.json, of 0.21: alone, beside a spec, or beside TrainingArguments.
#include <algorithm>
#include <string>

#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/peft_keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

constexpr std::string_view kSection = "peft.";
constexpr std::string_view kPeftType = "peft.peft_type";
constexpr LoraNames kLora = {.model = "model_name_or_path",
                             .rank = "peft.r",
                             .rank_absent = "8",
                             .targets = "peft.target_modules",
                             .dropout = "peft.lora_dropout",
                             .dropout_absent = "0.0",
                             .whole = "peft.modules_to_save",
                             .asking = kPeftType,
                             .dora = "peft.use_dora"};

/// The other adapters' keys of a spec; an empty `absent` is written by the file alone.
struct PeftKey {
  std::string_view own;
  std::string_view key;
  std::string_view absent = {};
  bool names = false;  ///< a list of modules
};
constexpr PeftKey kOfVectors[] = {{"targets", "peft.target_modules", {}, true},
                                  {"feedforward", "peft.feedforward_modules", {}, true},
                                  {"modules_to_save", "peft.modules_to_save", {}, true}};
constexpr PeftKey kOfVera[] = {{"rank", "peft.r", "256"},
                               {"dropout", "peft.vera_dropout"},
                               {"targets", "peft.target_modules", {}, true},
                               {"modules_to_save", "peft.modules_to_save", {}, true}};
constexpr PeftKey kOfPrompt[] = {
    {"num_virtual_tokens", "peft.num_virtual_tokens"},
    {"encoder_hidden_size", "peft.encoder_hidden_size"},
    {"encoder_reparameterization_type", "peft.encoder_reparameterization_type"}};
struct PeftType {
  std::string_view type;
  std::string_view own;
  std::span<const PeftKey> keys;
  std::string_view needed;
};
constexpr PeftType kTypes[] = {
    {"IA3", "ia3", kOfVectors, "peft.target_modules"},
    {"VERA", "vera", kOfVera, "peft.target_modules"},
    {"PROMPT_TUNING", "prompt_tuning", kOfPrompt, "peft.num_virtual_tokens"},
    {"P_TUNING", "p_tuning", kOfPrompt, "peft.num_virtual_tokens"},
    {"PREFIX_TUNING", "prefix_tuning", kOfPrompt, "peft.num_virtual_tokens"}};

}  // namespace

void write_peft(ForeignImport& file) {
  if (file.find(kPeftType) == nullptr) return;
  const std::string type = file.text(kPeftType);
  if (is_same_word(type, "LORA")) return write_lora(file, kLora);
  const auto* const row = std::ranges::find_if(
      kTypes, [&type](const PeftType& one) { return is_same_word(one.type, type); });
  if (row == std::end(kTypes)) {
    return file.refuse(kPeftType, "the adapter " + quote(type),
                       "known are LORA, IA3, VERA, PROMPT_TUNING and P_TUNING");
  }
  const std::string adapter = "training.adapter." + std::string(row->own) + ".";
  // peft takes a model's own names of modules where none are written.
  if (const Value* needed = file.find(row->needed);
      needed == nullptr || (needed->items.empty() && needed->text.empty())) {
    const std::string_view own = row->needed.substr(kSection.size());
    return file.refuse(kPeftType, "the adapter " + quote(type) + " without " + quote(own),
                       "write it");
  }
  const Value* whole = file.find(kLora.whole);
  if (row->keys.data() == kOfPrompt && whole != nullptr && !whole->items.empty()) {
    return file.refuse(kLora.whole, "modules that are trained in full beside a prompt",
                       "leave it out");
  }
  for (const PeftKey& one : row->keys) {
    const Value* value = file.find(one.key);
    if (value == nullptr && one.absent.empty()) continue;
    std::string written = file.text(one.key, one.absent);
    if (one.names && value != nullptr) written = names_of_modules(*value);
    if (written.empty()) {
      file.refuse(one.key, "a pattern of modules", "name them");
    } else {
      file.write(adapter + std::string(one.own), written, {one.key, kPeftType});
    }
  }
}

namespace peft {
namespace {

constexpr std::string_view kByType[] = {kPeftType.substr(kSection.size())};
constexpr TellingKeys kTelling[] = {kByType};
constexpr std::span<const KeyRow> kTables[] = {kPeftDeciding, kPeftRows, kPeftRun};
constexpr Derivation kDerivations[] = {write_peft};
constexpr Dialect kDialect = {.name = "peft",
                              .noun = "an adapter_config.json of peft",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .section = "peft"};

}  // namespace
}  // namespace peft
}  // namespace memest::hugging_face

const memest::Dialect& memest::peft_dialect() { return hugging_face::peft::kDialect; }
