#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include "memest/reader/import.hpp"
#include "memest/reader/write_spec.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/text/source.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

/// Whether the file is a Hugging Face config, or a folder that holds one.
bool is_model_config(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return true;
  if (!path.ends_with(".json") || !file_exists(path)) return false;
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return false;
  const Checked<Value> tree = parse_foreign(source.value());
  return !tree.ok() || find_dialect(Syntax::tree, tree.value()) == &hugging_face_config();
}

std::string_view file_of(const ImportedKey& key) {
  return key.span.source == nullptr ? std::string_view() : std::string_view(key.span.source->name);
}

std::string line_of_key(const ImportedKey& key, bool with_file) {
  std::string text = "#   ";
  text += with_file ? harmless_text(file_of(key)) + ":" : "line ";
  text += std::to_string(key.span.line) + ": " + harmless_text(key.key);
  if (!key.becomes.empty()) text += " ->";
  for (const std::string& own : key.becomes) text += " " + own;
  if (!key.why.empty()) text += ": " + harmless_text(key.why);
  return text + "\n";
}

/// The fate of every key, as comments: those that count come first.
std::string key_report(const std::vector<ImportedKey>& keys) {
  const bool several = std::ranges::any_of(
      keys, [&keys](const ImportedKey& key) { return file_of(key) != file_of(keys.front()); });
  std::string counts;
  std::string lists;
  for (std::size_t i = 0; i < kKeyFates; ++i) {
    const auto fate = static_cast<KeyFate>(i);
    const std::string name(name_of(fate));
    const auto count = std::ranges::count(keys, fate, &ImportedKey::fate);
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + name;
    if (count > 0) lists += "# " + name + ":\n";
    for (const ImportedKey& key : keys) {
      if (key.fate == fate) lists += line_of_key(key, several);
    }
  }
  return "\n# Keys of the files: " + counts + ".\n" + lists;
}

std::string head_of(const std::vector<std::string>& files) {
  std::string names;
  for (const std::string& file : files) names += " " + harmless_text(file);
  return "# memest import" + names + "\n";
}

}  // namespace

std::string_view name_of(KeyFate fate) {
  constexpr std::array<std::string_view, kKeyFates> kNames = {"mapped", "without effect",
                                                              "not followed", "unknown"};
  return kNames[static_cast<std::size_t>(fate)];
}

Checked<ImportedJob> import_job(const ReadRequest& request, ConfigPart part) {
  if (request.files.size() == 1 && is_model_config(request.files.front())) {
    const Checked<ImportedModel> model = import_hf_config_file(request.files.front(), part);
    if (!model.ok()) return model.diagnostics();
    return {ImportedJob{write_spec(model.value()), {}}, model.diagnostics()};
  }
  Checked<ForeignSpec> read = read_spec(request);
  if (!read.ok()) return read.diagnostics();
  Diagnostics warnings = read.diagnostics();
  ForeignSpec spec = std::move(read).value();
  const Diagnostics missing = missing_hardware(spec, request);
  warnings.insert(warnings.end(), missing.begin(), missing.end());
  std::string text = head_of(request.files) + write_foreign_spec(spec) + key_report(spec.keys);
  return {ImportedJob{std::move(text), std::move(spec.keys)}, std::move(warnings)};
}

}  // namespace memest
