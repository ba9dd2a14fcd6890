// Files as source texts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "reader/text/text.hpp"
#include "reader/text/value.hpp"

namespace memest {

using SourcePointer = std::shared_ptr<const SourceText>;

/// How the text of a preset is named in diagnostics, before its own name.
inline constexpr std::string_view kPresetPrefix = "preset ";

/// The text of a file, without a byte-order mark. Reads no more than a reader takes. A directory or
/// a file that is too large is a diagnostic; throws EnvironmentError for a file that cannot be
/// opened.
Checked<SourcePointer> read_source(const std::string& path, const TextKind& kind = kSpecText);

/// Reads the file that a command line's word names, or standard input for `-`. A model's Hub name
/// that is no file is a diagnostic.
Checked<SourcePointer> read_argument(const std::string& word);

/// JSON where the name ends in `.json`, YAML otherwise.
Checked<Value> parse_source(const SourcePointer& source);

/// Whether a file can be opened under this path.
bool file_exists(const std::string& path);

/// "models/llama-3-8b.yaml" is "llama-3-8b".
std::string stem_of(std::string_view path);

/// A path that a spec names is relative to that spec's folder.
std::string path_beside(const SourceSpan& span, const std::string& path);

/// ".yaml", ".json", ".toml" and the like at the end of a path. A dot alone makes none: presets
/// have names like llama-3.1-8b.
std::string_view extension_of(std::string_view path);

/// Whether a name can only be a path: it has a slash or a known extension.
bool is_path(std::string_view name);

}  // namespace memest
