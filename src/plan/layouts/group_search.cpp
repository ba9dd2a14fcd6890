#include "plan/layouts/group_search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/cost_split.hpp"
#include "plan/layouts/candidate_outside.hpp"
#include "plan/layouts/followed.hpp"

namespace memest {
namespace {

constexpr const char* kDoesNotFit = "does not fit";
constexpr const char* kHostTooSmall = "does not fit its host";
constexpr const char* kTooClose = "too close to call";

class GroupSearch {
 public:
  GroupSearch(const SearchSpace& space, const TimedDevice& device, std::int64_t gpus)
      : space_(space),
        device_(device),
        job_(space.request.job),
        outside_(space.request.job, *device.of.gpu) {
    group_.gpu = device.index;
    group_.gpus = gpus;
    Hardware hardware = job_.hardware;
    hardware.gpu = *device.of.gpu;
    capacity_ = capacity_of(hardware);
    timed_ = device.laws != nullptr && (gpus == 1 || has_links());
  }

  Group answer() {
    const Implementation& implementation = job_.training->implementation;
    for (const Parallelism& layout : layout_choices(job_, group_.gpus)) {
      ++group_.layouts;
      if (space_.request.on_step) space_.request.on_step(PlanStep::layout);
      enter(layout);
      const std::vector<BatchChoice>& batches = batches_of(layout);
      hosts_ = {};
      for (std::size_t recompute = 0; recompute < space_.recomputes.size(); ++recompute) {
        if (!leaves_recompute(implementation, layout.ranks(), space_.recomputes[recompute]))
          continue;
        try_batches(layout, recompute, batches);
      }
    }
    find_nearest();
    if (group_.candidates > 0) group_.unavailable = {};
    if (too_large_ > 0) group_.refused[kDoesNotFit] = too_large_;
    if (too_large_for_host_ > 0) group_.refused[kHostTooSmall] = too_large_for_host_;
    if (too_close_ > 0) group_.refused[kTooClose] = too_close_;
    admit();
    return std::move(group_);
  }

 private:
  /// Which forms of the layout at hand.
  struct LocalKey {
    std::int64_t forms = 0;  ///< number of the layout's
    std::int64_t micro_batch = 1;
    std::int64_t micro_steps = 1;  ///< steps_of_form
    std::size_t recompute = 0;

    auto operator<=>(const LocalKey&) const = default;
  };
  struct TimeKey {
    std::int64_t division = 0;  ///< number of the layout's
    std::int64_t micro_batch = 1;
    std::size_t recompute = 0;

    auto operator<=>(const TimeKey&) const = default;
  };

  /// Between the GPUs that one link joins, and beyond.
  [[nodiscard]] bool has_links() const {
    const bool one_link = group_.gpus <= job_.hardware.linked_gpus();
    return device_.laws->know_collectives() && (one_link || device_.links->know_network());
  }

  const std::vector<BatchChoice>& batches_of(const Parallelism& layout) {
    const auto [entry, is_new] = batches_.try_emplace({layout.data, layout.context});
    if (is_new) entry->second = batch_choices(job_, layout);
    return entry->second;
  }

  /// Sets what all candidates of one layout share.
  void enter(const Parallelism& layout) {
    split_ = space_.forms.split_of(layout);
    followed_ = is_followed(job_, layout);
    const auto number = [](auto& numbers, const auto& key) {
      return numbers.try_emplace(key, static_cast<std::int64_t>(numbers.size())).first->second;
    };
    forms_number_ = number(forms_numbers_, space_.forms.forms_key(split_, layout));
    times_number_ = number(times_numbers_, layout.division());
    const bool by_cost = row_of(job_.training->implementation.framework).splits.deals_by_cost;
    least_micro_batches_ = by_cost ? least_micro_batches(layout) : 1;
  }

