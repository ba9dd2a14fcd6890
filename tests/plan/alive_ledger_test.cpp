// The terms of a replayed estimate against the timeline that they are read off.
#include "memest/memory/alive_ledger.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "drawn_jobs.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

/// Bytes that the timeline's program has asked for and not given back, behind `event`.
Bytes asked_for(const Timeline& timeline, std::uint32_t event) {
  Bytes asked;
  for (std::uint32_t i = 0; i <= event; ++i) {
    const Bytes bytes(timeline.storages[timeline.events[i].storage].bytes);
    timeline.events[i].kind == EventKind::allocate ? asked += bytes : asked -= bytes;
  }
  return asked;
}

bool is_outside(const Ledger& ledger, std::uint16_t term) {
  const auto& outside = ledger.outside_allocator;
  return std::find(outside.begin(), outside.end(), term) != outside.end();
}

/// False where nothing is replayed.
bool check_sum(const MemoryAnswer& answer) {
  const ReplayedSteps* steps = answer.replayed();
  if (steps == nullptr) return false;
  Bytes within;
  Bytes rounded;
  std::set<std::pair<TermGroup, std::string>> names;
  for (const Term& term : answer.estimate.terms) {
    const LedgerTerm& meaning = answer.ledger.terms[term.index];
    INFO(meaning.name << ": " << meaning.formula.text());
    CHECK(names.insert({meaning.group, meaning.name}).second);
    CHECK(term.value > Bytes());
    CHECK(term.value == meaning.formula.bytes(answer.ledger.bindings));
    if (is_outside(answer.ledger, term.index)) continue;
    within += term.value;
    if (meaning.name == "blocks beyond what was asked for") rounded = term.value;
  }
  CHECK(within == answer.allocated());
  CHECK(within - rounded == asked_for(steps->step.timeline, steps->unpressed().peak.event));
  CHECK(answer.moments.front().allocated == answer.allocated());
  CHECK(answer.moments.front().name == moment_of_event(steps->step, steps->unpressed().peak.event));
  return true;
}

/// The other answer's term of the group and the name.
const LedgerTerm* term_like(const MemoryAnswer& answer, const LedgerTerm& like) {
  for (const Term& term : answer.estimate.terms) {
    const LedgerTerm& meaning = answer.ledger.terms[term.index];
    if (meaning.group == like.group && meaning.name == like.name) return &meaning;
  }
  return nullptr;
}

using AliveTensor = std::tuple<Origin, std::uint32_t, std::uint16_t, std::uint16_t>;

/// What is alive at the peak, by its label.
std::vector<AliveTensor> alive_in(const ReplayedSteps& steps) {
  std::vector<AliveTensor> labels;
  for (const AliveStorage& alive : steps.unpressed().peak.alive) {
    const Label& label = steps.step.timeline.storages[alive.storage].label;
    labels.emplace_back(label.origin, label.place, label.op, label.tensor);
  }
  std::sort(labels.begin(), labels.end());
  return labels;
}

/// How many formulas with b in them the answer for another micro-batch confirms.
int check_formulas(const MemoryAnswer& answer, const MemoryAnswer& other, const Job& job) {
  if (answer.moments.front().name != other.moments.front().name) return 0;
  if (alive_in(*answer.replayed()) != alive_in(*other.replayed())) return 0;
  // One sequence is lowered in its own way where a kernel looks at the batch.
  if (answer.replayed()->step.graph.blocks != other.replayed()->step.graph.blocks) return 0;
  int confirmed = 0;
  const Bindings bindings =
      bindings_at(answer.ledger, job.training->micro_batch, job.training->seq_len);
  for (const Term& term : answer.estimate.terms) {
    const LedgerTerm& meaning = answer.ledger.terms[term.index];
    const LedgerTerm* same = term_like(other, meaning);
    if (same == nullptr || !meaning.formula.uses(Symbol::micro_batch)) continue;
    INFO(meaning.name << ": " << meaning.formula.text() << " and " << same->formula.text());
    CHECK(meaning.formula.bytes(bindings) == same->formula.bytes(other.ledger.bindings));
    ++confirmed;
  }
  return confirmed;
}

TEST_CASE("what is alive at a replay's peak adds up to its blocks") {
  test::DrawnJobs jobs(16);
  int checked = 0;
  for (int i = 0; i < 200; ++i) {
    const Job job = jobs.draw();
    INFO("draw " << i);
    const JobEstimate estimate = estimate_job(job);
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    if (memory == nullptr) continue;
    checked += check_sum(*memory) ? 1 : 0;
    for (const MemoryAnswer& other : estimate.other_ranks) checked += check_sum(other) ? 1 : 0;
  }
  CHECK(checked > 150);
}

TEST_CASE("a formula of what is alive says what another micro-batch takes") {
  test::DrawnJobs jobs(17);
  int confirmed = 0;
  for (int i = 0; i < 60; ++i) {
    const Job job = jobs.draw();
    Job larger = job;
    larger.training->micro_batch += 1;
    INFO("draw " << i);
    const JobEstimate estimate = estimate_job(job);
    const JobEstimate other = estimate_job(larger);
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    const auto* more = std::get_if<MemoryAnswer>(&other.memory);
    if (memory == nullptr || more == nullptr) continue;
    if (memory->replayed() == nullptr || more->replayed() == nullptr) continue;
    confirmed += check_formulas(*memory, *more, larger);
  }
  CHECK(confirmed > 100);
}

}  // namespace
}  // namespace memest
