#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/reader/lock.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/lock/lock_words.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"
#include "reader/text/text.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

constexpr const char* kUpdateHint =
    "delete the lock and write it anew: `memest check --update` of every spec";

constexpr Key kLockKeys[] = {
    {.name = kFormatKey,
     .shapes = {count(1, kMaxCount)},
     .doc = "Version of the lock's form.",
     .required = true},
    {.name = kToleranceKey,
     .shapes = {quantity(Dimension::share)},
     .fallback = "1 %",
     .doc = "Share by which seconds and USD may differ."},
    {.name = kSpecsKey,
     .shapes = {document()},
     .doc = "By path, relative to the lock.",
     .required = true},
};

constexpr Key kLockedSpecKeys[] = {
    {.name = kRestsOnKey,
     .shapes = {document()},
     .doc = "Digests of what the figures rest on beside the spec.",
     .required = true},
    {.name = kKeysKey,
     .shapes = {document()},
     .doc = "The keys that the spec wrote.",
     .required = true},
    {.name = kFiguresKey, .shapes = {document()}, .doc = "What it needed.", .required = true},
    {.name = kTermsKey,
     .shapes = {document()},
     .doc = "The ledger of the rank that takes most.",
     .required = true},
};

std::optional<Int128> whole_of(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return {};
  constexpr std::size_t kMostDigits = 38;  // of 2^127
  if (text.size() > kMostDigits) return {};
  Int128 number = 0;
  for (const char digit : text) number = number * 10 + (digit - '0');
  return number;
}

/// "8030261248", "19551305216 B", "0.0818 s"; nothing for what is none of these.
std::optional<LockedValue> locked_value_of(std::string_view text) {
  const std::size_t blank = text.find(' ');
  const std::string_view number = text.substr(0, blank);
  const std::string_view unit = blank == std::string_view::npos ? "" : text.substr(blank + 1);
  if (unit == "FLOP") {
    const std::optional<Int128> flops = whole_of(number);
    return flops ? std::optional<LockedValue>(Flops(*flops)) : std::nullopt;
  }
  if (unit.empty() || unit == "B") {
    const std::optional<std::int64_t> count = integer_of(number);
    if (!count) return {};
    return unit.empty() ? LockedValue(*count) : LockedValue(Bytes(*count));
  }
  const std::optional<double> real = number_of(number);
  if (real && unit == "s") return Seconds(*real);
  if (real && unit == "USD") return Dollars(*real);
  return {};
}

class LockReader {
 public:
  Lock read(const Value& root) {
    Lock lock;
    if (const auto share = as_quantity(root.find(kToleranceKey), Dimension::share)) {
      lock.tolerance = *share;
    }
    for (const Member& member : members_of(root.find(kSpecsKey))) {
      if (member.value.kind == ValueKind::mapping) {
        check_table(member.value, kLockedSpecKeys, member.key_span, errors);
        lock.specs.emplace(member.key, read_spec(member.value));
      } else {
        errors.push_back(error_at(member.value.span, "a locked spec is a mapping", kUpdateHint));
      }
    }
    return lock;
  }

  Diagnostics errors;

 private:
  static const std::vector<Member>& members_of(const Value* table) {
    static const std::vector<Member> none;
    return table == nullptr ? none : table->members;
  }

  LockedSpec read_spec(const Value& table) {
    LockedSpec spec;
    for (const Member& row : members_of(table.find(kRestsOnKey))) {
      if (is_scalar(row)) spec.rests_on.push_back({row.key, row.value.text});
    }
    for (const Member& row : members_of(table.find(kKeysKey))) {
      if (is_scalar(row)) spec.keys.push_back({row.key, row.value.text, {}});
    }
    spec.figures = read_figures(table.find(kFiguresKey));
    spec.terms = read_figures(table.find(kTermsKey));
    return spec;
  }

  std::vector<LockedFigure> read_figures(const Value* table) {
    std::vector<LockedFigure> figures;
    for (const Member& row : members_of(table)) {
      if (!is_scalar(row)) continue;
      if (const std::optional<LockedValue> value = locked_value_of(row.value.text)) {
        figures.push_back({row.key, *value});
      } else {
        errors.push_back(error_at(row.value.span, "no figure: " + quote(row.value.text),
                                  "a count, or a number with B, FLOP, s or USD"));
      }
    }
    return figures;
  }

  bool is_scalar(const Member& row) {
    const bool scalar = row.value.kind == ValueKind::scalar;
    if (!scalar)
      errors.push_back(error_at(row.value.span, "one word is missing here", kUpdateHint));
    return scalar;
  }
};

/// A merge that nobody ended.
std::optional<Diagnostic> find_conflict(const LineIndex& lines) {
  const std::string_view text = lines.source()->text;
  constexpr std::string_view kMark = "<<<<<<< ";
  const std::size_t at = text.starts_with(kMark) ? 0 : text.find("\n" + std::string(kMark));
  if (at == std::string_view::npos) return {};
  return error_at(lines.span(text[at] == '\n' ? at + 1 : at, kMark.size() - 1),
                  "a merge conflict begins here",
                  "take either side, then `memest check --update` of the specs in it");
}

}  // namespace

Checked<Lock> read_lock(const std::string& path) {
  const Checked<SourcePointer> source = read_source(path, kLockText);
  return source.ok() ? read_lock(source.value()) : source.diagnostics();
}

Checked<Lock> read_lock(const std::shared_ptr<const SourceText>& source) {
  if (auto conflict = find_conflict(LineIndex(source))) return *std::move(conflict);
  const Checked<Value> tree = parse_yaml(source, kLockText);
  if (!tree.ok()) return tree.diagnostics();
  const Value& root = tree.value();
  if (root.kind != ValueKind::mapping) {
    return error_at(root.span, "a lock is a mapping of keys", kUpdateHint);
  }
  LockReader reader;
  check_table(root, kLockKeys, {source, 0, 0, 0}, reader.errors);
  const Value* format = root.find(kFormatKey);
  if (as_count(format).value_or(kLockFormat) != kLockFormat) {
    return error_at(format->span,
                    "this is a lock of format " + format->text + "; this memest reads " +
                        std::to_string(kLockFormat),
                    kUpdateHint);
  }
  Lock lock = reader.read(root);
  if (!reader.errors.empty()) return std::move(reader.errors);
  return lock;
}

}  // namespace memest
