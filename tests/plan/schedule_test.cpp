#include "memest/plan/schedule.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/reader/embedded_configs.hpp"

namespace memest {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using test::memory_of;

/// From 0 on, less than `count`.
std::uint32_t drawn(std::mt19937& random, std::uint32_t count) {
  return static_cast<std::uint32_t>(random() % count);
}

/// One operation of a chain: it makes its answer, and what its own backward reads alone.
struct Link {
  std::int64_t bytes = 1;  ///< of the answer, which the next one reads and saves
  std::int64_t own = 1;    ///< none where zero
  double forward = 1;
  double backward = 2;
};

std::uint32_t add_tensor(ScheduledStep& step, std::int64_t bytes, std::uint32_t maker) {
  const auto tensor = static_cast<std::uint32_t>(step.step.tensors.size());
  step.step.tensors.push_back({bytes, maker, 0, {maker}, {}, {}});
  step.step.ops[maker].makes.push_back(tensor);
  step.out.push_back(static_cast<double>(bytes));
  step.in.push_back(static_cast<double>(bytes));
  return tensor;
}

void read_and_save(ScheduledStep& step, std::uint32_t tensor, std::uint32_t op) {
  step.step.ops[op].reads.push_back(tensor);
  step.step.tensors[tensor].readers.push_back(op);
  step.step.ops[op].saves.push_back(tensor);
  step.step.tensors[tensor].savers.push_back(op);
}

ScheduledStep chain_step(const std::vector<Link>& links) {
  ScheduledStep step;
  std::uint32_t input = 0;
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    StepOp& op = step.step.ops.emplace_back();
    op.instance = i;
    op.in_layer = true;
    if (i > 0) read_and_save(step, input, i);
    input = add_tensor(step, links[i].bytes, i);
    if (links[i].own > 0) {
      const std::uint32_t own = add_tensor(step, links[i].own, i);
      step.step.ops[i].saves.push_back(own);
      step.step.tensors[own].savers.push_back(i);
    }
    step.forward.push_back(links[i].forward);
    step.backward.push_back(links[i].backward);
  }
  return step;
}

std::vector<Link> drawn_links(std::mt19937& random, std::size_t count) {
  std::vector<Link> links(count);
  for (Link& link : links) {
    link.bytes = 1 + drawn(random, 4);
    link.forward = 1 + drawn(random, 5);
    link.backward = 1 + drawn(random, 5);
    link.own = drawn(random, 4);
  }
  return links;
}

Played played_of(const ScheduledStep& step, const std::vector<Action>& actions) {
  const auto played = play(step, actions);
  if (const auto* wrong = std::get_if<WrongAction>(&played)) {
    FAIL("action " << wrong->action << ": " << wrong->reason);
  }
  return std::get<Played>(played);
}

double seconds_alone(const ScheduledStep& step) {
  double seconds = 0;
  for (const double one : step.forward) seconds += one;
  for (const double one : step.backward) seconds += one;
  return seconds;
}

std::int64_t count_of(const std::vector<Action>& actions, ActionKind kind) {
  return std::count_if(actions.begin(), actions.end(),
                       [&](const Action& action) { return action.kind == kind; });
}

/// The least seconds of any order of forwards, drops and backwards within the budget whose
/// checkpoints stay until they are read: a shortest path over what is on the device, what of it is
/// to stay, how far the forward is, and which backward is next.
class ShortestPath {
 public:
  ShortestPath(const ScheduledStep& step, std::int64_t budget) : step_(step), budget_(budget) {}

  double find() {
    reach(0, {0, 0, 0, count()});
    while (!open_.empty()) {
      const auto [seconds, state] = open_.top();
      open_.pop();
      if (known_[state] < seconds) continue;
      if (state.back == 0) return seconds;
      drop(seconds, state);
      for (std::uint32_t op = 0; op <= state.forward && op < count(); ++op) {
        run(seconds, state, op);
      }
      const bool is_over = state.forward == count();
      if (is_over && has(state.device, step_.step.ops[state.back - 1].saves)) {
        reach(seconds + step_.backward[state.back - 1],
              {state.device, state.stays, state.forward, state.back - 1});
      }
    }
    return std::numeric_limits<double>::infinity();
  }

