// An estimate as the figures of a lock, and what moved between two of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/spec/lock.hpp"

namespace memest {

/// Sets `figures` and `terms`: parameters, the memory of the ranks that take most, term by term,
/// FLOPs, time and money, as far as they are known. Times and money have six digits.
void put_figures(const JobEstimate& estimate, LockedSpec& spec);

/// A figure of both sides; one side is absent where it has no such figure.
struct MovedFigure {
  std::string name;
  std::optional<LockedValue> locked;
  std::optional<LockedValue> now;

  /// now − locked in the figure's unit, an absent side counting as 0.
  [[nodiscard]] double difference() const;
};

/// A key of the spec that is not as it was; one side is absent where the spec has no such key.
struct ChangedKey {
  std::string key;
  std::optional<std::string> locked;
  std::optional<std::string> now;
  SourceSpan span;  ///< of the key, or of the nearest section above one that is gone
  /// How much of the headline's difference goes away with this change alone; where it was weighed.
  std::optional<double> share = {};
};

struct SpecMoves {
  std::vector<MovedFigure> figures;  ///< in the order of the lock
  std::vector<MovedFigure> terms;    ///< those that moved most first
  std::vector<ChangedKey> keys;      ///< what moved most first, where that was weighed; else in the
                                     ///< order of the spec, those that are gone last
  std::vector<std::string> rests_on;  ///< names whose digests differ; where no key changed, those
                                      ///< of one side alone too

  /// Whether a figure or a term moved: keys alone move nothing.
  [[nodiscard]] bool any() const { return !figures.empty() || !terms.empty(); }
};

/// The figure that speaks for all that moved: the device's memory, the host's, the time, the
/// parameters, else the first; null where terms alone did.
const MovedFigure* headline_of(const SpecMoves& moves);

/// Whole figures move by one, seconds and dollars by more than the share `tolerance`.
SpecMoves moves_between(const LockedSpec& locked, const LockedSpec& now, double tolerance);

double as_double(const LockedValue& value);

}  // namespace memest
