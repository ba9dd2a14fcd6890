// Reads a config.json key by key. A missing key gets the default of transformers' configuration
// class; a key written wrong becomes a diagnostic at its place, and reading goes on with the
// default, so that every mistake comes in one run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "reader/text/value.hpp"

namespace memest::hf {

/// The spellings of one key, first the class's own (transformers' attribute_map).
using Keys = std::initializer_list<std::string_view>;

/// The result of reading so far.
struct Reading {
  Diagnostics diagnostics;
  int errors = 0;
  std::unordered_set<const Value*>
      used;  ///< values that were looked at: the keys that decide the model
};

class ConfigReader {
 public:
  /// Both outlive the reader.
  ConfigReader(const Value& config, Reading& reading) : config_(&config), reading_(&reading) {}

  /// The value of the first of `keys` that is written and not null.
  [[nodiscard]] const Value* find(Keys keys) const;
  /// Whether one of `keys` is written, null or not.
  [[nodiscard]] bool has(Keys keys) const;
  /// The mapping under `key`; an empty one where it is missing or null.
  [[nodiscard]] ConfigReader section(std::string_view key);

  /// A whole number from 1 on.
  std::int64_t size(Keys keys, std::int64_t fallback);
  /// A whole number from 0 on.
  std::int64_t count(Keys keys, std::int64_t fallback);
  /// A whole number from 1 on, none where the key is missing or null.
  std::optional<std::int64_t> optional_size(Keys keys);
  /// A finite number.
  double number(Keys keys, double fallback);
  std::optional<double> optional_number(Keys keys);
  /// `size` times the positive number under `keys`, rounded down as Python's int() does.
  std::int64_t scaled_size(Keys keys, double fallback, std::int64_t size);
  /// A probability: 0 to 1.
  double probability(Keys keys, double fallback);
  bool flag(Keys keys, bool fallback);
  std::string word(Keys keys, std::string_view fallback);
  std::vector<std::int64_t> sizes(Keys keys, std::vector<std::int64_t> fallback);
  std::vector<std::string> words(Keys keys);

  /// Reports a mistake, once however often it is met, at `keys`' value, or at the config's start
  /// where it is not written.
  void error(Keys keys, std::string message, std::string hint = {});
  void error_at(const SourceSpan& span, std::string message, std::string hint = {});
  /// Reports what the user should know though the config is valid; at `value`, or at the config's
  /// start where it is null.
  void warning(const Value* value, std::string message, std::string hint);
  /// No error so far: relations between values are only checked then.
  [[nodiscard]] bool ok() const { return reading_->errors == 0; }

 private:
  std::optional<std::int64_t> whole_number(Keys keys, std::int64_t least);
  std::optional<std::int64_t> whole_number_of(const Value& value, const std::string& key,
                                              std::int64_t least);
  [[nodiscard]] std::string written_key(Keys keys) const;

  const Value* config_;
  Reading* reading_;
};

/// No dimension or count of a real model comes near this; the product of two stays inside 64 bits.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
/// Nor does a ratio of two of them.
inline constexpr double kLargestRatio = 1e6;
inline constexpr std::int64_t kMostLayers = 10'000;

}  // namespace memest::hf
