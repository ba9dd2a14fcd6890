#include "cli/lock/weigh_changes.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/plan/in_parallel.hpp"
#include "memest/plan/lock.hpp"
#include "memest/reader/written_spec.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// A spec that is written anew has many changes: those are not weighed, the first speaks for all.
constexpr std::size_t kMostChanges = 12;

std::vector<SpecLeaf> without(const ChangedKey& change, std::vector<SpecLeaf> keys) {
  const auto found = std::ranges::find(keys, change.key, &SpecLeaf::key);
  if (found == keys.end()) {
    keys.push_back({change.key, *change.locked, {}});
  } else if (change.locked) {
    found->value = *change.locked;
  } else {
    keys.erase(found);
  }
  return keys;
}

/// The figure of the spec without the change; nothing where it then is none.
std::optional<double> figure_without(const ChangedKey& change, const CheckedFile& file,
                                     const std::string& figure) {
  try {
    const Checked<Job> job = read_job(without(change, file.now.keys), file.file);
    if (!job.ok()) return std::nullopt;
    LockedSpec spec;
    put_figures(estimate_job(job.value()), spec);
    const auto found = std::ranges::find(spec.figures, figure, &LockedFigure::name);
    return found == spec.figures.end() ? std::nullopt : std::optional(as_double(found->value));
  } catch (const OverflowError&) {  // two keys that only together have a size
    return std::nullopt;
  }
}

void weigh(CheckedFile& file) {
  std::vector<ChangedKey>& keys = file.moves.keys;
  const MovedFigure* headline = headline_of(file.moves);
  if (headline == nullptr || !headline->now || headline->difference() == 0) return;
  for (ChangedKey& key : keys) {
    const std::optional<double> before = figure_without(key, file, headline->name);
    if (before) key.share = (as_double(*headline->now) - *before) / headline->difference();
  }
  std::stable_sort(keys.begin(), keys.end(), [](const ChangedKey& left, const ChangedKey& right) {
    constexpr double kUnknown = -1;
    return left.share.value_or(kUnknown) > right.share.value_or(kUnknown);
  });
}

}  // namespace

void weigh_changes(CheckedSpecs& specs, std::size_t threads) {
  std::vector<CheckedFile*> files;
  for (CheckedFile& file : specs.files) {
    const std::size_t changes = file.moves.keys.size();
    const bool several = changes > 1 && changes <= kMostChanges;
    const bool has_terms = !file.now.terms.empty();  // a recording has none, and is no estimate
    if (file.lock == LockState::moved && several && has_terms) files.push_back(&file);
  }
  in_parallel(files.size(), threads, [&](std::size_t i) { weigh(*files[i]); });
}

}  // namespace memest
