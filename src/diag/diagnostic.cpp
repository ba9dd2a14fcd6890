#include "memest/diag/diagnostic.hpp"

#include <algorithm>
#include <cstddef>

namespace memest {
namespace {

/// Levenshtein distance: single-character insertions, deletions and substitutions.
std::size_t edit_distance(const std::string& left, const std::string& right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t substituted = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates) {
  // A slip changes at most a third of the letters; farther names would be guesses.
  const std::size_t allowed = std::max<std::size_t>(1, word.size() / 3);
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
