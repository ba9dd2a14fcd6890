#include "reader/foreign/foreign_import.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "reader/foreign/dialects.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_idle(std::string_view idle, const Value& value) {
  if (value.kind == ValueKind::mapping) return value.members.empty();
  if (idle.empty() || value.kind == ValueKind::sequence) {
    return value.kind == ValueKind::sequence && value.items.empty();
  }
  while (!idle.empty()) {
    const std::size_t bar = std::min(idle.find('|'), idle.size());
    if (is_same_word(idle.substr(0, bar), value.text)) return true;
    idle.remove_prefix(std::min(bar + 1, idle.size()));
  }
  return false;
}

void set_span(Value& value, const SourceSpan& span) {
  value.span = span;
  for (Value& item : value.items) set_span(item, span);
  for (Member& member : value.members) {
    member.key_span = span;
    set_span(member.value, span);
  }
}

/// A value that is written here at a place of the file. Nothing where words of the file within it
/// are no YAML.
std::optional<Value> value_at(std::string_view yaml, const SourceSpan& span) {
  const auto source = std::make_shared<const SourceText>(SourceText{"", std::string(yaml)});
  Checked<Value> parsed = parse_yaml(source);
  if (!parsed.ok()) return std::nullopt;
  Value value = std::move(parsed).value();
  set_span(value, span);
  return value;
}

/// As above, without any word of the file.
Value value_of_row(std::string_view yaml, const SourceSpan& span) {
  std::optional<Value> value = value_at(yaml, span);
  expect(value.has_value(), "a dialect's row has YAML");
  return *std::move(value);
}

/// Wraps the value in the mappings of its path, and merges it into the tree.
void put(Value& tree, std::string_view own, Value value) {
  for (std::size_t end = own.size(); end != std::string_view::npos && end > 0;) {
    const std::size_t dot = own.rfind('.', end - 1);
    const std::size_t start = dot == std::string_view::npos ? 0 : dot + 1;
    Value mapping;
    mapping.kind = ValueKind::mapping;
    mapping.span = value.span;
    mapping.members.push_back(
        {std::string(own.substr(start, end - start)), value.span, std::move(value)});
    value = std::move(mapping);
    end = dot;
  }
  merge(tree, std::move(value));
}

/// Whether the tree has the key, or another value where its section would stand.
bool has_key(const Value& tree, std::string_view own) {
  const std::size_t dot = own.find('.');
  const Value* value = tree.find(own.substr(0, dot));
  if (value == nullptr) return false;
  if (dot == std::string_view::npos || value->kind != ValueKind::mapping) return true;
  return has_key(*value, own.substr(dot + 1));
}

std::string known_words(std::span<const WordPair> words) {
  std::vector<std::string> known;
  for (const WordPair& pair : words) known.emplace_back(pair.foreign);
  return "known are " + joined(known);
}

}  // namespace

bool is_same_word(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, lower, lower);
}

const KeyRow* find_row(const Dialect& dialect, std::string_view key) {
  constexpr std::string_view kBelow = ".*";
  constexpr std::string_view kAll = "*";
  const KeyRow* around = nullptr;
  for (const std::span<const KeyRow> table : dialect.tables) {
    for (const KeyRow& row : table) {
      if (row.key == key) return &row;
      if (row.key == kAll) around = &row;
      const std::string_view path = row.key.substr(0, row.key.size() - 1);
      const bool is_section = key == path.substr(0, path.size() - 1);  // one that is no mapping
      if (row.key.ends_with(kBelow) && (is_section || key.starts_with(path))) around = &row;
    }
  }
  return around;
}

const Value* find_path(const Value& root, std::string_view path) {
  if (const Value* whole = root.find(path)) return whole;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const Value* section = root.find(path.substr(0, dot));
    if (section == nullptr) continue;
    if (const Value* found = find_path(*section, path.substr(dot + 1))) return found;
  }
  return nullptr;
}

ForeignImport::ForeignImport(const Dialect& dialect, const Value& root)
    : dialect_(dialect), root_(root) {
  spec_.tree.kind = ValueKind::mapping;
  spec_.tree.span = {root.span.source, 0, 0, 0};
}

const Value* ForeignImport::find(std::string_view key) const {
  const Value* value = find_path(root_, key);
  return value == nullptr || value->kind == ValueKind::null ? nullptr : value;
}

std::string ForeignImport::text(std::string_view key, std::string_view fallback) const {
  const Value* value = find(key);
  return value == nullptr ? std::string(fallback) : value->text;
}

bool ForeignImport::flag(std::string_view key, bool fallback) const {
  const Value* value = find(key);
  return value == nullptr ? fallback : is_same_word(value->text, "true");
}