  /// Ascending micro-batches up to the first that does not fit: a larger one never needs less.
  void try_batches(const Parallelism& layout, std::size_t recompute,
                   const std::vector<BatchChoice>& batches) {
    bool full = false;
    for (const BatchChoice& batch : batches) {
      const bool interleaves = layout.virtual_stages > 1;
      // Megatron's interleaved schedule asks for micro-batches that are a multiple of the stages.
      if (interleaves && batch.gradient_accumulation % layout.pipeline != 0) continue;
      if (batch.gradient_accumulation < least_micro_batches_) continue;
      if (full) {
        ++group_.candidates;
        ++too_large_;
        continue;
      }
      full = !try_one({.layout = layout, .batch = batch, .recompute = recompute});
    }
  }

  /// False: it does not fit the device, so larger micro-batches do not either.
  bool try_one(Evaluated candidate) {
    candidate.number = group_.candidates;
    return followed_ ? try_followed(candidate) : try_formulas(candidate);
  }

  /// By the events of its steps.
  bool try_followed(Evaluated& candidate) {
    const Lowered& graph =
        space_.forms.graph_of(device_.of, candidate.layout, candidate.batch.micro_batch);
    if (const auto* reason = std::get_if<Unavailable>(&graph)) {
      note_refusal(*reason);
      return true;
    }
    if (const auto reason = space_.follow(candidate, group_)) {
      note_refusal(*reason);
      return true;
    }
    ++group_.candidates;
    candidate.filled = candidate.device / capacity_.bytes;
    return place(candidate);
  }

  bool try_formulas(Evaluated& candidate) {
    const auto known = forms_.find(key_of(candidate));
    // States are a lower bound of a step, and cheaper to know than the forms of its moments.
    if (known == forms_.end() && exceeds_by_states(candidate)) {
      ++group_.candidates;
      ++too_large_;
      hopeless_.push_back(candidate);
      return false;
    }
    const RankForms& forms = known != forms_.end() ? known->second : forms_of(candidate);
    if (!forms.exist) return true;
    ++group_.candidates;
    evaluate(candidate, forms);
    return place(candidate);
  }

  /// Keeps what was measured as one that is admitted or refused; as try_one.
  bool place(Evaluated& candidate) {
    const bool fits_device = candidate.verdict != Verdict::does_not_fit;
    if (takes_host_memory(candidate)) hold_to_host(candidate);
    if (candidate.verdict == Verdict::does_not_fit) {
      ++(fits_device ? too_large_for_host_ : too_large_);
      keep_nearest(candidate);
      // An offload takes no more of the host for a larger micro-batch.
      return fits_device;
    }
    candidate.seconds_per_token = seconds_per_token(candidate);
    if (candidate.verdict == Verdict::too_close_to_call) ++too_close_;
    add_to_fastest(candidate);
    add_to_front(candidate.verdict == Verdict::fits ? fitting_ : close_, candidate);
    return true;
  }

  /// Weights, states and gradients alone do not fit: the forms of a step need not be made to know.
  bool exceeds_by_states(Evaluated& candidate) {
    const RankForms& floors = floors_of(candidate);
    if (!floors.exist) return false;
    evaluate(candidate, floors);
    return candidate.verdict == Verdict::does_not_fit;
  }

  /// Finds the hopeless that may lack less than the nearest of the others, least states
  /// first.
  void find_nearest() {
    std::ranges::stable_sort(hopeless_, {}, &Evaluated::filled);
    for (Evaluated& candidate : hopeless_) {
      // `filled` is a lower bound here and they are sorted by it: no later one can lack less.
      if (group_.nearest && candidate.filled > group_.nearest->filled) return;
      enter(candidate.layout);
      hosts_ = {};
      evaluate(candidate, forms_of(candidate));
      if (takes_host_memory(candidate)) hold_to_host(candidate);
      keep_nearest(candidate);
    }
  }

  void evaluate(Evaluated& candidate, const RankForms& forms) {
    const MemoryEstimate peak = worst_rank(forms, split_, candidate.layout, candidate.batch)
                                    .estimate(outside_.of(candidate.layout, candidate.batch));
    candidate.verdict = judge(peak, capacity_);
    const auto within = [&](Bytes bytes, Bytes outside) {
      return capacity_.allocator_limit ? bytes - outside : bytes;
    };
    candidate.device = within(peak.device(), peak.outside);
    candidate.low = within(peak.low(), peak.outside_low);
    candidate.high = within(peak.high(), peak.outside_high);
    candidate.filled = candidate.device / capacity_.bytes;
  }