 private:
  struct State {
    std::uint32_t device = 0;  ///< a bit a tensor
    std::uint32_t stays = 0;
    std::uint32_t forward = 0;
    std::uint32_t back = 0;
    auto operator<=>(const State&) const = default;
  };
  using Entry = std::pair<double, State>;

  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(step_.step.ops.size());
  }

  void drop(double seconds, const State& state) {
    for (std::uint32_t i = 0; i < step_.step.tensors.size(); ++i) {
      const auto& savers = step_.step.tensors[i].savers;
      const bool is_read = savers.empty() || savers.front() >= state.back;
      const std::uint32_t bit = 1U << i;
      if ((state.device & bit) == 0 || ((state.stays & bit) != 0 && !is_read)) continue;
      reach(seconds, {state.device & ~bit, state.stays & ~bit, state.forward, state.back});
    }
  }

  /// Keeping all that the operation's backward reads, its input alone, or nothing.
  void run(double seconds, const State& state, std::uint32_t op) {
    const StepOp& ran = step_.step.ops[op];
    const std::uint32_t device = state.device | bits_of(ran.makes);
    if (!has(state.device, ran.reads) || bytes_of(device) > budget_) return;
    const std::uint32_t own = bits_of(ran.saves) & bits_of(ran.makes);
    const double after = seconds + step_.forward[op];
    const std::uint32_t forward = std::max(state.forward, op + 1);
    const std::uint32_t input = bits_of(ran.reads);
    reach(after, {device, state.stays | input | own, forward, state.back});
    reach(after, {device & ~own, (state.stays | input) & ~own, forward, state.back});
    const std::uint32_t dropped = own | (input & ~state.stays);
    reach(after, {device & ~dropped, state.stays & ~own, forward, state.back});
  }

  static std::uint32_t bits_of(const std::vector<std::uint32_t>& tensors) {
    std::uint32_t bits = 0;
    for (const std::uint32_t tensor : tensors) bits |= 1U << tensor;
    return bits;
  }
  static bool has(std::uint32_t set, const std::vector<std::uint32_t>& tensors) {
    return (set & bits_of(tensors)) == bits_of(tensors);
  }
  [[nodiscard]] std::int64_t bytes_of(std::uint32_t set) const {
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i < step_.step.tensors.size(); ++i) {
      if ((set >> i & 1U) != 0) bytes += step_.step.tensors[i].bytes;
    }
    return bytes;
  }
  void reach(double seconds, const State& state) {
    const auto found = known_.find(state);
    if (found != known_.end() && found->second <= seconds) return;
    known_[state] = seconds;
    open_.push({seconds, state});
  }

  const ScheduledStep& step_;
  std::int64_t budget_;
  std::map<State, double> known_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

TEST_CASE("A chain's schemes keep and compute what their closed forms say") {
  for (const std::size_t count : {1U, 2U, 5U, 16U, 25U, 64U}) {
    CAPTURE(count);
    const ScheduledStep step = chain_step(std::vector<Link>(count));
    const std::vector<ChainStage> chain = chain_of(step.step);
    REQUIRE(chain.size() == count);
    const auto stages = static_cast<std::int64_t>(count);

    const std::vector<Action> all = keep_all(step);
    CHECK(count_of(all, ActionKind::forward) == stages);
    CHECK(played_of(step, all).peak == 2 * stages);  // O(L)

    const std::vector<Action> nothing = keep_nothing(step, chain);
    CHECK(count_of(nothing, ActionKind::forward) == stages * (stages + 1) / 2);  // O(L²)
    CHECK(played_of(step, nothing).peak <= 4);                                   // O(1)

    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    const std::int64_t together = (stages + root - 1) / root;
    const std::int64_t groups = (stages + together - 1) / together;
    const std::int64_t last = stages - (groups - 1) * together;
    const std::vector<Action> sqrt =
        checkpoint_groups(step, chain, static_cast<std::size_t>(together));
    CHECK(count_of(sqrt, ActionKind::forward) == 2 * stages - last);  // the last group stays
    CHECK(played_of(step, sqrt).peak <= groups + 2 * together + 1);   // O(√L)
    CHECK(played_of(step, sqrt).recomputed == static_cast<double>(stages - last));

    const std::vector<Action> again = checkpoint_groups(
        step, chain, static_cast<std::size_t>(together), Retention::memory_centric);
    // A group of j runs once, and then for each of its stages up to there.
    CHECK(count_of(again, ActionKind::forward) ==
          (groups - 1) * (together + together * (together + 1) / 2) + last * (last + 1) / 2);
    CHECK(played_of(step, again).peak <= groups + 4);
  }
}

