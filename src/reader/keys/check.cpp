#include "reader/keys/check.hpp"

#include <algorithm>
#include <optional>

#include "memest/reader/embedded_configs.hpp"
#include "memest/reader/profile.hpp"
#include "reader/keys/foreign.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/scalar_fault.hpp"

namespace memest {
namespace {

using Fault = std::optional<Diagnostic>;

std::string noun_of(const Shapes& shapes) {
  std::string text;
  for (const KeyShape& shape : shapes) {
    const std::string noun = noun_of(shape);
    if (noun.empty() || text.find(noun) != std::string::npos) continue;
    text += (text.empty() ? "" : ", or ") + noun;
  }
  return text;
}

/// The kind of value that a shape is written as.
ValueKind kind_of(Form form) {
  switch (form) {
    case Form::table:
    case Form::document:
      return ValueKind::mapping;
    case Form::list:
      return ValueKind::sequence;
    case Form::none:
      return ValueKind::null;
    case Form::flag:
    case Form::count:
    case Form::number:
    case Form::quantity:
    case Form::choice:
    case Form::catalog:
    case Form::target:
    case Form::gpu:
    case Form::text:
      return ValueKind::scalar;
  }
  unreachable("a form beyond the enum");
}

/// Whether the value says what its key's default says, so that it asks for nothing.
bool is_default(const Value& value, const Key& key) {
  switch (value.kind) {
    case ValueKind::scalar:
      return !key.fallback.empty() && value.text == key.fallback;
    case ValueKind::mapping:
      return value.members.empty();
    case ValueKind::sequence:
    case ValueKind::null:
      return false;
  }
  unreachable("a kind beyond the enum");
}

/// `relu` alone for `{relu: {}}`: what to write where the word is the key of a table.
std::string hint_of_bare_key(const std::string& word, const Shapes& shapes) {
  for (const KeyShape& shape : shapes) {
    if (!shape.one_key) continue;
    for (const Key& key : shape.keys) {
      if (key.name != word) continue;
      std::string needed;
      for (const Key& inner : key.shapes.front().keys) {
        if (inner.required) {
          needed += (needed.empty() ? "" : ", ") + std::string(inner.name) + ": ...";
        }
      }
      return "write {" + word + ": {" + needed + "}}";
    }
  }
  return {};
}

/// Whether `word` stands for the key of that name with an empty table.
bool is_bare_key(const Value& value, const Shapes& shapes) {
  return std::any_of(shapes.begin(), shapes.end(), [&value](const KeyShape& shape) {
    return shape.bare &&
           std::any_of(shape.keys.begin(), shape.keys.end(), [&value](const Key& key) {
             return key.name == value.text && takes_empty_table(key.shapes);
           });
  });
}

/// "micro_batch" of the name as messages have it, "'micro_batch'".
std::string_view bare(std::string_view name) {
  const std::size_t begin = name.find('\'') + 1;
  return name.substr(begin, name.rfind('\'') - begin);
}

class TableCheck {
 public:
  /// Words of other programs are looked for in specs alone.
  TableCheck(Diagnostics& diagnostics, bool is_spec)
      : diagnostics_(diagnostics), is_spec_(is_spec) {}

  /// `known` are the keys of all tables that the mapping might have been meant as, for suggestions.
  void check(const Value& table, const KeyShape& shape, const SourceSpan& name_span,
             const std::vector<std::string>& known) {
    std::vector<std::string> meant;
    if (is_undecided(table, shape)) return;
    for (const Member& member : table.members) {
      const auto key = std::find_if(shape.keys.begin(), shape.keys.end(),
                                    [&](const Key& k) { return k.name == member.key; });
      if (key == shape.keys.end()) {
        report_unknown(member, table, shape, known);
        meant.push_back(diagnostics_.back().hint);
      } else {
        check_member(member, *key);
      }
    }
    check_presence(table, shape, name_span, meant);
  }

