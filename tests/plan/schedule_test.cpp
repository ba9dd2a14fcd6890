#include "memest/plan/schedule.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/reader/embedded_configs.hpp"

namespace memest {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using test::gpt2;
using test::memory_of;

/// One operation of a chain: it makes one tensor, and its backward reads some.
struct Link {
  std::int64_t bytes = 1;
  double forward = 1;
  double backward = 2;
  bool saves_input = true;
  bool saves_output = false;
};

ScheduledStep chain_step(const std::vector<Link>& links) {
  ScheduledStep step;
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    StepOp op;
    op.instance = i;
    op.in_layer = true;
    op.makes = {i};
    StepTensor made{links[i].bytes, i, 0, {i}, {}, {}};
    if (i > 0) {
      op.reads = {i - 1};
      step.step.tensors[i - 1].readers = {i};
      if (links[i].saves_input) {
        op.saves.push_back(i - 1);
        step.step.tensors[i - 1].savers.push_back(i);
      }
    }
    if (links[i].saves_output) {
      op.saves.push_back(i);
      made.savers.push_back(i);
    }
    step.step.ops.push_back(op);
    step.step.tensors.push_back(made);
    step.forward.push_back(links[i].forward);
    step.backward.push_back(links[i].backward);
    step.out.push_back(static_cast<double>(links[i].bytes));
    step.in.push_back(static_cast<double>(links[i].bytes));
  }
  return step;
}

std::vector<Link> drawn_links(std::mt19937& random, std::size_t count) {
  std::vector<Link> links(count);
  for (Link& link : links) {
    link.bytes = 1 + static_cast<std::int64_t>(random() % 4);
    link.forward = 1 + static_cast<double>(random() % 5);
    link.backward = 1 + static_cast<double>(random() % 5);
    link.saves_output = random() % 3 == 0;
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

/// The least seconds of any order of forwards, drops and backwards within the budget: a shortest
/// path over what is on the device and which backward is next.
double least_seconds(const ScheduledStep& step, std::int64_t budget) {
  const auto count = static_cast<std::uint32_t>(step.step.ops.size());
  using State = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // on device, forward, back
  using Entry = std::pair<double, State>;
  std::map<State, double> known;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const auto bytes_of = [&](std::uint32_t set) {
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if ((set >> i & 1U) != 0) bytes += step.step.tensors[i].bytes;
    }
    return bytes;
  };
  const auto reach = [&](double seconds, const State& state) {
    const auto found = known.find(state);
    if (found != known.end() && found->second <= seconds) return;
    known[state] = seconds;
    open.push({seconds, state});
  };
  reach(0, {0, 0, count});
  while (!open.empty()) {
    const auto [seconds, state] = open.top();
    open.pop();
    if (known[state] < seconds) continue;
    const auto [set, forward, back] = state;
    if (back == 0) return seconds;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t bit = 1U << i;
      if ((set & bit) != 0) {
        reach(seconds, {set & ~bit, forward, back});
        continue;
      }
      const bool has_input = i == 0 || (set >> (i - 1) & 1U) != 0;
      if (i <= forward && has_input && bytes_of(set | bit) <= budget) {
        reach(seconds + step.forward[i], {set | bit, std::max(forward, i + 1), back});
      }
    }
    const std::vector<std::uint32_t>& saves = step.step.ops[back - 1].saves;
    const bool saved = std::ranges::all_of(
        saves, [&, on = set](std::uint32_t tensor) { return (on >> tensor & 1U) != 0; });
    if (forward == count && saved && bytes_of(set) <= budget) {
      reach(seconds + step.backward[back - 1], {set, forward, back - 1});
    }
  }
  return std::numeric_limits<double>::infinity();
}

TEST_CASE("A chain's schemes keep and compute what their closed forms say") {
  for (const std::size_t count : {1U, 2U, 5U, 16U, 25U, 64U}) {
    CAPTURE(count);
    const ScheduledStep step = chain_step(std::vector<Link>(count));
    const std::vector<ChainStage> chain = chain_of(step.step);
    REQUIRE(chain.size() == count);
    const auto stages = static_cast<std::int64_t>(count);

    const std::vector<Action> all = keep_all(step);
    CHECK(count_of(all, ActionKind::forward) == stages);
    CHECK(played_of(step, all).peak == stages);  // L, and nothing is saved behind the last

    const std::vector<Action> nothing = keep_nothing(step, chain);
    CHECK(count_of(nothing, ActionKind::forward) == stages * (stages + 1) / 2);  // O(L²)
    CHECK(played_of(step, nothing).peak <= 3);                                   // O(1)

    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    const std::int64_t together = (stages + root - 1) / root;
    const std::int64_t groups = (stages + together - 1) / together;
    const std::int64_t last = stages - (groups - 1) * together;
    const std::vector<Action> sqrt =
        checkpoint_groups(step, chain, static_cast<std::size_t>(together));
    CHECK(count_of(sqrt, ActionKind::forward) == 2 * stages - last);  // the last group stays
    CHECK(played_of(step, sqrt).peak <= groups + together + 1);       // O(√L)
    CHECK(played_of(step, sqrt).recomputed == static_cast<double>(stages - last));

    const std::vector<Action> again = checkpoint_groups(
        step, chain, static_cast<std::size_t>(together), Retention::memory_centric);
    // A group of j runs once, and then for each of its stages up to there.
    CHECK(count_of(again, ActionKind::forward) ==
          (groups - 1) * (together + together * (together + 1) / 2) + last * (last + 1) / 2);
    CHECK(played_of(step, again).peak <= groups + 3);
  }
}

TEST_CASE("A recomputed tensor stays by cost where its group fits beside the largest stage") {
  // Groups of two: the first keeps 2 bytes, the second 8, and the largest stage 7.
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

TEST_CASE("The dynamic program is as fast as the best of all schedules") {
  std::mt19937 random(17);
  std::size_t solved = 0;
  std::size_t equal = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const ScheduledStep step = chain_step(drawn_links(random, 2 + random() % 5));
    const std::vector<ChainStage> chain = chain_of(step.step);
    const std::int64_t most = played_of(step, keep_all(step)).peak;
    const std::int64_t budget = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
    const double best = least_seconds(step, budget);
    const auto actions = least_time(step, chain, budget, budget);
    CAPTURE(draw, budget, best);
    if (!actions) continue;
    ++solved;
    const Played played = played_of(step, *actions);
    CHECK(played.peak <= budget);
    CHECK(played.seconds >= best);
    if (played.seconds == best) ++equal;
  }
  INFO(solved << " solved, " << equal << " equal");
  CHECK(equal == solved);
}

}  // namespace
}  // namespace memest