std::optional<std::int64_t> ForeignImport::count(std::string_view key) const {
  const Value* value = find(key);
  return value == nullptr ? std::nullopt : integer_of(value->text);
}

const Value* ForeignImport::wrote(std::string_view own) const { return find_path(spec_.tree, own); }

std::string_view ForeignImport::written(std::span<const std::string_view> names) const {
  const auto found =
      std::ranges::find_if(names, [this](std::string_view name) { return find(name) != nullptr; });
  return found == names.end() ? names.front() : *found;
}

SourceSpan ForeignImport::place_of(std::string_view key) const {
  const Value* value = find(key);
  return value == nullptr ? spec_.tree.span : value->span;
}

const Member* ForeignImport::file_section(std::string_view key) const {
  const std::string_view name = key.substr(0, key.find('.'));
  const auto found = std::ranges::find(root_.members, name, &Member::key);
  const bool is_file = found != root_.members.end() && found->key_span.line == 0;
  return is_file && name.size() < key.size() ? &*found : nullptr;
}

std::string ForeignImport::shown(std::string_view key) const {
  const Member* section = file_section(key);
  return std::string(section == nullptr ? key : key.substr(section->key.size() + 1));
}

std::string_view ForeignImport::noun_of(std::string_view key) const {
  const Member* section = file_section(key);
  for (const Dialect* dialect : dialects()) {
    if (section != nullptr && dialect->section == section->key) return dialect->noun;
  }
  return dialect_.noun;
}

ImportedKey* ForeignImport::imported(std::string_view key) {
  const auto found = std::ranges::find(spec_.keys, key, &ImportedKey::key);
  return found == spec_.keys.end() ? nullptr : &*found;
}

void ForeignImport::write(std::string_view own, std::string_view yaml, Keys from) {
  const std::string_view origin = written(from);
  const SourceSpan span = place_of(origin);
  KeyOrigin place{std::string(own), std::string(origin), span};
  std::optional<Value> value = value_at(yaml, span);
  if (!value) {
    return mistake(origin, "this is no value of '" + std::string(origin) + "'",
                   "it would be " + std::string(own) + ": " + std::string(yaml.substr(0, 64)));
  }
  if (find(origin) == nullptr) {
    spec_.defaults.push_back({std::move(place), *std::move(value)});
    return;
  }
  put(spec_.tree, own, *std::move(value));
  spec_.origins.push_back(std::move(place));
  for (const std::string_view key : from) credit(key, own);
}

void ForeignImport::write(std::string_view own, Value value, std::string_view from) {
  spec_.origins.push_back({std::string(own), std::string(from), value.span});
  put(spec_.tree, own, std::move(value));
  credit(from, own);
}

void ForeignImport::credit(std::string_view key, std::string_view own) {
  ImportedKey* one = imported(key);
  if (one == nullptr) return;
  one->fate = KeyFate::mapped;
  one->why.clear();
  if (std::ranges::find(one->becomes, own) == one->becomes.end()) one->becomes.emplace_back(own);
}

void ForeignImport::pass_over(std::string_view key, std::string why) {
  ImportedKey* one = imported(key);
  if (one == nullptr) return;
  one->fate = KeyFate::not_followed;
  one->why = std::move(why);
}

void ForeignImport::drop(std::string_view key, std::string why) {
  ImportedKey* one = imported(key);
  if (one == nullptr) return;
  one->fate = KeyFate::no_effect;
  one->why = std::move(why);
}

void ForeignImport::note(std::string message, std::string hint) {
  diagnostics_.push_back({Severity::warning, spec_.tree.span, std::move(message), std::move(hint)});
}

void ForeignImport::refuse(std::string_view key, const std::string& what, std::string hint) {
  diagnostics_.push_back(unavailable_at(place_of(key), what, std::move(hint)));
}

void ForeignImport::mistake(std::string_view key, std::string message, std::string hint) {
  diagnostics_.push_back(error_at(place_of(key), std::move(message), std::move(hint)));
}

void ForeignImport::write_words(const KeyRow& row, const Value& value, ImportedKey& key) {
  const auto pair = std::ranges::find_if(row.words, [&value](const WordPair& candidate) {
    return is_same_word(candidate.foreign, value.text);
  });
  if (pair == row.words.end() || value.kind != ValueKind::scalar) {
    diagnostics_.push_back(unavailable_at(
        value.span, quote(value.text) + " as '" + shown(key.key) + "'", known_words(row.words)));
    return;
  }
  if (pair->own.empty()) {
    key.fate = KeyFate::no_effect;
    key.why = "as if it were left out";
    return;
  }
  put(spec_.tree, row.own, value_of_row(pair->own, value.span));
}

