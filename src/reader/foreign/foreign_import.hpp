// A file of another program on its way to a spec: its keys are read by rows and derivations, and
// what became of each is kept.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/import.hpp"
#include "reader/foreign/dialect.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Where a key of a spec comes from.
struct KeyOrigin {
  std::string own;   ///< "training.seq_len"
  std::string from;  ///< the key of the file
  SourceSpan span;   ///< its value; without a line where it is the program's default
};

/// The value that a program takes for a key of a spec where no file says it.
struct ForeignDefault {
  KeyOrigin origin;
  Value value;
};

/// A tree of keys of a spec, whose places are those of the file. A spec is one that is all tree.
struct ForeignSpec {
  Value tree;
  std::vector<ForeignDefault> defaults = {};
  std::vector<ImportedKey> keys = {};
  std::vector<KeyOrigin> origins = {};
  bool is_foreign = false;
};

/// Mappings merge, anything else of `over` replaces that of `base`; what became of keys adds up.
void merge(ForeignSpec& base, ForeignSpec over);

/// Writes the programs' defaults for the keys that the tree leaves out.
void fill_defaults(ForeignSpec& spec);

class ForeignImport {
 public:
  ForeignImport(const Dialect& dialect, const Value& root);

  [[nodiscard]] const Value& root() const { return root_; }

  // Keys of the file. Nothing where it leaves the key out or writes null.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback = {}) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback = false) const;
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view key) const;

  /// Returns what the spec has already by the file's keys; null without it.
  [[nodiscard]] const Value* wrote(std::string_view own) const;

  using Keys = std::initializer_list<std::string_view>;
  /// The first of several names of a key that the file writes; the first of all where it writes
  /// none.
  [[nodiscard]] std::string_view written(std::span<const std::string_view> names) const;
  [[nodiscard]] std::string_view written(Keys names) const {
    return written(std::span(names.begin(), names.size()));
  }

  /// Writes the value `yaml` of the spec's key `own`, which comes of the keys `from`: its place is
  /// that of the first that the file writes; where it writes none of them it is a default.
  void write(std::string_view own, std::string_view yaml, Keys from);
  /// As above, a value of the file as it stands.
  void write(std::string_view own, Value value, std::string_view from);

  /// Says that `key` decides the spec's `own`, which is written by itself.
  void credit(std::string_view key, std::string_view own);
  /// Says that `key` is not followed.
  void pass_over(std::string_view key, std::string why);
  /// Says that `key` decides nothing here.
  void drop(std::string_view key, std::string why);
  /// Warns of something that no key of the file says.
  void note(std::string message, std::string hint);
  /// There is no answer for what `key` asks: "`what` is not available yet".
  void refuse(std::string_view key, const std::string& what, std::string hint = {});
  /// The file is wrong at `key`.
  void mistake(std::string_view key, std::string message, std::string hint = {});

  /// Reads every key by its row, then the derivations, then the program's defaults.
  Checked<ForeignSpec> run();

 private:
  void read_member(const Member& member, const std::string& path);
  void read_by_row(const KeyRow& row, const Value& value, ImportedKey& key);
  void write_words(const KeyRow& row, const Value& value, ImportedKey& key);
  void add_absent();
  [[nodiscard]] SourceSpan place_of(std::string_view key) const;
  /// The section of a file beside this one that the key is of; null for a key of this file.
  [[nodiscard]] const Member* file_section(std::string_view key) const;
  [[nodiscard]] std::string shown(std::string_view key) const;
  [[nodiscard]] std::string_view noun_of(std::string_view key) const;
  ImportedKey* imported(std::string_view key);

  const Dialect& dialect_;
  const Value& root_;
  ForeignSpec spec_;
  Diagnostics diagnostics_;
};

/// The spec that the tree of a file of `dialect` is, with warnings of what is not followed.
Checked<ForeignSpec> import_tree(const Dialect& dialect, const Value& root);

/// The value at a path of keys, "a.b"; null where there is none.
const Value* find_path(const Value& root, std::string_view path);

/// Whether two words are one but for their capitals.
bool is_same_word(std::string_view left, std::string_view right);

/// The spec as commented YAML: beside each key where it comes from.
std::string write_foreign_spec(const ForeignSpec& spec);

}  // namespace memest