  /// Admits the candidates in order, each once.
  void admit() {
    std::vector<Evaluated>& all = group_.admitted;
    all = std::move(fastest_);
    all.insert(all.end(), fitting_.begin(), fitting_.end());
    all.insert(all.end(), close_.begin(), close_.end());
    std::ranges::sort(all, [](const Evaluated& left, const Evaluated& right) {
      return std::pair(left.seconds_per_token, left.number) <
             std::pair(right.seconds_per_token, right.number);
    });
    // A candidate may be among the fastest and on a front.
    const auto repeated = std::ranges::unique(all, {}, &Evaluated::number);
    all.erase(repeated.begin(), repeated.end());
  }

  /// Keeps the first found among equals.
  void add_to_fastest(const Evaluated& candidate) {
    const bool full = fastest_.size() == kFastest;
    if (full && candidate.seconds_per_token >= fastest_.back().seconds_per_token) return;
    if (full) fastest_.pop_back();
    fastest_.insert(std::ranges::upper_bound(fastest_, candidate.seconds_per_token, {},
                                             &Evaluated::seconds_per_token),
                    candidate);
  }

  [[nodiscard]] bool takes_host_memory(const Evaluated& candidate) const {
    return candidate.layout.offload.any() || loads_into_host(job_);
  }

  /// Checks the current layout's host; of an offload's micro-batch only whether there are several
  /// matters.
  void hold_to_host(Evaluated& candidate) {
    const bool accumulates = candidate.batch.gradient_accumulation > 1;
    std::optional<HostNeed>& host = hosts_[accumulates ? 1 : 0];
    if (!host || loads_into_host(job_)) {
      Hardware hardware = job_.hardware;
      hardware.gpu = *device_.of.gpu;
      hardware.count = group_.gpus;
      host = host_need_of(space_.forms.host_bytes_of(device_.of, candidate.layout, candidate.batch),
                          job_, hardware);
    }
    candidate.host_of_rank = host->of_rank;
    candidate.verdict = worse_of(candidate.verdict, host->verdict());
    candidate.filled = std::max(candidate.filled, host->of_node() / host->capacity.bytes);
  }

  /// The candidate's key within the current layout.
  [[nodiscard]] LocalKey key_of(const Evaluated& candidate) const {
    return {forms_number_, candidate.batch.micro_batch,
            steps_of_form(job_, candidate.layout, candidate.batch), candidate.recompute};
  }

  /// A lookup for each candidate would cost more than its evaluation: neighbours share their forms.
  const RankForms& forms_of(const Evaluated& candidate) {
    const auto [entry, is_new] = forms_.try_emplace(key_of(candidate));
    if (is_new) {
      entry->second =
          space_.forms.forms_of(device_.of, candidate.layout, candidate.batch, candidate.recompute);
      if (!entry->second.exist) note_refusal(candidate);
    }
    return entry->second;
  }

  const RankForms& floors_of(const Evaluated& candidate) {
    const auto [entry, is_new] = floors_.try_emplace(key_of(candidate));
    if (is_new) {
      entry->second = space_.forms.floors_of(device_.of, candidate.layout, candidate.batch,
                                             candidate.recompute);
    }
    return entry->second;
  }

  void note_refusal(const Evaluated& candidate) {
    const Lowered& lowered =
        space_.forms.graph_of(device_.of, candidate.layout, candidate.batch.micro_batch);
    if (const auto* reason = std::get_if<Unavailable>(&lowered)) note_refusal(*reason);
  }

  void note_refusal(const Unavailable& reason) {
    ++group_.refused[reason.sentence];
    if (std::holds_alternative<std::monostate>(group_.unavailable)) group_.unavailable = reason;
  }

