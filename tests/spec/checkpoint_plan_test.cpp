#include "memest/spec/recompute/checkpoint_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <variant>
#include <vector>

namespace memest {
namespace {

constexpr std::int64_t kLayers = 14;

/// The same counts layer by layer.
void check_counts(const CheckpointPlan& plan) {
  std::int64_t again = 0;
  std::int64_t ended = 0;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    CHECK(plan.recomputed_of(layer) == again);
    again += plan.recomputes(layer) ? 1 : 0;
    ended += plan.ends_checkpoint(layer, kLayers) ? 1 : 0;
  }
  CHECK(plan.recomputed_of(kLayers) == again);
  CHECK(plan.checkpoints_of(kLayers) == ended);
}

std::vector<Recompute> policies() {
  std::vector<Recompute> all = {NoRecompute{}, FullRecompute{}, SqrtRecompute{}};
  all.emplace_back(ChosenRecompute{});
  all.emplace_back(ChosenRecompute{{0}});
  all.emplace_back(ChosenRecompute{{1, 2, 5, 13}});
  for (const std::int64_t layers : {1, 3, 4, 20}) {
    all.emplace_back(EveryRecompute{layers});
    all.emplace_back(FullRecompute{.layers = layers});
    all.emplace_back(FullRecompute{.method = RecomputeMethod::block, .layers = layers});
  }
  return all;
}

}  // namespace

TEST_CASE("a plan's counts are the sums over its layers") {
  for (const CheckpointRule rule : {CheckpointRule::torch, CheckpointRule::layers}) {
    for (const Recompute& policy : policies()) {
      const bool chosen = std::holds_alternative<ChosenRecompute>(policy);
      if (chosen && rule == CheckpointRule::layers) continue;  // torchtitan names no single layers
      INFO(text_of(policy));
      check_counts(checkpoint_plan_of(policy, rule, kLayers));
    }
  }
}

TEST_CASE("every fourth layer is one of four in torchtitan, elsewhere four share a checkpoint") {
  const CheckpointPlan one_of =
      checkpoint_plan_of(EveryRecompute{4}, CheckpointRule::layers, kLayers);
  CHECK(one_of.recomputed_of(kLayers) == 3);
  CHECK(one_of.checkpoints_of(kLayers) == 3);
  CHECK(one_of.recomputes(3));
  CHECK_FALSE(one_of.recomputes(4));
  const CheckpointPlan shared =
      checkpoint_plan_of(EveryRecompute{4}, CheckpointRule::torch, kLayers);
  CHECK(shared.recomputed_of(kLayers) == kLayers);
  CHECK(shared.checkpoints_of(kLayers) == 4);
}

TEST_CASE("recompute by block takes the first layers of a stage, and no more than it has") {
  const CheckpointPlan plan =
      checkpoint_plan_of(FullRecompute{.method = RecomputeMethod::block, .layers = 3},
                         CheckpointRule::megatron, kLayers);
  CHECK(plan.recomputed_of(kLayers) == 3);
  CHECK(plan.recomputed_of(2) == 2);
  CHECK(plan.recomputes(2));
  CHECK_FALSE(plan.recomputes(3));
}

TEST_CASE("chosen layers are recomputed each in a checkpoint of its own") {
  const CheckpointPlan plan =
      checkpoint_plan_of(ChosenRecompute{{1, 2, 5}}, CheckpointRule::torch, kLayers);
  CHECK(plan.recomputed_of(kLayers) == 3);
  CHECK(plan.checkpoints_of(3) == 2);
  CHECK(plan.recomputes(5));
  CHECK_FALSE(plan.recomputes(0));
  CHECK_FALSE(plan.recomputes(13));
}

TEST_CASE("selective recompute of a list of layers is a checkpoint around each") {
  TrainingSpec training;
  training.recompute = SelectiveRecompute{};
  training.implementation = row_of(Framework::plain).own;
  const CheckpointPlan plan = checkpoint_plan_of(training, kLayers);
  CHECK(plan.selects);
  CHECK(plan.stops_early);
  CHECK(plan.recomputed_of(kLayers) == kLayers);
  CHECK_FALSE(plan.parts);
}

TEST_CASE("a reentrant checkpoint holds its answer and stops at its end") {
  TrainingSpec training;
  training.implementation = row_of(Framework::transformers).own;
  for (const bool reentrant : {false, true}) {
    training.recompute = FullRecompute{.reentrant = reentrant};
    const CheckpointPlan plan = checkpoint_plan_of(training, kLayers);
    CHECK(plan.holds_answer == reentrant);
    CHECK(plan.stops_early == !reentrant);
  }
  training.implementation = row_of(Framework::megatron).own;
  training.recompute = FullRecompute{};
  CHECK(checkpoint_plan_of(training, kLayers).holds_answer);
}

TEST_CASE("a compiled layer runs again to its end, but where its checkpoint is compiled with it") {
  TrainingSpec training;
  training.recompute = FullRecompute{};
  const auto to_end = [&](Framework framework, CompileScope compile) {
    training.implementation.framework = framework;
    training.implementation.compile = compile;
    return checkpoint_plan_of(training, kLayers).to_end;
  };
  CHECK_FALSE(to_end(Framework::transformers, CompileScope::off));
  CHECK(to_end(Framework::transformers, CompileScope::blocks));
  CHECK(to_end(Framework::torchtitan, CompileScope::off));
  CHECK_FALSE(to_end(Framework::torchtitan, CompileScope::blocks));
}

}  // namespace memest
