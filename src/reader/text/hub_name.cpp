#include "reader/text/hub_name.hpp"

#include <algorithm>
#include <filesystem>

#include "reader/keys/check.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

constexpr std::string_view kSigns =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

// huggingface_hub/utils/_validators.py: REPO_ID_REGEX: [\w\-.] between word boundaries, in ASCII.
bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' &&
         part.find_first_not_of(kSigns) == std::string_view::npos;
}

bool is_boundary(std::string_view text, std::size_t at) {
  return at >= text.size() || text[at] == '-';
}

/// The longest preset that stands in the model's name between hyphens: "llama-3.1-8b" in
/// "Meta-Llama-3.1-8B-Instruct".
std::string preset_in(std::string_view model) {
  std::string lower(model);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string longest;
  for (const std::string& preset : catalog_names("models")) {
    const std::size_t at = lower.find(preset);
    if (at == std::string::npos || preset.size() <= longest.size()) continue;
    const bool begins = at == 0 || lower[at - 1] == '-';
    if (begins && is_boundary(lower, at + preset.size())) longest = preset;
  }
  return longest;
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !extension_of(name).empty()) return false;
  const std::string_view owner = name.substr(0, slash);
  std::error_code unknown;
  return is_part(owner) && is_part(name.substr(slash + 1)) &&
         !std::filesystem::exists(std::filesystem::path(owner), unknown);
}

std::string hint_of_hub_name(std::string_view name) {
  if (!is_hub_name(name)) return {};
  const std::string preset = preset_in(name.substr(name.find('/') + 1));
  const std::string have =
      preset.empty() ? "" : " The preset '" + preset + "' has its sizes; else:";
  return "memest reads no network." + have + "\nhf download " + std::string(name) +
         " config.json --local-dir .\nmemest import config.json --output model.yaml";
}

}  // namespace memest
