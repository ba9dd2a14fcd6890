// The files that words of a command line stand for: names, patterns and folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

struct FoundFile {
  std::string path;    ///< or the name of a preset, or "-"
  bool named = false;  ///< by a word itself: one that is no spec is then a mistake

  auto operator<=>(const FoundFile&) const = default;
};

/// Every file once, sorted by path: of a word that names a file that file; of a folder every .yaml,
/// .yml and .json below it; of a pattern (`*` and `?` within a name, `[...]`, `**` for any folders)
/// what it matches. Hidden files and folders are passed over, and links to folders not followed,
/// where no word names them. A pattern that matches nothing is a mistake.
Checked<std::vector<FoundFile>> find_spec_files(const std::vector<std::string>& words);

/// Whether `path` matches a pattern as above, folder by folder.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace memest
