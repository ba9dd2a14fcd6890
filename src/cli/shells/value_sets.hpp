// The words that can stand in a place of a command line, and all the places where the same can: the
// shells' scripts write every list once.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace memest {

/// A place: the value of a flag, or the word at a position, from 1 on.
struct LinePlace {
  std::string_view command;
  std::string_view flag;     ///< empty: a word
  std::size_t position = 0;  ///< of a word
  bool repeats = false;      ///< of the last word: every later one is alike

  friend auto operator<=>(const LinePlace&, const LinePlace&) = default;
};

/// The values that complete a place.
struct ValueSet {
  std::vector<std::string> words;
  bool files = false;   ///< names of files beside the words
  bool listed = false;  ///< several, with commas between them

  friend auto operator<=>(const ValueSet&, const ValueSet&) = default;
};

struct PlacesOfSet {
  ValueSet set;
  std::vector<LinePlace> places;
};

/// Every place that takes a value, by what it takes; empty sets (counts, sizes) among them.
std::vector<PlacesOfSet> value_sets();

/// The names of the commands, in order, with a blank between them.
std::string joined_commands();

/// The flags that `command` takes, in order, with a blank between them.
std::string joined_flags(const Command& command);

/// `text` as fish reads it back; shell_quoted() is for the others.
std::string quoted_for_fish(std::string_view text);

}  // namespace memest
