// Files and embedded files as source texts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/embedded_configs.hpp"
#include "text.hpp"
#include "value.hpp"

namespace memest {

using SourcePointer = std::shared_ptr<const SourceText>;

/// The text of a file, without a byte-order mark. Reads no more than a reader takes. A directory or
/// a file that is too large is a diagnostic; throws EnvironmentError for a file that cannot be
/// opened.
Checked<SourcePointer> read_source(const std::string& path, const TextKind& kind = kSpecText);

/// The embedded file `path` ("gpus/h100-sxm-80gb.yaml"), named `name` in diagnostics; null where
/// there is none.
SourcePointer embedded_source(std::string_view path, std::string name);
const EmbeddedFile* find_embedded(std::string_view path);

/// JSON where the name ends in `.json`, YAML otherwise.
Checked<Value> parse_source(const SourcePointer& source);

/// Whether a file can be opened under this path.
bool file_exists(const std::string& path);

/// "models/llama-3-8b.yaml" is "llama-3-8b".
std::string stem_of(std::string_view path);

/// A path that a spec names is relative to that spec's folder.
std::string path_beside(const SourceSpan& span, const std::string& path);

/// Whether a name can only be a path: it has a slash or a known extension.
bool is_path(std::string_view name);

}  // namespace memest
