// --vary NAME=N,N,N, and the words of a program that have {NAME} in them.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/recorded/family.hpp"

namespace memest {

/// The numbers that --vary names, values ascending. Every word that has {NAME} must be of one, and
/// each must stand in a word.
Checked<std::vector<VariedSize>> read_varied(const std::vector<std::string>& flags,
                                             const std::vector<std::string>& words);

/// The words with a point's values; {{NAME}} becomes {NAME}.
std::vector<std::string> filled_words(const std::vector<std::string>& words,
                                      const std::vector<VariedSize>& varied,
                                      const SizePoint& point);

/// Values of --at NAME=N for each number of a family; `open`, where it is not empty, is the one
/// that has none, and takes its lowest recorded value.
Checked<SizePoint> read_point(const std::vector<std::string>& flags, const std::string& open,
                              const std::vector<VariedSize>& varied);

}  // namespace memest