  double seconds_per_token(const Evaluated& candidate) {
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    const Parallelism& layout = candidate.layout;
    if (!timed_ || (layout.offload.any() && !device_.laws->know_transfers())) return kUnknown;
    // Prices depend on the tensor, context and expert groups, not on stages and data-parallel
    // ranks.
    const TimeKey key{times_number_, candidate.batch.micro_batch, candidate.recompute};
    const PricedModel*& model = models_[key];
    if (model == nullptr) {
      const Lowered& graph = space_.forms.graph_of(device_.of, layout, candidate.batch.micro_batch);
      model = &space_.times.priced(device_, std::get<Graph>(graph), layout,
                                   {candidate.batch.micro_batch, candidate.recompute});
    }
    const Seconds step = expected_step_time(*model, layout, candidate.batch.gradient_accumulation);
    const double tokens = static_cast<double>(candidate.batch.micro_batch) *
                          static_cast<double>(candidate.batch.gradient_accumulation) *
                          static_cast<double>(layout.data) *
                          static_cast<double>(job_.training->seq_len);
    return step.value() / tokens;
  }

  /// Keeps the candidate that lacks least; at equal lack, the one that takes less of the device.
  void keep_nearest(const Evaluated& candidate) {
    const auto lacks = [](const Evaluated& one) {
      return std::tuple(one.filled, one.device, one.number);
    };
    if (!group_.nearest || lacks(candidate) < lacks(*group_.nearest)) group_.nearest = candidate;
  }

  /// `front` is ordered by time, and by falling memory.
  static void add_to_front(std::vector<Evaluated>& front, const Evaluated& candidate) {
    const auto as_slow = std::find_if(front.begin(), front.end(), [&](const Evaluated& other) {
      return other.seconds_per_token >= candidate.seconds_per_token;
    });
    if (as_slow != front.begin() && std::prev(as_slow)->high <= candidate.high) return;
    const bool equal_time =
        as_slow != front.end() && as_slow->seconds_per_token == candidate.seconds_per_token;
    if (equal_time && as_slow->high <= candidate.high) return;
    const auto place = front.insert(as_slow, candidate);
    front.erase(
        std::remove_if(std::next(place), front.end(),
                       [&](const Evaluated& other) { return other.high >= candidate.high; }),
        front.end());
  }

  const SearchSpace& space_;
  const TimedDevice& device_;
  const Job& job_;
  Capacity capacity_;
  CandidateOutside outside_;
  bool timed_ = false;  ///< whether such steps have a time
  /// Batch choices by data-parallel and context ranks.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<BatchChoice>> batches_;
  std::int64_t least_micro_batches_ = 1;
  bool followed_ = false;          ///< whether the layout's candidates are
  StageSplit split_{1};            ///< of the layout that is tried
  std::int64_t forms_number_ = 0;  ///< of its forms
  std::int64_t times_number_ = 0;  ///< of how its ranks share layers
  std::map<LayoutForms::FormsKey, std::int64_t> forms_numbers_;
  std::map<LayerDivision, std::int64_t> times_numbers_;
  std::map<LocalKey, RankForms> forms_;
  std::map<LocalKey, RankForms> floors_;
  std::vector<Evaluated> hopeless_;  ///< by their states alone
  std::map<TimeKey, const PricedModel*> models_;
  std::vector<Evaluated> fastest_;  ///< of those admitted
  /// Candidates that fit, or are too close to call: by time, each later one with less memory.
  std::vector<Evaluated> fitting_;
  std::vector<Evaluated> close_;
  std::array<std::optional<HostNeed>, 2> hosts_;  ///< of the layout; by whether there are several
                                                  ///< micro-steps
  std::size_t too_large_ = 0;
  std::size_t too_large_for_host_ = 0;
  std::size_t too_close_ = 0;
  Group group_;
};

}  // namespace

Group search_group(const SearchSpace& space, const TimedDevice& device, std::int64_t gpus) {
  return GroupSearch(space, device, gpus).answer();
}

}  // namespace memest
