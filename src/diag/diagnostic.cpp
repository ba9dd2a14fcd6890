#include "memest/diag/diagnostic.hpp"

#include <algorithm>
#include <cstddef>

namespace memest {
namespace {

/// Edits from one word to the other: a letter inserted, left out, replaced, or two neighbours
/// swapped (the optimal string alignment distance).
std::size_t edit_distance(const std::string& left, const std::string& right) {
  const std::size_t columns = right.size() + 1;
  std::vector<std::size_t> before(columns);  // two rows up
  std::vector<std::size_t> above(columns);
  std::vector<std::size_t> row(columns);
  for (std::size_t j = 0; j < columns; ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t replaced = above[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

/// Without capitals, hyphens being underscores.
std::string folded(std::string word) {
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return word;
}

}  // namespace

Diagnostic mistake(std::string message, std::string hint) {
  return {Severity::error, {}, std::move(message), std::move(hint)};
}

void append(const Diagnostics& more, Diagnostics& diagnostics) {
  diagnostics.insert(diagnostics.end(), more.begin(), more.end());
}

std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates) {
  // A slip changes at most a third of the letters; farther names would be guesses.
  const std::size_t allowed = std::max<std::size_t>(1, word.size() / 3);
  const std::string same = folded(word);
  for (const std::string& candidate : candidates) {
    if (folded(candidate) == same) return candidate;
  }
  std::string nearest;
  std::size_t least = allowed + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace memest
