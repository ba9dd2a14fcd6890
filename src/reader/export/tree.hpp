// Trees that are written, not read, and the forms in which programs read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reader/text/value.hpp"

namespace memest {

Value word_of(std::string_view word);
Value number_of_count(std::int64_t number);
Value flag_of(bool flag);
/// A number as it is written: 1.0, 2e8.
Value literal_of(std::string_view text);
Value words_of_list(const std::vector<std::string>& words);

/// Sets the value at a path of keys, "a.b.c", behind all that is there.
void set(Value& tree, std::string_view path, Value value);

/// Sections of keys: a mapping within a mapping is `[a.b]`.
std::string written_as_toml(const Value& tree);
/// Indented by two, keys in their order.
std::string written_as_json(const Value& tree);
/// Block mappings; strings in double quotes, since NO is no word to all readers.
std::string written_as_yaml(const Value& tree);

}  // namespace memest
