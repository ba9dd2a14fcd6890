// Another program's configuration file as data: how it is recognised, and for every key what it
// becomes in a spec. A key in no row is reported as unknown, so that none is dropped in silence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace memest {

class ForeignImport;

/// The form of a file, known by the ending of its name.
enum class Syntax : std::uint8_t {
  tree,    ///< YAML or JSON
  toml,    ///< .toml
  shell,   ///< .sh, .bash, .slurm, .sbatch: the command line of a training program
  python,  ///< .py: assignments of literals
};

/// A value that the program calls otherwise.
struct WordPair {
  std::string_view foreign;  ///< compared without capitals
  std::string_view own;      ///< YAML; empty: as if it were left out
};

/// How a key of the file is read.
enum class KeyUse : std::uint8_t {
  mapped,        ///< it is `own` under another name
  derived,       ///< it becomes keys of the spec together with others, in a derivation
  no_effect,     ///< it decides nothing that memest counts
  not_followed,  ///< memest answers without it, and says so
  refused        ///< there is no answer for what it asks
};

struct KeyRow {
  /// A path in the file's tree. One that ends in `.*` stands for every key below it, `*` for every
  /// key of the file.
  std::string_view key = {};
  KeyUse use = KeyUse::mapped;
  std::string_view own = {};             ///< key of a spec, where it is a plain mapping
  std::span<const WordPair> words = {};  ///< where values differ; another value is refused
  /// Value of `own` (YAML) where the file leaves the key out and the program's default is not
  /// memest's.
  std::string_view absent = {};
  /// Values at which the key is as if it were left out, parted by bars: "false|none".
  std::string_view idle = {};
  std::string_view why = {};   ///< no_effect: what it is about; else what is not followed
  std::string_view hint = {};  ///< of what is refused
};

constexpr KeyRow maps(std::string_view key, std::string_view own,
                      std::span<const WordPair> words = {}) {
  return {.key = key, .own = own, .words = words};
}
constexpr KeyRow derived(std::string_view key) { return {.key = key, .use = KeyUse::derived}; }
constexpr KeyRow no_effect(std::string_view key, std::string_view why) {
  return {.key = key, .use = KeyUse::no_effect, .why = why};
}
constexpr KeyRow not_followed(std::string_view key, std::string_view idle, std::string_view why) {
  return {.key = key, .use = KeyUse::not_followed, .idle = idle, .why = why};
}
/// `noun` is what is not available yet.
constexpr KeyRow refused_key(std::string_view key, std::string_view idle, std::string_view noun) {
  return {.key = key, .use = KeyUse::refused, .idle = idle, .why = noun};
}

/// Rows of many keys that are about one matter.
template <std::size_t N>
constexpr std::array<KeyRow, N> all_no_effect(const std::string_view (&keys)[N],
                                              std::string_view why) {
  std::array<KeyRow, N> rows{};
  for (std::size_t i = 0; i < N; ++i) rows[i] = no_effect(keys[i], why);
  return rows;
}
template <std::size_t N>
constexpr std::array<KeyRow, N> all_derived(const std::string_view (&keys)[N]) {
  std::array<KeyRow, N> rows{};
  for (std::size_t i = 0; i < N; ++i) rows[i] = derived(keys[i]);
  return rows;
}

// Matters that decide nothing.
inline constexpr std::string_view kAboutLogging = "logging";
inline constexpr std::string_view kAboutCheckpoints = "checkpoints on disk";
inline constexpr std::string_view kAboutPaths = "paths and names";
inline constexpr std::string_view kAboutSchedule = "how long and how fast it learns";
inline constexpr std::string_view kAboutData = "which data it learns from";
inline constexpr std::string_view kAboutEvaluation = "evaluation";
inline constexpr std::string_view kAboutSeeds = "seeds and initial values";
inline constexpr std::string_view kAboutRun = "how the program is run";

/// Keys that decide the job together: writes what they become.
using Derivation = void (*)(ForeignImport&);

/// A file that has every one of these keys is of the dialect.
using TellingKeys = std::span<const std::string_view>;

/// A key that names another file, which belongs to this one.
struct FileReference {
  std::string_view key;
  std::string_view section;  ///< where that file stands in the tree, as Dialect::section
};

struct Dialect {
  std::string_view name;  ///< "torchtitan"
  std::string_view noun;  ///< "a torchtitan configuration"
  Syntax syntax = Syntax::tree;
  std::span<const TellingKeys> telling;  ///< any of them tells
  std::span<const std::span<const KeyRow>> tables;
  std::span<const Derivation> derivations = {};
  /// The section that such a file is of its tables' tree, alone and where it stands beside a file
  /// of another dialect that takes it: they decide the job together. Empty: it is the whole tree.
  std::string_view section = {};
  std::span<const std::string_view> takes = {};  ///< sections of files beside it
  std::span<const FileReference> references = {};
};

/// The row of a key; null where there is none.
const KeyRow* find_row(const Dialect& dialect, std::string_view key);

}  // namespace memest
