// The job that people already have: configuration files of training programs become a spec, and of
// every key of theirs it is told what became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/hf_config.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {

enum class KeyFate : std::uint8_t {
  mapped,        ///< it decides keys of the spec
  no_effect,     ///< it decides nothing that memest counts: logging, seeds, paths
  not_followed,  ///< it may decide something, and memest does not follow it
  unknown        ///< memest knows no such key of the program
};
inline constexpr std::size_t kKeyFates = 4;

/// "mapped", "without effect", "not followed", "unknown".
std::string_view name_of(KeyFate fate);

struct ImportedKey {
  std::string key;  ///< as the file's program calls it: `training.seq_len`, `--num-layers`
  SourceSpan span;
  KeyFate fate = KeyFate::unknown;
  std::vector<std::string> becomes;  ///< keys of the spec
  std::string why;                   ///< of a key that becomes none: a sentence's part
};

struct ImportedJob {
  std::string spec;  ///< commented YAML; read_job makes of it the job of the files
  std::vector<ImportedKey> keys;
};

/// The spec that `files` are together: files of other programs beside each other, or beside specs
/// and presets. A Hugging Face config alone becomes a spec to start from. Throws EnvironmentError
/// for a file that cannot be opened.
Checked<ImportedJob> import_job(const ReadRequest& request, ConfigPart part = ConfigPart::whole);

/// Names of the programs whose files are known, in the order of their table.
std::vector<std::string_view> known_dialects();

}  // namespace memest