TEST_CASE("A recomputed tensor stays by cost where its group fits beside the largest stage") {
  // Groups of two: the first keeps 4 bytes, the second 10, and the largest stage 8.
  std::vector<Link> links(6);
  links[2].bytes = 7;
  const ScheduledStep step = chain_step(links);
  const std::vector<ChainStage> chain = chain_of(step.step);
  const auto forwards = [&](Retention retention) {
    return count_of(checkpoint_groups(step, chain, 2, retention), ActionKind::forward);
  };
  CHECK(forwards(Retention::speed_centric) == 6 + 4);
  CHECK(forwards(Retention::memory_centric) == 6 + 3 + 3 + 1);
  CHECK(forwards(Retention::cost_aware) == 6 + 2 + 3);
}

TEST_CASE(
    "The dynamic program is as fast as the best schedule whose checkpoints stay until they are "
    "read") {
  std::mt19937 random(17);
  std::size_t solved = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const ScheduledStep step = chain_step(drawn_links(random, 2 + drawn(random, 4)));
    const std::int64_t most = played_of(step, keep_all(step)).peak;
    const std::int64_t budget = 1 + drawn(random, static_cast<std::uint32_t>(most));
    const double best = ShortestPath(step, budget).find();
    const auto actions = least_time(step, chain_of(step.step), budget, budget);
    CAPTURE(draw, budget, best);
    REQUIRE(actions.has_value() == std::isfinite(best));
    if (!actions) continue;
    ++solved;
    const Played played = played_of(step, *actions);
    CHECK(played.peak <= budget);
    CHECK(played.seconds == best);
  }
  CHECK(solved > 100);
}

/// A step whose operations read and save any earlier tensors.
ScheduledStep drawn_step(std::mt19937& random, std::uint32_t count) {
  ScheduledStep step = chain_step(drawn_links(random, count));
  for (std::uint32_t i = 2; i < count; ++i) {
    StepOp& op = step.step.ops[i];
    const std::uint32_t other = step.step.ops[drawn(random, i - 1)].makes.front();
    op.reads.push_back(other);
    step.step.tensors[other].readers.push_back(i);
    if (drawn(random, 2) == 0) {
      op.saves.push_back(other);
      step.step.tensors[other].savers.push_back(i);
    }
    op.op_class = drawn(random, 2) == 0 ? OpClass::contraction : OpClass::normalization;
    op.backward.most = drawn(random, 3);
  }
  for (StepTensor& tensor : step.step.tensors) {
    tensor.bytes *= 4096;  // above what is not worth a copy
    std::ranges::sort(tensor.readers);
    std::ranges::sort(tensor.savers);
  }
  return step;
}

std::vector<Fate> drawn_fates(std::mt19937& random, const ScheduledStep& step) {
  std::vector<Fate> fates(step.step.tensors.size());
  for (Fate& fate : fates) fate = drawn(random, 2) == 0 ? Fate::swap : Fate::keep;
  return fates;
}

TEST_CASE("A swapped tensor is back before it is read, and what waits is the time that is added") {
  std::mt19937 random(18);
  for (int draw = 0; draw < 300; ++draw) {
    CAPTURE(draw);
    const ScheduledStep step = drawn_step(random, 3 + drawn(random, 20));
    const std::int64_t budget = 4096 * (1 + drawn(random, 60));
    const std::vector<Fate> fates = drawn_fates(random, step);
    std::vector<Action> actions = by_fates(step, fates, budget);
    const Played played = played_of(step, actions);
    CHECK_THAT(played.seconds, WithinRel(seconds_alone(step) + played.waited, 1e-12));
    CHECK(played.recomputed == 0);
    std::int64_t moved = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::copy_out) moved += step.step.tensors[action.index].bytes;
    }
    CHECK(played.copied == moved);
    // Each copy back is there for a backward: without it the schedule cannot be played.
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != ActionKind::copy_in) continue;
      std::vector<Action> without = actions;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(std::holds_alternative<WrongAction>(play(step, without)));
    }
  }
}

