#include "memest/plan/lock.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <variant>

#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

LockedSpec locked(const std::string& text) {
  const Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"a.yaml", text}));
  REQUIRE(job.ok());
  LockedSpec spec;
  put_figures(estimate_job(job.value()), spec);
  return spec;
}

LockedValue figure(const LockedSpec& spec, const std::string& name) {
  for (const LockedFigure& row : spec.figures) {
    if (row.name == name) return row.value;
  }
  FAIL("no figure " << name);
  return {};
}

std::string names(const std::vector<MovedFigure>& figures) {
  std::string text;
  for (const MovedFigure& row : figures) text += (text.empty() ? "" : ", ") + row.name;
  return text;
}

LockedSpec with_figures(std::vector<LockedFigure> figures) {
  LockedSpec spec;
  spec.figures = std::move(figures);
  return spec;
}

Bytes bytes(std::int64_t count) { return Bytes(count); }

}  // namespace

TEST_CASE("the figures of a lock are those of the estimate") {
  const std::string text = "model: gpt2\ntraining: {seq_len: 128}\nhardware: {gpu: l4}\n";
  const LockedSpec spec = locked(text);
  const Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"a.yaml", text}));
  const JobEstimate estimate = estimate_job(job.value());
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  CHECK(figure(spec, "parameters") == LockedValue(std::int64_t{124'439'808}));
  CHECK(figure(spec, "device") == LockedValue(memory.device()));
  CHECK(figure(spec, "reserved") == LockedValue(*memory.reserved()));
  CHECK(figure(spec, "allocated") == LockedValue(memory.allocated()));
  const auto& flops = std::get<FlopsEstimate>(estimate.flops);
  CHECK(figure(spec, "backward") == LockedValue(flops.backward));
  const double step = std::get<TimeEstimate>(estimate.time).step.value();
  CHECK(as_double(figure(spec, "step")) == Catch::Approx(step).epsilon(1e-5));
  double sum = 0;
  for (const LockedFigure& term : spec.terms) sum += as_double(term.value);
  Bytes terms;
  for (const Term& term : memory.estimate.terms) terms += term.value;
  CHECK(sum == terms.as_double());
}

TEST_CASE("the same spec has the same figures, and nothing moves") {
  const std::string text = "model: gpt2\ntraining: {seq_len: 128}\n";
  CHECK_FALSE(moves_between(locked(text), locked(text), 0).any());
}

TEST_CASE("a larger micro-batch moves the memory by its terms, the largest first") {
  const std::string head =
      "model: gpt2\nhardware: {gpu: l4}\ntraining: {seq_len: 128, micro_batch: ";
  const SpecMoves moves = moves_between(locked(head + "1}\n"), locked(head + "8}\n"), 0.01);
  const MovedFigure* headline = headline_of(moves);
  REQUIRE(headline != nullptr);
  CHECK(headline->name == "device");
  CHECK(headline->difference() > 0);
  REQUIRE(moves.terms.size() > 2);
  for (std::size_t i = 1; i < moves.terms.size(); ++i) {
    CHECK(std::abs(moves.terms[i - 1].difference()) >= std::abs(moves.terms[i].difference()));
  }
}

TEST_CASE("whole figures move by one, decimal ones beyond the tolerance") {
  const LockedSpec before = with_figures({{"device", bytes(1000)},
                                          {"forward", Flops(1000)},
                                          {"step", Seconds(100.0)},
                                          {"cost per hour", Dollars(10.0)}});
  const LockedSpec near = with_figures({{"device", bytes(1001)},
                                        {"forward", Flops(999)},
                                        {"step", Seconds(101.0)},
                                        {"cost per hour", Dollars(9.9)}});
  CHECK(names(moves_between(before, near, 0.01).figures) == "device, forward");
  CHECK(names(moves_between(before, near, 0.001).figures) ==
        "device, forward, step, cost per hour");
  const SpecMoves moves = moves_between(before, near, 0.001);
  CHECK(moves.figures[0].difference() == 1);
  CHECK(moves.figures[1].difference() == -1);
  CHECK(moves.figures[3].difference() == Catch::Approx(-0.1));
}

TEST_CASE("a figure of one side alone has moved") {
  const LockedSpec before = with_figures({{"device", bytes(7)}, {"step", Seconds(1.0)}});
  const LockedSpec after = with_figures({{"device", bytes(7)}, {"host", bytes(5)}});
  const SpecMoves moves = moves_between(before, after, 0.01);
  REQUIRE(names(moves.figures) == "host, step");
  CHECK_FALSE(moves.figures[0].locked.has_value());
  CHECK(moves.figures[0].difference() == 5);
  CHECK_FALSE(moves.figures[1].now.has_value());
  CHECK(headline_of(moves)->name == "host");
}

TEST_CASE("keys changed, came and went, each with a place in the spec as it is") {
  const auto source = std::make_shared<const SourceText>(SourceText{"a.yaml", ""});
  const auto at = [&](std::int32_t line) { return SourceSpan{source, line, 3, 1}; };
  LockedSpec before;
  before.keys = {{"model", "gpt2", {}},
                 {"training.seq_len", "128", {}},
                 {"training.data.workers", "8", {}},
                 {"budget.memory", "1 GiB", {}}};
  LockedSpec after;
  after.keys = {{"model", "gpt2", at(1)},
                {"training.seq_len", "256", at(3)},
                {"training.micro_batch", "2", at(4)}};
  std::string text;
  for (const ChangedKey& key : moves_between(before, after, 0).keys) {
    text += key.key + ": " + key.locked.value_or("-") + " " + key.now.value_or("-") + " @" +
            std::to_string(key.span.line) + "\n";
  }
  CHECK(text ==
        "training.seq_len: 128 256 @3\n"
        "training.micro_batch: - 2 @4\n"
        "training.data.workers: 8 - @3\n"
        "budget.memory: 1 GiB - @1\n");
}

TEST_CASE("other digests are told by name") {
  LockedSpec before;
  before.rests_on = {{"memest", "0.1.0"}, {"gpu l4", "00000000"}, {"preset gpt2", "1"}};
  LockedSpec after;
  after.rests_on = {{"memest", "0.2.0"}, {"gpu l4", "00000000"}, {"recipe mixed", "2"}};
  CHECK(moves_between(before, after, 0).rests_on ==
        std::vector<std::string>{"memest", "recipe mixed", "preset gpt2"});
  CHECK_FALSE(moves_between(before, after, 0).any());
}

}  // namespace memest