void ForeignImport::read_by_row(const KeyRow& row, const Value& value, ImportedKey& key) {
  if (value.kind == ValueKind::null || is_idle(row.idle, value)) {
    key.fate = KeyFate::no_effect;
    key.why = "as if it were left out";
    return;
  }
  switch (row.use) {
    case KeyUse::mapped:
      key.fate = KeyFate::mapped;
      if (row.words.empty()) {
        put(spec_.tree, row.own, value);
      } else {
        write_words(row, value, key);
      }
      if (key.fate != KeyFate::mapped) return;
      key.becomes.emplace_back(row.own);
      spec_.origins.push_back({std::string(row.own), key.key, value.span});
      return;
    case KeyUse::derived:
      key.fate = KeyFate::no_effect;
      key.why = "as if it were left out";
      return;
    case KeyUse::no_effect:
      key.fate = KeyFate::no_effect;
      key.why = row.why;
      return;
    case KeyUse::not_followed:
      key.fate = KeyFate::not_followed;
      key.why = row.why;
      return;
    case KeyUse::refused:
      key.fate = KeyFate::not_followed;
      key.why = row.why;
      diagnostics_.push_back(
          unavailable_at(value.span, std::string(row.why), std::string(row.hint)));
      return;
  }
  unreachable("every use of a key is read");
}

void ForeignImport::read_member(const Member& member, const std::string& path) {
  const KeyRow* row = find_row(dialect_, path);
  const bool is_section =
      member.value.kind == ValueKind::mapping && (row == nullptr || row->key.ends_with(".*"));
  if (is_section) {
    for (const Member& below : member.value.members) read_member(below, path + "." + below.key);
    return;
  }
  ImportedKey key{.key = path, .span = member.key_span, .becomes = {}, .why = {}};
  if (row != nullptr) read_by_row(*row, member.value, key);
  spec_.keys.push_back(std::move(key));
}

void ForeignImport::add_absent() {
  for (const std::span<const KeyRow> table : dialect_.tables) {
    for (const KeyRow& row : table) {
      if (row.absent.empty()) continue;
      spec_.defaults.push_back({{std::string(row.own), std::string(row.key), spec_.tree.span},
                                value_of_row(row.absent, spec_.tree.span)});
    }
  }
}

Checked<ForeignSpec> ForeignImport::run() {
  for (const Member& member : root_.members) read_member(member, member.key);
  for (const Derivation derive : dialect_.derivations) derive(*this);
  add_absent();
  spec_.is_foreign = true;
  const bool refused = std::ranges::any_of(
      diagnostics_, [](const Diagnostic& one) { return one.severity == Severity::error; });
  if (refused) return diagnostics_;
  for (ImportedKey& key : spec_.keys) {
    const std::string_view noun = noun_of(key.key);
    key.key = shown(key.key);
    const auto warn = [&](std::string message, std::string hint) {
      diagnostics_.push_back({Severity::warning, key.span, std::move(message), std::move(hint)});
    };
    if (key.fate == KeyFate::unknown) {
      warn("'" + key.key + "' is no key of " + std::string(noun) + " that memest knows",
           "it is passed over");
    } else if (key.fate == KeyFate::not_followed) {
      warn("'" + key.key + "' is not followed", key.why);
    }
  }
  for (KeyOrigin& origin : spec_.origins) origin.from = shown(origin.from);
  for (ForeignDefault& one : spec_.defaults) one.origin.from = shown(one.origin.from);
  return {std::move(spec_), std::move(diagnostics_)};
}

void merge(ForeignSpec& base, ForeignSpec over) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
  };
  if (base.tree.span.source == nullptr) base.tree.span.source = over.tree.span.source;
  merge(base.tree, std::move(over.tree));
  append(base.defaults, over.defaults);
  append(base.keys, over.keys);
  append(base.origins, over.origins);
  base.is_foreign = base.is_foreign || over.is_foreign;
}

void fill_defaults(ForeignSpec& spec) {
  // A model by its name or its config has no keys of its own, and one without a width is no model.
  const bool has_sizes =
      has_key(spec.tree, "model.hidden_size") ||
      std::ranges::find(spec.defaults, "model.hidden_size", [](const ForeignDefault& one) {
        return one.origin.own;
      }) != spec.defaults.end();
  const bool has_model = find_path(spec.tree, "model.hf") != nullptr || !has_sizes;
  for (ForeignDefault& one : spec.defaults) {
    if (has_model && one.origin.own.starts_with("model.")) continue;
    if (has_key(spec.tree, one.origin.own)) continue;
    put(spec.tree, one.origin.own, std::move(one.value));
    spec.origins.push_back(std::move(one.origin));
  }
  spec.defaults.clear();
}

Checked<ForeignSpec> import_tree(const Dialect& dialect, const Value& root) {
  return ForeignImport(dialect, root).run();
}

}  // namespace memest