TEST_CASE("A copy that the passes hide costs nothing, and one that they do not is waited for") {
  std::vector<Link> links(8);
  for (Link& link : links) {
    link.bytes = 4096;
    link.own = 0;
    link.forward = 10;
    link.backward = 10;
  }
  ScheduledStep step = chain_step(links);
  std::vector<Fate> fates(step.step.tensors.size(), Fate::swap);
  const auto waited_with = [&](double seconds) {
    std::ranges::fill(step.out, seconds);
    std::ranges::fill(step.in, seconds);
    return played_of(step, by_fates(step, fates, 4 * 4096)).waited;
  };
  CHECK(waited_with(5) == 0);
  CHECK(waited_with(50) > 50);
}

Job preset(const std::string& name, const std::vector<std::string>& sets = {}) {
  ReadRequest request{{name}};
  for (const std::string& set : sets) request.overrides.push_back({"--set", set});
  return read_job(request).value();
}

const ScheduleRow& row_of(const ScheduleAnswer& answer, std::string_view name) {
  const auto row = std::ranges::find(answer.rows, name, &ScheduleRow::name);
  REQUIRE(row != answer.rows.end());
  return *row;
}

TEST_CASE("Pages that are touched are waited for, and those that are fetched ahead may not be") {
  std::vector<Link> links(8);
  for (Link& link : links) link = {.bytes = 4096, .own = 0, .forward = 10, .backward = 10};
  ScheduledStep step = chain_step(links);
  std::ranges::fill(step.out, 1);
  std::ranges::fill(step.in, 3);
  const std::int64_t budget = 4 * 4096;
  const std::vector<Action> demanded = page_under_pressure(step, budget, Paging::on_demand);
  const std::int64_t back = count_of(demanded, ActionKind::copy_in);
  CHECK(back > 0);
  // A page that leaves is waited for, and one that comes back.
  CHECK(played_of(step, demanded).waited == 4.0 * static_cast<double>(back));
  const Played ahead = played_of(step, page_under_pressure(step, budget, Paging::prefetched));
  CHECK(ahead.waited < played_of(step, demanded).waited);
  CHECK(ahead.peak <= budget);
}

TEST_CASE("Unified memory has rows where the GPU's profile knows how fast pages come") {
  Job job = preset("gpt2", {"training.micro_batch=16", "hardware.memory=14GiB"});
  const auto rows_of = [](const Job& of) {
    std::vector<std::string> names;
    const auto answer = std::get<ScheduleAnswer>(schedules_of(of));
    for (const ScheduleRow& row : answer.rows) {
      if (row.name.starts_with("unified memory")) names.push_back(row.name);
    }
    return names;
  };
  CHECK(rows_of(job).empty());
  GpuProfile profile = *job.hardware.gpu.profile;
  TransferFit migration;
  migration.kind = TransferPath::managed_migration;
  migration.law = {.latency = 20e-6, .bandwidth = 5e9};
  profile.transfers.push_back(migration);
  job.hardware.gpu.profile = std::make_shared<const GpuProfile>(profile);
  CHECK(rows_of(job) == std::vector<std::string>{"unified memory, on demand",
                                                 "unified memory, prefetched",
                                                 "unified memory, states at home on the host"});
  const auto answer = std::get<ScheduleAnswer>(schedules_of(job));
  const ScheduleRow& demanded = row_of(answer, "unified memory, on demand");
  CHECK(demanded.fits);
  const double least = static_cast<double>(demanded.played.copied) / 5e9;
  CHECK(demanded.played.waited >= least);
  // AdamW's two moments in fp32, which leave before any activation does.
  CHECK(answer.states.value() >= 2 * 4 * count_parameters(job.model).total);
  CHECK(demanded.paged_states == answer.states);
  const ScheduleRow& ahead = row_of(answer, "unified memory, prefetched");
  CHECK(ahead.paged_states == answer.states);
  CHECK(ahead.step < demanded.step);
}

