// Words of other programs' configurations and how a spec says the same, so that who writes what
// they know gets the key or the value that it is here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reader/text/value.hpp"

namespace memest {

/// `of` is the key whose value the word is; empty where it is a key itself. Words are compared
/// without capitals, hyphens being underscores.
struct ForeignWord {
  std::string_view word;
  std::string_view hint;
  std::string_view of = {};
};
std::span<const ForeignWord> foreign_words();

/// The key to write where another program says `word`; empty where none is known.
std::string_view hint_of_foreign_key(std::string_view word);

/// As above, for `word` as the value of `key`.
std::string_view hint_of_foreign_value(std::string_view key, std::string_view word);

/// A whole file of another program, known by one of its keys.
struct ForeignDocument {
  std::string_view key;
  std::string_view noun;  ///< "a Hugging Face config"
  std::string_view hint;  ///< FILE stands for the name of the file
};

/// Null where `root` has a key of a spec, or none of another program's.
const ForeignDocument* find_foreign_document(const Value& root);

/// "it belongs in 'training'" of a key that stands in the wrong section; empty where none has it.
std::string hint_of_section(std::string_view word);

}  // namespace memest
