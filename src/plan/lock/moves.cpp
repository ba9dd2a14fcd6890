#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/lock.hpp"

namespace memest {
namespace {

/// The first of these that moved speaks for all.
constexpr std::array<std::string_view, 5> kHeadlines = {"device", "host", "step", "call",
                                                        "parameters"};

struct AsDouble {
  double operator()(std::int64_t count) const { return static_cast<double>(count); }
  template <class Tag>
  double operator()(Quantity<Tag> quantity) const {
    return quantity.as_double();
  }
};

bool is_decimal(const LockedValue& value) {
  return std::holds_alternative<Seconds>(value) || std::holds_alternative<Dollars>(value);
}

bool is_same(const LockedValue& locked, const LockedValue& now, double tolerance) {
  if (locked == now) return true;
  if (locked.index() != now.index() || !is_decimal(now)) return false;
  return std::abs(as_double(now) - as_double(locked)) <= tolerance * std::abs(as_double(locked));
}

/// Rows of both sides by their name: `both(locked, now)`, null where a side has none; those of
/// `now` in their order, then those that are gone in theirs.
template <class Row, class Name, class Both>
void join(const std::vector<Row>& locked, const std::vector<Row>& now, Name name,
          const Both& both) {
  std::unordered_map<std::string, const Row*> left;
  for (const Row& row : locked) left.emplace(row.*name, &row);
  for (const Row& row : now) {
    const auto found = left.find(row.*name);
    both(found == left.end() ? nullptr : found->second, &row);
    if (found != left.end()) left.erase(found);
  }
  for (const Row& row : locked) {
    if (left.erase(row.*name) > 0) both(&row, static_cast<const Row*>(nullptr));
  }
}

std::vector<MovedFigure> moved(const std::vector<LockedFigure>& locked,
                               const std::vector<LockedFigure>& now, double tolerance) {
  std::vector<MovedFigure> result;
  join(locked, now, &LockedFigure::name,
       [&](const LockedFigure* before, const LockedFigure* after) {
         if (before != nullptr && after != nullptr &&
             is_same(before->value, after->value, tolerance)) {
           return;
         }
         MovedFigure figure{after != nullptr ? after->name : before->name, {}, {}};
         if (before != nullptr) figure.locked = before->value;
         if (after != nullptr) figure.now = after->value;
         result.push_back(std::move(figure));
       });
  return result;
}

/// The place of a key that is gone: that of the first key in the nearest section around it that the
/// spec still has.
SourceSpan place_of_gone(std::string key, const std::vector<SpecLeaf>& now) {
  while (!key.empty()) {
    const std::size_t end = key.find_last_of(".[");
    key.resize(end == std::string::npos ? 0 : end);
    for (const SpecLeaf& written : now) {
      if (!key.empty() && written.key.starts_with(key)) return written.span;
    }
  }
  return now.empty() ? SourceSpan{} : now.front().span;
}

std::vector<ChangedKey> changed(const std::vector<SpecLeaf>& locked,
                                const std::vector<SpecLeaf>& now) {
  std::vector<ChangedKey> result;
  join(locked, now, &SpecLeaf::key, [&](const SpecLeaf* before, const SpecLeaf* after) {
    if (before != nullptr && after != nullptr && before->value == after->value) return;
    ChangedKey key;
    key.key = after != nullptr ? after->key : before->key;
    if (before != nullptr) key.locked = before->value;
    if (after != nullptr) key.now = after->value;
    key.span = after != nullptr ? after->span : place_of_gone(before->key, now);
    result.push_back(std::move(key));
  });
  return result;
}

/// Which rows of an answer's basis are looked at.
enum class BasisScope : std::uint8_t { both_sides, any };

std::vector<std::string> other_digests(const std::vector<RestsOn>& locked,
                                       const std::vector<RestsOn>& now, BasisScope scope) {
  std::vector<std::string> names;
  join(locked, now, &RestsOn::name, [&](const RestsOn* before, const RestsOn* after) {
    const bool both = before != nullptr && after != nullptr;
    if (both ? *before == *after : scope == BasisScope::both_sides) return;
    names.push_back(after != nullptr ? after->name : before->name);
  });
  return names;
}

}  // namespace

double as_double(const LockedValue& value) { return std::visit(AsDouble{}, value); }

double MovedFigure::difference() const {
  return (now ? as_double(*now) : 0) - (locked ? as_double(*locked) : 0);
}

const MovedFigure* headline_of(const SpecMoves& moves) {
  for (const std::string_view name : kHeadlines) {
    const auto found = std::ranges::find(moves.figures, name, &MovedFigure::name);
    if (found != moves.figures.end()) return &*found;
  }
  return moves.figures.empty() ? nullptr : &moves.figures.front();
}

SpecMoves moves_between(const LockedSpec& locked, const LockedSpec& now, double tolerance) {
  SpecMoves moves{.figures = moved(locked.figures, now.figures, tolerance),
                  .terms = moved(locked.terms, now.terms, tolerance),
                  .keys = changed(locked.keys, now.keys),
                  .rests_on = {}};
  // A key that changed names another optimizer: the key says so. Without one memest knows another.
  const BasisScope scope = moves.keys.empty() ? BasisScope::any : BasisScope::both_sides;
  moves.rests_on = other_digests(locked.rests_on, now.rests_on, scope);
  std::stable_sort(moves.terms.begin(), moves.terms.end(),
                   [](const MovedFigure& left, const MovedFigure& right) {
                     return std::abs(left.difference()) > std::abs(right.difference());
                   });
  return moves;
}

}  // namespace memest