TEST_CASE("Of unified memory no more pages leave than do not fit") {
  Job job = preset("gpt2", {"training.micro_batch=16"});
  GpuProfile profile = *job.hardware.gpu.profile;
  TransferFit migration;
  migration.kind = TransferPath::managed_migration;
  migration.law = {.latency = 20e-6, .bandwidth = 5e9};
  profile.transfers.push_back(migration);
  job.hardware.gpu.profile = std::make_shared<const GpuProfile>(profile);
  const auto with_memory = [&](std::int64_t bytes) {
    job.hardware.memory = Bytes(bytes);
    return std::get<ScheduleAnswer>(schedules_of(job));
  };
  const ScheduleAnswer roomy = with_memory(std::int64_t{60} << 30);
  const ScheduleRow& whole = row_of(roomy, "keep all");
  const ScheduleRow& calm = row_of(roomy, "unified memory, on demand");
  CHECK(calm.paged_states == Bytes(0));
  CHECK(calm.step == whole.step);
  const ScheduleRow& advised = row_of(roomy, "unified memory, states at home on the host");
  CHECK(advised.paged_states == roomy.states);
  CHECK(advised.step > whole.step);
  CHECK(advised.peak < whole.peak);
  // A little less than it takes: a part of the states, and no activation.
  const std::int64_t short_by = std::int64_t{100} << 20;
  const ScheduleAnswer pressed = with_memory(whole.played.peak - short_by);
  const ScheduleRow& some = row_of(pressed, "unified memory, on demand");
  CHECK(some.paged_states.value() == whole.played.peak - pressed.budget.value());
  CHECK(some.played.copied == 0);
  CHECK(some.fits);
  CHECK(some.step.value() >= whole.step.value() + static_cast<double>(short_by) / 5e9);
}

TEST_CASE("A tensor that is recomputed is recomputed from what is there") {
  std::mt19937 random(19);
  for (int draw = 0; draw < 300; ++draw) {
    CAPTURE(draw);
    const ScheduledStep step = drawn_step(random, 3 + drawn(random, 20));
    const std::vector<Fate> fates = recompute_cheap(step);
    const Played played = played_of(step, by_fates(step, fates, 1 << 30));
    CHECK_THAT(played.seconds, WithinRel(seconds_alone(step) + played.recomputed, 1e-12));
    CHECK(played.copied == 0);
    for (std::uint32_t i = 0; i < fates.size(); ++i) {
      if (fates[i] == Fate::recompute) CHECK(can_recompute(step.step, i));
    }
  }
}

TEST_CASE("What is cheapest for each tensor is no slower than any single rule in the budget") {
  std::mt19937 random(20);
  std::size_t met = 0;
  std::size_t best_of_all = 0;
  for (int draw = 0; draw < 60; ++draw) {
    const ScheduledStep step = drawn_step(random, 3 + drawn(random, 2));
    const std::int64_t most = played_of(step, keep_all(step)).peak;
    const std::int64_t budget = most / 2 + drawn(random, static_cast<std::uint32_t>(most / 2));
    const auto played_as = [&](const std::vector<Fate>& fates) {
      return played_of(step, by_fates(step, fates, budget));
    };
    const Played chosen = played_as(least_cost_fates(step, budget));
    CAPTURE(draw, budget, chosen.peak, chosen.seconds);
    for (const std::vector<Fate>& fates :
         {swap_long_edges(step, budget), swap_around_peak(step, budget), recompute_cheap(step),
          swap_contractions_recompute_rest(step)}) {
      const Played rule = played_as(fates);
      if (rule.peak > budget) continue;
      CHECK(chosen.peak <= budget);
      CHECK(chosen.seconds <= rule.seconds);
    }
    if (chosen.peak > budget) continue;
    ++met;
    // Against every choice that moves or keeps: three fates would need the check that each can be
    // made again.
    double least = chosen.seconds;
    const auto count = static_cast<std::uint32_t>(step.step.tensors.size());
    for (std::uint32_t set = 0; set < 1U << count; ++set) {
      std::vector<Fate> fates(count, Fate::keep);
      for (std::uint32_t i = 0; i < count; ++i) {
        if ((set >> i & 1U) != 0) fates[i] = Fate::swap;
      }
      const Played played = played_as(fates);
      if (played.peak <= budget) least = std::min(least, played.seconds);
    }
    if (chosen.seconds <= least) ++best_of_all;
  }
  CAPTURE(met, best_of_all);
  CHECK(met >= 30);
  CHECK(10 * best_of_all >= 9 * met);
}

