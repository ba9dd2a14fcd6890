#pragma once

#include <span>
#include <string_view>

namespace memest {

/// A file of configs/, carried inside the library so that the tool needs no data folder beside it.
struct EmbeddedFile {
  std::string_view path;  ///< relative to configs/, with slashes: `gpus/h100-sxm-80gb.yaml`
  std::string_view text;  ///< the file as it stood when the library was built
};

/// Every embedded file, sorted by path. The text lives as long as the program.
std::span<const EmbeddedFile> embedded_configs();

}  // namespace memest
