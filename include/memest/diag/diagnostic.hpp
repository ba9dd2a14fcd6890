// A diagnostic is one sentence about the user's text, tied to the characters that it is about.
// Checked<T> is a value or a non-empty list of diagnostics, so that every mistake of a file comes
// in one run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"

namespace memest {

/// A text that positions refer to: a file, an inline `--set`, an embedded preset.
struct SourceText {
  std::string name;  ///< as shown before the line number: a path, `--set`, `preset llama-3-8b`
  std::string text;
};

/// Where a token stands. Lines and columns count from 1, columns in bytes; `length` in bytes, 0 for
/// "here".
struct SourceSpan {
  std::shared_ptr<const SourceText> source;  ///< null: no text to show (a computed value)
  std::int32_t line = 0;
  std::int32_t column = 0;
  std::int32_t length = 0;
};

enum class Severity { error, warning, note };

struct Diagnostic {
  Severity severity = Severity::error;
  SourceSpan span;
  std::string message;  ///< one sentence, no full stop: "unknown key 'hiden_size'"
  std::string hint;     ///< what to do: "did you mean 'hidden_size'?"; empty for none
  /// Nothing is wrong with the text: what it asks for is known by name and not there yet.
  bool unavailable = false;
};

using Diagnostics = std::vector<Diagnostic>;

/// An error about no place of a text: of flags, of files together.
Diagnostic mistake(std::string message, std::string hint = {});

void append(const Diagnostics& more, Diagnostics& diagnostics);

/// A value, or why there is none. Warnings may stand beside a value.
template <class T>
class Checked {
 public:
  // Implicit, so that a function returns a value or its diagnostics as they are.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Checked(T value, Diagnostics warnings = {})
      : value_(std::move(value)), diagnostics_(std::move(warnings)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Checked(Diagnostics errors) : diagnostics_(std::move(errors)) {
    expect(!diagnostics_.empty(), "a failed Checked carries at least one diagnostic");
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  Checked(Diagnostic error) : diagnostics_{std::move(error)} {}

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const T& value() const& {
    expect(ok(), "value() of a failed Checked");
    return *value_;
  }
  [[nodiscard]] T&& value() && {
    expect(ok(), "value() of a failed Checked");
    return std::move(*value_);
  }
  [[nodiscard]] const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  std::optional<T> value_;
  Diagnostics diagnostics_;
};

/// The name of `candidates` nearest to `word` by edit distance, where it is near enough to be a
/// slip; empty otherwise.
std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace memest
