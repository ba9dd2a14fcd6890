#include "report/check/moved_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "memest/report/numbers.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownTerms = 3;
constexpr std::size_t kShownKeys = 3;

struct ValueWords {
  std::string operator()(std::int64_t count) const {
    return count_text(static_cast<double>(count));
  }
  std::string operator()(Bytes bytes) const { return sized_text(bytes); }
  std::string operator()(Flops flops) const { return flops_text(flops); }
  std::string operator()(Seconds time) const { return seconds_text(time); }
  std::string operator()(Dollars money) const { return dollars_text(money); }
};

struct UnitWord {
  std::string_view operator()(std::int64_t /*count*/) const { return ""; }
  std::string_view operator()(Bytes /*bytes*/) const { return "B"; }
  std::string_view operator()(Flops /*flops*/) const { return "FLOP"; }
  std::string_view operator()(Seconds /*time*/) const { return "s"; }
  std::string_view operator()(Dollars /*money*/) const { return "USD"; }
};

/// `amount` in the unit of `like`.
LockedValue like(const LockedValue& value, double amount) {
  struct Make {
    double amount;
    LockedValue operator()(std::int64_t /*count*/) const { return std::llround(amount); }
    LockedValue operator()(Bytes /*bytes*/) const { return Bytes(std::llround(amount)); }
    LockedValue operator()(Flops /*flops*/) const { return Flops(static_cast<Int128>(amount)); }
    LockedValue operator()(Seconds /*time*/) const { return Seconds(amount); }
    LockedValue operator()(Dollars /*money*/) const { return Dollars(amount); }
  };
  return std::visit(Make{amount}, value);
}

std::string quoted_or_none(const std::optional<std::string>& value) {
  if (!value) return "none";
  return value->empty() ? "null" : *value;
}

}  // namespace

std::string value_text(const std::optional<LockedValue>& value) {
  return value ? std::visit(ValueWords{}, *value) : "none";
}

std::string_view unit_of(const LockedValue& value) { return std::visit(UnitWord{}, value); }

std::string difference_text(const MovedFigure& figure) {
  const LockedValue& value = figure.now ? *figure.now : *figure.locked;
  const double difference = figure.difference();
  return (difference < 0 ? "-" : "+") + value_text(like(value, std::abs(difference)));
}

std::string share_text(const MovedFigure& figure) {
  if (!figure.now || !figure.locked || as_double(*figure.locked) == 0) return {};
  constexpr double kLeast = 0.0005;  // less would be written as 0.0 %
  const double share = figure.difference() / as_double(*figure.locked);
  if (std::abs(share) < kLeast) return {};
  return (share < 0 ? "-" : "+") + percent_text(std::abs(share));
}

std::string sentence_of(const MovedFigure& figure) {
  std::string text = fmt::format("{}: {} → {}, {}", figure.name, value_text(figure.locked),
                                 value_text(figure.now), difference_text(figure));
  const std::string share = share_text(figure);
  return share.empty() ? text : fmt::format("{} ({})", text, share);
}

std::string moved_terms(const SpecMoves& moves, const MovedFigure* figure) {
  const auto is_memory = [](const std::optional<LockedValue>& value) {
    return value && std::holds_alternative<Bytes>(*value);
  };
  if (figure != nullptr && !is_memory(figure->now) && !is_memory(figure->locked)) return {};
  std::string text;
  for (std::size_t i = 0; i < std::min(moves.terms.size(), kShownTerms); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", moves.terms[i].name,
                        difference_text(moves.terms[i]));
  }
  return text;
}

std::string sentence_of(const ChangedKey& key) {
  std::string text =
      fmt::format("{}: {} → {}", key.key, quoted_or_none(key.locked), quoted_or_none(key.now));
  if (key.share) text += fmt::format(" ({} of it)", percent_text(*key.share));
  return text;
}

std::string sentence_of(const SpecMoves& moves) {
  const MovedFigure* headline = headline_of(moves);
  std::string text = (headline == nullptr ? "terms of the ledger" : sentence_of(*headline)) +
                     moved_terms(moves, headline);
  for (std::size_t i = 0; i < std::min(moves.keys.size(), kShownKeys); ++i) {
    text += "; " + sentence_of(moves.keys[i]);
  }
  if (moves.keys.size() > kShownKeys) {
    text += fmt::format("; {} more keys", moves.keys.size() - kShownKeys);
  }
  const char* before = "; also ";
  for (const MovedFigure& figure : moves.figures) {
    if (&figure == headline) continue;
    text += fmt::format("{}{} {}", before, figure.name, difference_text(figure));
    before = ", ";
  }
  for (const std::string& name : moves.rests_on) text += "; other " + name;
  return text;
}

std::optional<LockedValue> figure_of(const CheckedFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.now.figures, name, &LockedFigure::name);
  return found == file.now.figures.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace memest
