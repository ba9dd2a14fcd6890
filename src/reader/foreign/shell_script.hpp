// A shell script as far as its assignments and plain conditions go: the commands that it would run,
// with their words expanded. Nothing is run.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "reader/text/source.hpp"
#include "reader/text/text.hpp"

namespace memest {

/// From `begin` on, a word's text stands at `offset` of the file.
struct WordOrigin {
  std::size_t begin = 0;
  std::size_t offset = 0;
};

/// A word of a command, and where it is written: where its variable was set if it is all of one.
struct ExpandedWord {
  std::string text;
  SourceSpan span;
  bool unknown = false;  ///< a variable that nobody sets, or the output of a command
  std::vector<WordOrigin> origins = {};
};

struct ShellCommand {
  std::vector<ExpandedWord> words;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<std::pair<ExpandedWord, ExpandedWord>> exports;  ///< names and values
  Diagnostics warnings;  ///< branches whose condition nobody can tell
};

/// The place of a part of a word's text.
SourceSpan span_within(const LineIndex& lines, const ExpandedWord& word, std::size_t begin,
                       std::size_t end);

ShellScript run_script(const SourcePointer& source);

}  // namespace memest