 private:
  void report_unknown(const Member& member, const Value& table, const KeyShape& shape,
                      const std::vector<std::string>& known) {
    const bool elsewhere = std::find(known.begin(), known.end(), member.key) != known.end();
    if (!elsewhere) {
      diagnostics_.push_back(error_at(member.key_span, "unknown key " + quote(member.key),
                                      hint_of_key(member.key, known)));
      return;
    }
    for (const Key& key : shape.keys) {
      if (table.find(key.name) == nullptr) continue;
      diagnostics_.push_back(error_at(
          member.key_span, quote(member.key) + " has no meaning beside " + quote(key.name)));
      return;
    }
  }

  [[nodiscard]] std::string hint_of_key(const std::string& word,
                                        const std::vector<std::string>& known) const {
    if (is_spec_) {
      const std::string section = hint_of_section(word);
      if (!section.empty()) return section;
      const std::string_view foreign = hint_of_foreign_key(word);
      if (!foreign.empty()) return std::string(foreign);
    }
    return suggestion(word, known);
  }

  /// Hints at the meaning of the value in another program, rather than at the nearest word.
  void report_value(Diagnostic fault, const Value& value, const Shapes& shapes,
                    const std::string& name) {
    std::string hint = hint_of_bare_key(value.text, shapes);
    if (hint.empty() && is_spec_) hint = hint_of_foreign_value(bare(name), value.text);
    if (!hint.empty()) fault.hint = std::move(hint);
    diagnostics_.push_back(std::move(fault));
  }

  /// Reports the deciding key where it is refused.
  bool is_undecided(const Value& table, const KeyShape& shape) {
    const std::size_t before = diagnostics_.size();
    for (const Key& key : shape.keys) {
      if (!key.decides) continue;
      for (const Member& member : table.members) {
        if (member.key == key.name) check_member(member, key);
      }
    }
    return diagnostics_.size() > before;
  }

  void check_member(const Member& member, const Key& key) {
    const std::size_t before = diagnostics_.size();
    check_value(member.value, key.shapes, "'" + std::string(key.name) + "'", member.key_span);
    if (diagnostics_.size() > before || key.later.empty() || is_default(member.value, key)) return;
    std::string hint = "it comes with a later version";
    if (!key.fallback.empty()) {
      hint +=
          "; leave '" + std::string(key.name) + "' out or set it to " + std::string(key.fallback);
    }
    diagnostics_.push_back(unavailable_at(member.key_span, std::string(key.later), hint));
  }

  void check_value(const Value& value, const Shapes& shapes, const std::string& name,
                   const SourceSpan& name_span) {
    if (value.kind == ValueKind::null) {
      diagnostics_.push_back(error_at(value.span, name + " has no value",
                                      takes_empty_table(shapes)
                                          ? "write {} for all its defaults"
                                          : "give it one, or leave the key out"));
      return;
    }
    std::vector<const KeyShape*> fitting;
    for (const KeyShape& shape : shapes) {
      if (shape.form != Form::none && kind_of(shape.form) == value.kind) fitting.push_back(&shape);
    }
    if (value.kind == ValueKind::scalar && is_bare_key(value, shapes)) return;
    if (fitting.empty()) {
      const std::string found = value.kind == ValueKind::scalar    ? quote(value.text)
                                : value.kind == ValueKind::mapping ? "a mapping of keys"
                                                                   : "a list";
      report_value(error_at(value.span, name + " is " + noun_of(shapes) + ", not " + found), value,
                   shapes, name);
    } else if (value.kind == ValueKind::scalar) {
      check_scalar(value, fitting, name, shapes);
    } else if (value.kind == ValueKind::sequence) {
      for (const Value& item : value.items) {
        check_value(item, *fitting.front()->item, "an entry of " + name, item.span);
      }
    } else if (fitting.front()->form == Form::table) {
      std::vector<std::string> known;
      for (const KeyShape* shape : fitting) {
        for (const Key& key : shape->keys) known.emplace_back(key.name);
      }
      check(value, choose_table(value, shapes), name_span, known);
    }
  }

