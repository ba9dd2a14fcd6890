#include "cli/record/varied_words.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "memest/reader/family_text.hpp"

namespace memest {
namespace {

constexpr std::size_t kLeastValues = 3;
constexpr std::size_t kMostVaried = 3;

bool is_of_name(char sign) {
  return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') ||
         (sign >= '0' && sign <= '9') || sign == '_';
}

/// The name between the brace at `open` and the next; nothing where they hold no name.
std::optional<std::string> name_at(const std::string& word, std::size_t open) {
  std::size_t end = open + 1;
  while (end < word.size() && is_of_name(word[end])) ++end;
  const bool is_digit = end > open + 1 && word[open + 1] >= '0' && word[open + 1] <= '9';
  if (end == open + 1 || end == word.size() || word[end] != '}' || is_digit) return std::nullopt;
  return word.substr(open + 1, end - open - 1);
}

/// The word with each {NAME} replaced by what `value` says of it.
std::string replaced(const std::string& word,
                     const std::function<std::string(const std::string&)>& value) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escaped = word.compare(i, 2, "{{") == 0;
    const std::optional<std::string> name =
        word[i] == '{' ? name_at(word, escaped ? i + 1 : i) : std::nullopt;
    if (!name) {
      text += word[i];
    } else if (escaped && word.compare(i + name->size() + 2, 2, "}}") == 0) {
      text += "{" + *name + "}";
      i += name->size() + 3;
    } else if (escaped) {
      text += word[i];
    } else {
      text += value(*name);
      i += name->size() + 1;
    }
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<VariedSize>& varied) {
  std::vector<std::string> names;
  for (const VariedSize& size : varied) names.push_back(size.name);
  return names;
}

std::string hint_for(const std::string& name, const std::vector<std::string>& known,
                     const std::string& otherwise) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? otherwise : "did you mean '" + nearest + "'?";
}

/// Reads one --vary into `varied`.
void read_one(const std::string& flag, std::vector<VariedSize>& varied, Diagnostics& errors) {
  std::optional<VariedSize> size = parse_varied(flag);
  if (!size) {
    errors.push_back(mistake("--vary takes a name and whole numbers from 1 on, not '" + flag + "'",
                             "as in --vary seq=512,640,896"));
    return;
  }
  std::ranges::sort(size->values);
  if (std::ranges::adjacent_find(size->values) != size->values.end()) {
    errors.push_back(mistake("--vary " + size->name + " has a value twice", ""));
  } else if (size->values.size() < kLeastValues) {
    errors.push_back(mistake("--vary " + size->name + " needs three values or more",
                             "with two a square cannot be told from a product, and one point is "
                             "held out"));
  } else if (std::ranges::find(varied, size->name, &VariedSize::name) != varied.end()) {
    errors.push_back(mistake("--vary names '" + size->name + "' twice", ""));
  } else {
    varied.push_back(*std::move(size));
  }
}

void check_placeholders(const std::vector<VariedSize>& varied,
                        const std::vector<std::string>& words, Diagnostics& errors) {
  std::set<std::string> used;
  for (const std::string& word : words) {
    replaced(word, [&](const std::string& name) {
      used.insert(name);
      return name;
    });
  }
  const std::vector<std::string> known = names_of(varied);
  for (const std::string& name : used) {
    if (std::ranges::find(known, name) != known.end()) continue;
    errors.push_back(mistake("the program's words have {" + name + "}, which no --vary names",
                             hint_for(name, known, "{{" + name + "}} stands for {" + name + "}")));
  }
  for (const std::string& name : known) {
    if (used.contains(name)) continue;
    errors.push_back(mistake("no word of the program has {" + name + "}, which --vary names",
                             "as in -- python train.py --" + name + " {" + name + "}"));
  }
}

}  // namespace

Checked<std::vector<VariedSize>> read_varied(const std::vector<std::string>& flags,
                                             const std::vector<std::string>& words) {
  std::vector<VariedSize> varied;
  Diagnostics errors;
  for (const std::string& flag : flags) read_one(flag, varied, errors);
  if (varied.size() > kMostVaried) {
    errors.push_back(mistake("--vary names more than three numbers", ""));
  }
  if (errors.empty()) check_placeholders(varied, words, errors);
  if (!errors.empty()) return errors;
  return varied;
}

std::vector<std::string> filled_words(const std::vector<std::string>& words,
                                      const std::vector<VariedSize>& varied,
                                      const SizePoint& point) {
  const std::vector<std::string> names = names_of(varied);
  std::vector<std::string> filled;
  for (const std::string& word : words) {
    filled.push_back(replaced(word, [&](const std::string& name) {
      const auto known = std::ranges::find(names, name);
      return std::to_string(point[static_cast<std::size_t>(known - names.begin())]);
    }));
  }
  return filled;
}

Checked<SizePoint> read_point(const std::vector<std::string>& flags, const std::string& open,
                              const std::vector<VariedSize>& varied) {
  const std::vector<std::string> known = names_of(varied);
  Diagnostics errors;
  std::vector<std::optional<std::int64_t>> values(varied.size());
  const auto index = [&](const std::string& flag, const std::string& name) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      std::string list;
      for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
      errors.push_back(mistake(flag + " names '" + name + "', which was not varied",
                               hint_for(name, known, "varied were " + list)));
    }
    return static_cast<std::size_t>(found - known.begin());
  };
  for (const std::string& flag : flags) {
    const auto value = parse_size_value(flag);
    if (!value) {
      errors.push_back(
          mistake("--at takes a name and a whole number from 1 to 2^40, not '" + flag + "'",
                  "as in --at batch=8"));
      continue;
    }
    const std::size_t i = index("--at", value->first);
    if (i == known.size()) continue;
    if (values[i]) errors.push_back(mistake("--at names '" + value->first + "' twice", ""));
    values[i] = value->second;
  }
  if (!open.empty()) {
    const std::size_t i = index("--largest", open);
    if (i < known.size() && values[i]) {
      errors.push_back(mistake("--at and --largest both name '" + open + "'", ""));
    } else if (i < known.size()) {
      values[i] = varied[i].values.front();
    }
  }
  SizePoint point;
  for (std::size_t i = 0; i < varied.size(); ++i) {
    if (!values[i] && errors.empty()) {
      errors.push_back(mistake("the recording is for every " + known[i] + ", and none is given",
                               "--at " + known[i] + "=" + std::to_string(varied[i].values.back())));
    }
    point.push_back(values[i].value_or(0));
  }
  if (!errors.empty()) return errors;
  return point;
}

}  // namespace memest
