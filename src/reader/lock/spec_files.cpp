#include "memest/reader/spec_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "memest/diag/environment.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnyFolders = "**";

using Components = std::vector<std::string>;

Components components_of(std::string_view path) {
  Components components;
  for (const fs::path& part : fs::path(path).lexically_normal())
    components.push_back(part.string());
  return components;
}

bool is_hidden(const fs::path& name) { return name.string().starts_with('.'); }

bool is_pattern(std::string_view word) {
  return word.find_first_of("*?[") != std::string_view::npos;
}

bool matches_from(const Components& pattern, std::size_t p, const Components& path, std::size_t n) {
  if (p == pattern.size()) return n == path.size();
  if (pattern[p] == kAnyFolders) {
    if (matches_from(pattern, p + 1, path, n)) return true;
    // The last component is a file, no folder.
    return n + 1 < path.size() && !is_hidden(path[n]) && matches_from(pattern, p, path, n + 1);
  }
  return n < path.size() && fnmatch(pattern[p].c_str(), path[n].c_str(), FNM_PERIOD) == 0 &&
         matches_from(pattern, p + 1, path, n + 1);
}

/// The files below `folder`, hidden ones left out; `folder` itself may be hidden.
std::vector<std::string> files_below(const fs::path& folder) {
  std::error_code error;
  const auto check = [&] {
    if (error) throw EnvironmentError("cannot list '" + folder.string() + "': " + error.message());
  };
  std::vector<std::string> files;
  fs::recursive_directory_iterator entry(folder, error);
  check();
  for (; entry != fs::recursive_directory_iterator(); entry.increment(error), check()) {
    if (is_hidden(entry->path().filename())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(error)) {
      files.push_back(entry->path().lexically_normal().string());
    }
  }
  check();
  return files;
}

/// The folder above the first component that is a pattern.
fs::path root_of(std::string_view pattern) {
  fs::path root;
  for (const std::string& component : components_of(pattern)) {
    if (is_pattern(component)) break;
    root /= component;
  }
  return root.empty() ? fs::path(".") : root;
}

std::vector<std::string> files_matching(const std::string& pattern) {
  const fs::path root = root_of(pattern);
  std::error_code unknown;
  if (!fs::is_directory(root, unknown)) return {};
  std::vector<std::string> files = files_below(root);
  std::erase_if(files, [&](const std::string& file) { return !matches(pattern, file); });
  return files;
}

Diagnostic no_match(const std::string& pattern) {
  const auto source = std::make_shared<const SourceText>(SourceText{pattern, ""});
  return error_at({source, 0, 0, 0}, "no file matches this pattern",
                  "`**` stands for any folders, `*` for a part of one name");
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  return matches_from(components_of(pattern), 0, components_of(path), 0);
}

Checked<std::vector<FoundFile>> find_spec_files(const std::vector<std::string>& words) {
  std::vector<FoundFile> found;
  Diagnostics mistakes;
  std::error_code unknown;
  for (const std::string& word : words) {
    if (fs::is_directory(word, unknown)) {
      for (std::string& file : files_below(word)) {
        if (!extension_of(file).empty()) found.push_back({std::move(file), false});
      }
    } else if (is_pattern(word) && !file_exists(word)) {
      std::vector<std::string> files = files_matching(word);
      if (files.empty()) mistakes.push_back(no_match(word));
      for (std::string& file : files) found.push_back({std::move(file), false});
    } else {
      const bool normal = is_path(word) || file_exists(word);
      found.push_back({normal ? fs::path(word).lexically_normal().string() : word, true});
    }
  }
  if (!mistakes.empty()) return mistakes;
  // A file that a word names too is named: that row comes last.
  std::sort(found.begin(), found.end());
  std::vector<FoundFile> files;
  for (FoundFile& file : found) {
    if (!files.empty() && files.back().path == file.path) files.pop_back();
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace memest
