// The search over one GPU type and one number of GPUs: every layout, recompute and micro-batch,
// those that cannot fit or cannot win left out by bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/plan/search.hpp"
#include "plan/layouts/layout_forms.hpp"
#include "plan/layouts/layout_times.hpp"
#include "plan/layouts/space.hpp"

namespace memest {

/// A candidate with what its choice depends on, by the closed form.
struct Evaluated {
  std::size_t number = 0;  ///< of its group's: in which order equals are preferred
  Parallelism layout;
  BatchChoice batch;
  std::size_t recompute = 0;  ///< index into the search's choices
  Bytes device = {};
  Bytes low = {};  ///< interval of the device's bytes, what no allocator's limit holds left out
  Bytes high = {};
  Verdict verdict = Verdict::does_not_fit;
  Bytes host_of_rank = {};  ///< where the layout offloads
  double filled = 0;        ///< share of the device's memory, or of its host's where that is more
  double seconds_per_token = 0;  ///< infinite where the time is unavailable
};

/// The candidates of one GPU type and count.
struct Group {
  std::size_t gpu = 0;  ///< index into PlanRequest::gpus
  std::int64_t gpus = 1;
  /// Candidates that the closed form does not refuse, the least time first: the fastest, and of the
  /// others each with less memory than all that are faster.
  std::vector<Evaluated> admitted;
  /// Refused by the closed form or by the host: that which lacks the least share.
  std::optional<Evaluated> nearest;
  std::size_t layouts = 0;
  std::size_t candidates = 0;
  std::map<std::string, std::size_t> refused;  ///< how many candidates, by reason
  /// Why no layout has a graph; the first reason.
  std::variant<std::monostate, Unavailable> unavailable;
};

/// Gives a group's candidate its verdict and bytes by the events of its steps, or says why it has
/// none.
using FollowCandidate = std::function<std::optional<Unavailable>(Evaluated&, const Group&)>;

/// References that all groups share; alive while they are searched.
struct SearchSpace {
  const PlanRequest& request;
  const std::vector<Recompute>& recomputes;
  LayoutForms& forms;
  LayoutTimes& times;
  FollowCandidate follow;  ///< for candidates that the closed form has no formulas for
};

/// Number of candidates that a group keeps: its fastest.
inline constexpr std::size_t kFastest = 24;

/// Throws OverflowError where a size leaves its range.
Group search_group(const SearchSpace& space, const TimedDevice& device, std::int64_t gpus);

}  // namespace memest
