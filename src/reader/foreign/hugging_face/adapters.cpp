// Adapters of peft and quantised weights below them.
#include <algorithm>
#include <string>

#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

bool is_all(const Value& value) {
  const std::string& text = value.items.size() == 1 ? value.items.front().text : value.text;
  return is_same_word(text, "all") || is_same_word(text, "all-linear");
}

void write_targets(ForeignImport& file, const LoraNames& names) {
  const std::string own = adapter_key(file, names, "targets");
  const Value* value = file.find(names.targets);
  const bool none = value == nullptr || (value->items.empty() && value->text.empty());
  if (!none && !names.all && !is_all(*value)) {
    const std::string list = names_of_modules(*value);
    if (list.empty()) return file.refuse(names.targets, "a pattern of modules", "name them");
    return file.write(own, list, {names.targets});
  }
  const bool all = !none || names.all || names.all_absent;
  const auto layers = linear_layers(file, names.model, all);
  if (!layers) {
    const std::string why =
        "no file says the model's type, and so its linear layers: put its "
        "config.json beside this file, or --set '" +
        own + "=[q_proj, v_proj]'";
    return none ? file.note("the modules of the adapter are not known", why)
                : file.pass_over(names.targets, why);
  }
  file.write(own, *layers, {names.targets, names.asking});
}

constexpr WordPair kCodes[] = {{"nf4", "nf4"}, {"fp4", "fp4"}};
constexpr WordPair kStorages[] = {
    {"uint8", "uint8"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}};

}  // namespace

std::string names_of_modules(const Value& value) {
  constexpr std::string_view kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_, ";
  std::string text = value.text;
  for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + item.text;
  return text.find_first_not_of(kSigns) == std::string::npos ? "[" + text + "]" : std::string();
}

std::string adapter_key(const ForeignImport& file, const LoraNames& names, std::string_view key) {
  const char* const kind = file.flag(names.dora) ? "dora" : "lora";
  return std::string("training.adapter.") + kind + "." + std::string(key);
}

void write_lora(ForeignImport& file, const LoraNames& names) {
  file.write(adapter_key(file, names, "rank"), file.text(names.rank, names.rank_absent),
             {names.rank, names.asking});
  write_targets(file, names);
  file.write(adapter_key(file, names, "dropout"), file.text(names.dropout, names.dropout_absent),
             {names.dropout, names.asking});
  const Value* whole_modules = file.find(names.whole);
  if (whole_modules == nullptr) return;
  const std::string list = names_of_modules(*whole_modules);
  if (list == "[]") return;
  if (list.empty()) return file.refuse(names.whole, "a pattern of modules", "name them");
  file.write(adapter_key(file, names, "modules_to_save"), list, {names.whole});
}

namespace {

/// FSDP2 alone asks for it: else every rank keeps all codes, whatever they are packed in.
void write_storage(ForeignImport& file, const CodeNames& names) {
  const std::string name(names.storage.empty() ? std::string(names.storage_absent)
                                               : file.text(names.storage, names.storage_absent));
  const auto* const row = std::ranges::find(kStorages, name, &WordPair::foreign);
  if (row == std::end(kStorages)) {
    return file.refuse(names.storage, "codes packed in " + quote(name),
                       "known are uint8, bfloat16, float16 and float32");
  }
  const std::string_view key = names.storage.empty() ? names.asking : names.storage;
  if (has_fsdp(file) && row->own != "uint8") {
    return file.write("compression.quantize.quant_storage", row->own, {key});
  }
  if (!names.storage.empty()) file.credit(names.storage, "compression.quantize.weights");
}

}  // namespace

void write_codes(ForeignImport& file, const CodeNames& names) {
  const std::string name = file.text(names.type, "nf4");
  const auto* const row = std::ranges::find_if(
      kCodes, [&name](const WordPair& pair) { return is_same_word(pair.foreign, name); });
  if (row == std::end(kCodes)) {
    return file.refuse(names.type, "the code " + quote(name), "known are nf4 and fp4");
  }
  file.write("compression.quantize.weights", row->own, {names.asking, names.type});
  file.write("compression.quantize.double_quant", file.text(names.nested, names.nested_absent),
             {names.nested, names.asking});
  write_storage(file, names);
}

}  // namespace memest::hugging_face
