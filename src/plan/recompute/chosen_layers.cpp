#include "plan/recompute/chosen_layers.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

namespace memest {
namespace {

using ChosenLayers = std::vector<std::int64_t>;

/// How often a plan that is over is asked for more bytes.
constexpr int kMostMended = 24;
/// Subsets that are carried on from layer to layer; of more every second one.
constexpr std::size_t kMostSubsets = 2048;

double seconds_of(const std::vector<LayerSaving>& layers, const ChosenLayers& chosen) {
  double seconds = 0;
  for (const std::int64_t layer : chosen)
    seconds += layers[static_cast<std::size_t>(layer)].seconds;
  return seconds;
}

/// All subsets, those of least time first; of equal time those of fewer layers, then of earlier
/// ones.
std::vector<ChosenLayers> subsets_by_time(const std::vector<LayerSaving>& layers) {
  std::vector<std::pair<double, ChosenLayers>> subsets;
  for (std::size_t bits = 0; bits < std::size_t{1} << layers.size(); ++bits) {
    ChosenLayers chosen;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((bits >> i & 1U) != 0) chosen.push_back(static_cast<std::int64_t>(i));
    }
    const double seconds = seconds_of(layers, chosen);
    subsets.emplace_back(seconds, std::move(chosen));
  }
  std::ranges::sort(subsets, [](const auto& left, const auto& right) {
    if (left.first != right.first) return left.first < right.first;
    if (left.second.size() != right.second.size()) return left.second.size() < right.second.size();
    return left.second < right.second;
  });
  std::vector<ChosenLayers> ordered;
  ordered.reserve(subsets.size());
  for (auto& [seconds, chosen] : subsets) ordered.push_back(std::move(chosen));
  return ordered;
}

/// The subset of least time that saves so many bytes: the knapsack's dynamic program over subsets
/// of which none saves more in less time.
ChosenLayers least_time_saving(const std::vector<LayerSaving>& layers, std::int64_t bytes) {
  struct Subset {
    double seconds = 0;
    std::int64_t saved = 0;
    ChosenLayers chosen;
  };
  std::vector<Subset> front = {{}};  // by time, and by what is saved
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<Subset> all = front;
    for (const Subset& subset : front) {
      if (subset.saved >= bytes) continue;
      Subset more = subset;
      more.seconds += layers[i].seconds;
      more.saved += layers[i].bytes;
      more.chosen.push_back(static_cast<std::int64_t>(i));
      all.push_back(std::move(more));
    }
    std::ranges::stable_sort(all, [](const Subset& left, const Subset& right) {
      return left.seconds != right.seconds ? left.seconds < right.seconds
                                           : left.saved > right.saved;
    });
    front.clear();
    for (Subset& subset : all) {
      if (front.empty() || subset.saved > front.back().saved) front.push_back(std::move(subset));
    }
    while (front.size() > kMostSubsets) {
      std::vector<Subset> thinned;
      for (std::size_t k = front.size() % 2 == 0 ? 1 : 0; k < front.size(); k += 2) {
        thinned.push_back(std::move(front[k]));
      }
      front = std::move(thinned);
    }
  }
  const auto enough =
      std::ranges::find_if(front, [&](const Subset& subset) { return subset.saved >= bytes; });
  return enough == front.end() ? front.back().chosen : enough->chosen;
}

/// Without layers that it fits without, those of most time first: of every kind the first of a net,
/// whose activations are the last to go.
ChosenLayers without_idle(const std::vector<LayerSaving>& layers, ChosenLayers chosen,
                          const OverBy& over) {
  const auto saving_of = [&](std::int64_t layer) -> const LayerSaving& {
    return layers[static_cast<std::size_t>(layer)];
  };
  ChosenLayers by_time = chosen;
  std::ranges::stable_sort(by_time, std::greater(),
                           [&](std::int64_t layer) { return saving_of(layer).seconds; });
  std::set<std::size_t> needed;
  for (const std::int64_t layer : by_time) {
    const std::size_t kind = saving_of(layer).kind;
    if (needed.contains(kind)) continue;
    ChosenLayers fewer = chosen;
    std::erase(fewer, layer);
    const std::optional<std::int64_t> bytes = over(fewer);
    if (bytes && *bytes <= 0) {
      chosen = std::move(fewer);
    } else {
      needed.insert(kind);
    }
  }
  return chosen;
}

}  // namespace

std::optional<std::vector<std::int64_t>> choose_layers(const std::vector<LayerSaving>& layers,
                                                       const OverBy& over) {
  if (layers.size() <= kMostEnumerated) {
    for (ChosenLayers& chosen : subsets_by_time(layers)) {
      const std::optional<std::int64_t> bytes = over(chosen);
      if (bytes && *bytes <= 0) return std::move(chosen);
    }
    return std::nullopt;
  }
  ChosenLayers all(layers.size());
  std::iota(all.begin(), all.end(), 0);
  std::int64_t asked = 0;
  ChosenLayers chosen;
  for (int i = 0; i < kMostMended; ++i) {
    const std::optional<std::int64_t> bytes = over(chosen);
    if (!bytes) break;
    if (*bytes <= 0) return without_idle(layers, std::move(chosen), over);
    if (chosen == all) break;
    asked += *bytes;
    chosen = least_time_saving(layers, asked);
  }
  const std::optional<std::int64_t> bytes = over(all);
  if (!bytes || *bytes > 0) return std::nullopt;
  return without_idle(layers, std::move(all), over);
}

}  // namespace memest
