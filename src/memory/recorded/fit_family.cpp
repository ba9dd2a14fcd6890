#include "memest/memory/recorded/fit_family.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "memest/memory/play_requests.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/memory/recorded/fit_formula.hpp"
#include "memest/units/int128.hpp"
#include "memory/recorded/match_events.hpp"

namespace memest {
namespace {

/// The requests of recordings whose events are equal, by allocation and recording.
class Requests {
 public:
  explicit Requests(const std::vector<RecordedAt>& recorded) : recorded_(recorded) {
    for (const RecordedAt& at : recorded) {
      std::vector<std::size_t> requests;
      const std::vector<TraceEvent>& events = at.recording.trace.events;
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (events[i].kind == TraceEventKind::allocate) requests.push_back(i);
      }
      events_.push_back(std::move(requests));
    }
  }

  [[nodiscard]] std::size_t count() const { return events_.front().size(); }
  [[nodiscard]] std::int64_t size(std::size_t request, std::size_t recording) const {
    const std::vector<TraceEvent>& events = recorded_[recording].recording.trace.events;
    return events[events_[recording][request]].size.value();
  }
  [[nodiscard]] EventAt at(std::size_t request, std::size_t recording) const {
    return event_at(recorded_[recording], events_[recording][request]);
  }
  [[nodiscard]] std::string phase(std::size_t request, std::size_t recording) const {
    return phase_at(recorded_[recording], events_[recording][request]);
  }

 private:
  const std::vector<RecordedAt>& recorded_;
  std::vector<std::vector<std::size_t>> events_;  // by recording and request
};

FamilyRefusal refused_request(FamilyFault fault, const Requests& requests, std::size_t request,
                              std::size_t fitted) {
  FamilyRefusal refusal;
  refusal.fault = fault;
  refusal.phase = requests.phase(request, 0);
  for (std::size_t i = 0; i < fitted; ++i) refusal.events.push_back(requests.at(request, i));
  return refusal;
}

/// The first recording without what is told of its point alone.
RecordedFamily family_of(const std::vector<VariedSize>& varied,
                         const std::vector<RecordedAt>& recorded) {
  RecordedFamily family;
  family.varied = varied;
  for (const RecordedAt& at : recorded) family.fitted.push_back(at.point);
  family.held_out = family.fitted.back();
  family.fitted.pop_back();
  const Recording& first = recorded.front().recording;
  family.torch = first.torch;
  family.rank = first.rank;
  family.gpu = first.gpu;
  family.reads = first.reads;
  family.masks_keep_all = first.masks_keep_all;
  family.trace = first.trace;
  family.trace.events.clear();
  for (const std::size_t index : program_events(first.trace)) {
    family.trace.events.push_back(first.trace.events[index]);
  }
  for (TraceMarker& marker : family.trace.markers) marker.statistics = {};
  return family;
}

/// Gives each request its formula; the refusal of the first that has none.
std::optional<FamilyRefusal> fit_requests(const Requests& requests, RecordedFamily& family) {
  const std::size_t fitted = family.fitted.size();
  std::optional<FormulaFitter> fitter;
  std::map<std::vector<std::int64_t>, std::uint32_t> known;
  for (std::size_t request = 0; request < requests.count(); ++request) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < fitted; ++i) sizes.push_back(requests.size(request, i));
    const auto [entry, is_new] =
        known.try_emplace(sizes, static_cast<std::uint32_t>(family.formulas.size()));
    if (is_new) {
      if (!fitter) fitter.emplace(family.fitted);
      auto formula = fitter->fit(sizes);
      if (!formula) return refused_request(FamilyFault::no_formula, requests, request, fitted);
      family.formulas.push_back(*std::move(formula));
    }
    family.formula_of.push_back(entry->second);
  }
  return std::nullopt;
}

/// Whether the formulas give the requests at the point that was held out, up to their steps.
std::optional<FamilyRefusal> compare_requests(const Requests& requests,
                                              const RecordedFamily& family, HeldOut& compared) {
  const std::size_t held_out = family.fitted.size();
  compared.requests = static_cast<std::int64_t>(requests.count());
  for (std::size_t request = 0; request < requests.count(); ++request) {
    const SizeFormula& formula = family.formulas[family.formula_of[request]];
    const std::int64_t size = requests.size(request, held_out);
    const std::optional<std::int64_t> value = formula.evaluate(family.held_out);
    if (value == size) continue;
    if (value && size < *value && *value - size <= formula.slack(family.held_out)) {
      ++compared.within_steps;
      compared.most_below = std::max(compared.most_below, Bytes(*value - size));
      continue;
    }
    FamilyRefusal refusal;
    refusal.fault = FamilyFault::held_out_size;
    refusal.phase = requests.phase(request, held_out);
    refusal.events.push_back(requests.at(request, held_out));
    refusal.formula = formula;
    return refusal;
  }
  return std::nullopt;
}

/// The peaks that the requests come to in the model of the allocator.
RecordedPeaks played_peaks(const AllocatorTrace& trace) {
  const AllocatorStatistics end = play_requests(trace, trace.settings, trace.available()).end;
  return {end.allocated.peak, end.reserved.peak, PeakSource::replay};
}

std::optional<FamilyRefusal> compare_peaks(const RecordedFamily& family,
                                           const RecordedPeaks& recorded) {
  const auto instance = trace_at(family, family.held_out);
  const RecordedPeaks played = played_peaks(std::get<AllocatorTrace>(instance));
  if (played.allocated == recorded.allocated &&
      (!recorded.reserved || played.reserved == recorded.reserved)) {
    return std::nullopt;
  }
  FamilyRefusal refusal;
  refusal.fault = FamilyFault::held_out_peaks;
  refusal.events.push_back({family.held_out, std::nullopt, ""});
  refusal.recorded = recorded;
  refusal.played = played;
  return refusal;
}

}  // namespace

RecordedPoints points_of(const std::vector<VariedSize>& varied) {
  SizePoint lowest;
  SizePoint highest;
  SizePoint middle;
  for (const VariedSize& size : varied) {
    lowest.push_back(size.values.front());
    highest.push_back(size.values.back());
    middle.push_back(size.values[size.values.size() / 2]);
  }
  RecordedPoints points{{lowest}, middle};
  for (std::size_t i = 0; i < varied.size(); ++i) {
    for (const std::int64_t value : varied[i].values) {
      SizePoint point = lowest;
      point[i] = value;
      if (point != lowest && point != middle) points.fitted.push_back(std::move(point));
    }
  }
  if (varied.size() > 1) points.fitted.push_back(std::move(highest));
  return points;
}

std::variant<FittedFamily, FamilyRefusal> fit_family(const std::vector<VariedSize>& varied,
                                                     std::vector<RecordedAt> recorded) {
  for (std::size_t i = 1; i < recorded.size(); ++i) {
    if (auto difference = first_difference(recorded.front(), recorded[i])) {
      return *std::move(difference);
    }
  }
  RecordedFamily family = family_of(varied, recorded);
  const Requests requests(recorded);
  if (auto refusal = fit_requests(requests, family)) return *std::move(refusal);
  HeldOut held_out;
  if (auto refusal = compare_requests(requests, family, held_out)) return *std::move(refusal);
  held_out.peaks = peaks_of(recorded.back().recording.trace);
  if (auto refusal = compare_peaks(family, held_out.peaks)) return *std::move(refusal);
  return FittedFamily{std::move(family), held_out};
}

}  // namespace memest