  void check_scalar(const Value& value, const std::vector<const KeyShape*>& fitting,
                    const std::string& name, const Shapes& shapes) {
    Fault fault;
    for (const KeyShape* shape : fitting) {
      fault = find_scalar_fault(value, *shape, name);
      if (!fault) return;
    }
    if (fitting.size() > 1) {
      fault = error_at(value.span, name + " is " + noun_of(shapes) + ", not " + quote(value.text));
    }
    report_value(*std::move(fault), value, shapes, name);
  }

  /// A key that is missing because it is misspelt (a suggestion of `meant`) is not told twice.
  void check_presence(const Value& table, const KeyShape& shape, const SourceSpan& name_span,
                      const std::vector<std::string>& meant) {
    if (shape.one_key && table.members.size() != 1) {
      std::vector<std::string> names;
      for (const Key& key : shape.keys) names.emplace_back(key.name);
      diagnostics_.push_back(
          error_at(table.span, "exactly one key belongs here", "one of " + joined(names)));
      return;
    }
    std::vector<std::string> missing;
    std::string usual;
    for (const Key& key : shape.keys) {
      if (!key.required || table.find(key.name) != nullptr) continue;
      const std::string name = quote(key.name);
      const bool misspelt = std::any_of(
          meant.begin(), meant.end(),
          [&](const std::string& suggested) { return suggested.find(name) != std::string::npos; });
      if (misspelt) continue;
      missing.push_back(name);
      if (key.usual.empty()) continue;
      usual += (usual.empty() ? "usual: " : ", ") + std::string(key.name) + ": ";
      usual += key.usual;
    }
    if (missing.empty()) return;
    diagnostics_.push_back(error_at(
        name_span, (missing.size() == 1 ? "missing key " : "missing keys ") + joined(missing),
        usual));
  }

  Diagnostics& diagnostics_;
  bool is_spec_;
};

/// How well the table explains `mapping`: its keys that are known, as written (a list where the
/// table takes lists), count more than those that are missing.
std::int64_t likeness(const Value& mapping, const KeyShape& shape) {
  constexpr std::int64_t kKnown = 100;
  std::int64_t score = 0;
  for (const Key& key : shape.keys) {
    const Value* value = mapping.find(key.name);
    if (value == nullptr) {
      if (key.required) --score;
      continue;
    }
    const bool fits =
        std::any_of(key.shapes.begin(), key.shapes.end(),
                    [value](const KeyShape& form) { return kind_of(form.form) == value->kind; });
    score += fits ? kKnown : kKnown / 2;
  }
  return score;
}

}  // namespace

bool takes_empty_table(const Shapes& shapes) {
  return std::any_of(shapes.begin(), shapes.end(), [](const KeyShape& shape) {
    return shape.form == Form::table && !shape.one_key &&
           std::none_of(shape.keys.begin(), shape.keys.end(),
                        [](const Key& key) { return key.required; });
  });
}

const KeyShape& choose_table(const Value& mapping, const Shapes& shapes) {
  const KeyShape* chosen = nullptr;
  std::int64_t most = 0;
  for (const KeyShape& shape : shapes) {
    if (shape.form != Form::table) continue;
    const std::int64_t known = likeness(mapping, shape);
    if (chosen == nullptr || known > most) {
      chosen = &shape;
      most = known;
    }
  }
  expect(chosen != nullptr, "a choice among shapes without a table");
  return *chosen;
}

void check_table(const Value& table, std::span<const Key> keys, const SourceSpan& name_span,
                 Diagnostics& diagnostics) {
  std::vector<std::string> known;
  for (const Key& key : keys) known.emplace_back(key.name);
  TableCheck(diagnostics, keys.data() == spec_keys().data())
      .check(table, {.form = Form::table, .keys = keys}, name_span, known);
}

std::vector<std::string> catalog_names(std::string_view folder) {
  constexpr std::string_view kExtension = ".yaml";
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_configs()) {
    std::string_view path = file.path;
    if (!path.starts_with(folder) || path.substr(folder.size(), 1) != "/") continue;
    path.remove_prefix(folder.size() + 1);
    if (path.ends_with(kExtension) && !path.ends_with(kProfileSuffix))
      names.emplace_back(path.substr(0, path.size() - kExtension.size()));
  }
  return names;
}

}  // namespace memest