TEST_CASE("An action that cannot be done is named") {
  const ScheduledStep step = chain_step(std::vector<Link>(3));
  const auto reason_of = [&](const std::vector<Action>& actions) {
    const auto played = play(step, actions);
    const auto* wrong = std::get_if<WrongAction>(&played);
    return wrong == nullptr ? std::string() : wrong->reason;
  };
  using enum ActionKind;
  CHECK(reason_of({{forward, 1}}) == "an earlier operation has not run");
  CHECK(reason_of({{forward, 0}, {drop, 0}, {forward, 1}}) == "its input is not on the device");
  CHECK(reason_of({{forward, 0}, {backward, 2}}) == "the forward is not over");
  CHECK(reason_of({{copy_out, 0}}) == "it is not on the device");
  CHECK(reason_of({{forward, 0}, {copy_in, 0}}) == "it is not on the host");
  CHECK(reason_of({{forward, 0}, {forward, 1}, {forward, 2}, {backward, 0}}) ==
        "backwards run in reverse");
  CHECK(reason_of({{forward, 0}, {forward, 1}, {forward, 2}, {drop, 2}, {backward, 2}}) ==
        "what it saved is not on the device");
  CHECK(reason_of({{forward, 0}, {forward, 1}, {forward, 2}, {backward, 2}}) ==
        "a backward is missing");
}

TEST_CASE("Keeping all of a preset is its estimate, and checkpoints are near PyTorch's replay") {
  std::size_t answered = 0;
  for (const EmbeddedFile& file : embedded_configs()) {
    const std::string_view folder = "models/";
    const std::string_view ending = ".yaml";
    if (!file.path.starts_with(folder)) continue;
    std::string name(file.path.substr(folder.size()));
    name.resize(name.size() - ending.size());
    const Job job = preset(name);
    if (!job.training) continue;
    const auto schedules = schedules_of(job);
    const auto* answer = std::get_if<ScheduleAnswer>(&schedules);
    if (answer == nullptr) continue;
    ++answered;
    CAPTURE(file.path);
    Job kept = job;
    kept.training->recompute = NoRecompute{};
    CHECK(answer->rows.front().peak.value() == memory_of(estimate_job(kept)).allocated().value());
    for (const ScheduleRow& row : answer->rows) {
      CAPTURE(row.name);
      if (row.fits) CHECK(row.peak <= answer->budget);
      if (!row.replayed) continue;
      // A checkpoint's second forward ends behind what it saves last, and a chain's stage runs to
      // its end.
      const double over =
          static_cast<double>(row.peak.value()) / static_cast<double>(row.replayed->value());
      CHECK_THAT(over, WithinAbs(1, 0.03));
    }
  }
  CHECK(answered >= 90);
}

TEST_CASE("ResNet-50's activations go down four times by what is computed again") {
  const auto kept = std::get<ScheduleAnswer>(schedules_of(preset("resnet-50")));
  std::int64_t saved = 0;
  for (const StepTensor& tensor : kept.scheduled.step.tensors) {
    if (!tensor.savers.empty()) saved += tensor.bytes;
  }
  const std::int64_t budget = kept.rows.front().peak.value() - 3 * saved / 4;
  const std::string memory = "hardware.memory=" + std::to_string(budget) + "B";
  const auto answer = std::get<ScheduleAnswer>(schedules_of(preset("resnet-50", {memory})));
  CAPTURE(saved, budget);
  const ScheduleRow& least = row_of(answer, "recompute, least time in the budget");
  CHECK(least.fits);
  CHECK(least.step / answer.step < 1.5);
  CHECK(row_of(answer, "keep, swap or recompute").fits);
}

}  // namespace
}  // namespace memest
