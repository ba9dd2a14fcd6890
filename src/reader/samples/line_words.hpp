// The words of one line of a trace, whose mistakes are told once.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "reader/job/read_allocator.hpp"
#include "reader/text/scalar.hpp"

namespace memest {

/// A number of digits alone, none beyond `most`.
inline std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stopped != text.data() + text.size() || number < 0 || number > most)
    return {};
  return number;
}

/// A line's text behind a word of it.
inline std::string rest_behind(const PlacedText& line, const PlacedText& word) {
  const auto end = static_cast<std::size_t>(word.text.data() + word.text.size() - line.text.data());
  return std::string(line.part(end, line.text.size() - end).trimmed().text);
}

struct LineWords {
  const std::vector<PlacedText>& words;
  Diagnostics& diagnostics;
  bool good = true;

  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kMostIndex = std::numeric_limits<std::int32_t>::max();

  void refuse(const PlacedText& word, std::string message, std::string hint = {}) {
    if (std::exchange(good, false)) {
      diagnostics.push_back(error_at(word.span, std::move(message), std::move(hint)));
    }
  }

  [[nodiscard]] std::string_view text(std::size_t word) const { return words[word].text; }

  std::int64_t number(std::size_t word, std::int64_t most = kMost) {
    const auto number = whole_number(text(word), most);
    if (!number) refuse(words[word], "expected a whole number, not " + quote(text(word)));
    return number.value_or(0);
  }

  std::size_t index(std::size_t word) { return static_cast<std::size_t>(number(word, kMostIndex)); }

  /// An index below `size`; 0 where it is none.
  std::size_t known(std::size_t word, std::size_t size, std::string_view noun) {
    const std::size_t found = index(word);
    if (good && found >= size) {
      refuse(words[word],
             "no line has said what " + std::string(noun) + " " + std::string(text(word)) + " is");
    }
    return good ? found : 0;
  }

  /// The next of a numbered list.
  void expect_next(std::size_t word, std::size_t size, std::string_view noun) {
    if (const std::size_t found = index(word); good && found != size) {
      refuse(words[word], "the numbers of " + std::string(noun) + " count up, and the next is " +
                              std::to_string(size));
    }
  }
};

}  // namespace memest
