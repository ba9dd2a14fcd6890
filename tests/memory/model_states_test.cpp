// The field's ledgers of model states, recipe by recipe and ZeRO stage by ZeRO stage, in bytes.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "memest/graph/parameters.hpp"

namespace memest {
namespace {

using namespace testing;

/// The textbook's ledger knows states and activations only.
Job states_job(const std::string& recipe) {
  Job job = job_of(recipe);
  job.training->implementation.framework = Framework::textbook;
  return job;
}

std::int64_t states_bytes(const Job& job, std::int64_t parameters) {
  return estimate_of(write_ledger(states_only(one_tensor(parameters)), job)).allocated().value();
}

TEST_CASE("every recipe costs its bytes a parameter", "[memory]") {
  struct Row {
    std::string recipe;
    std::int64_t weights;
    std::int64_t gradients;
    std::int64_t optimizer;
  };
  const std::vector<Row> rows{
      {"fp32", 4, 4, 8},
      {"bf16", 2, 2, 4},
      {"fp16", 2, 2, 4},
      {"amp-bf16", 4, 4, 8},
      {"amp-fp16", 4, 4, 8},
      {"bf16-autocast", 2, 2, 4},
      {"mixed", 2, 2, 12},
      {"mixed-fp32-grad", 2, 4, 12},
      {"megatron", 2, 4, 12},
      {"megatron-bf16-grad", 2, 2, 12},
      {"megatron-fp16", 2, 2, 12},
      {"fsdp2-bf16", 4, 4, 8},
      {"accelerate-fsdp2-bf16", 4, 4, 8},
      // A cast and a transposed fp8 copy; under Megatron they are counted weight by weight.
      {"fp8", 2 + 2, 4, 12},
      {"fp8-current", 2, 4, 12},
      {"fp8-blockwise", 2, 4, 12},
      {"mxfp8", 2, 4, 12},
      {"nvfp4", 2, 4, 12}};
  CHECK(rows.size() == all_recipes().size());
  constexpr std::int64_t kParameters = 1000000;
  for (const Row& row : rows) {
    CAPTURE(row.recipe);
    const Ledger ledger =
        write_ledger(states_only(one_tensor(kParameters)), states_job(row.recipe));
    CHECK(group_bytes(ledger, TermGroup::weights) == row.weights * kParameters);
    CHECK(group_bytes(ledger, TermGroup::gradients) == row.gradients * kParameters);
    CHECK(group_bytes(ledger, TermGroup::optimizer) == row.optimizer * kParameters);
  }
}

TEST_CASE("GPT-2 XL takes 16Φ = 24.9 GB, its 16-bit weights 3.1, its fp32 gradients 6.2",
          "[memory]") {
  Job job = job_of("mixed");
  const Ledger ledger = write_ledger(states_only(one_tensor(kGpt2Xl)), job);
  CHECK(states_bytes(states_job("mixed"), kGpt2Xl) == 24921779200);
  CHECK(named_bytes(ledger, "weights") == 3115222400);
  CHECK(named_bytes(ledger, "fp32 copies of the gradients") == 6230444800);
}

TEST_CASE("Llama-3-8B counts its untied output head", "[memory]") {
  const Inventory inventory = parameters_of(llama_3_8b());
  const Ledger ledger = write_ledger(states_only(inventory), job_of("bf16"));
  CHECK(ledger.bindings.at(Symbol::parameters) == kLlama3);
  CHECK(named_bytes(ledger, "weights") == 2 * kLlama3);
}

TEST_CASE("ZeRO divides by the data-parallel degree, not by the number of GPUs",
          "[memory][formulas]") {
  Job job = states_job("mixed");
  job.hardware.count = 64;
  job.parallelism.data = 8;
  const auto states = [&](ZeroStage stage) {
    job.parallelism.zero = stage;
    return states_bytes(job, kLlama3);
  };
  CHECK(states(ZeroStage::none) == 16 * kLlama3);
  CHECK(states(ZeroStage::optimizer) == 4 * kLlama3 + 12 * kLlama3 / 8);
  CHECK(states(ZeroStage::optimizer_gradients) == 2 * kLlama3 + 14 * kLlama3 / 8);
  CHECK(states(ZeroStage::optimizer_gradients_weights) == 16 * kLlama3 / 8);
}

/// The formulas of all weights, gradients and optimizer states, added up.
Expr states_formula(const Job& job) {
  const Ledger ledger = write_ledger(states_only(one_tensor(kLlama3)), job);
  Expr total;
  for (const std::uint16_t term : ledger.instants.front().terms) {
    total += ledger.terms[term].formula;
  }
  return total;
}

TEST_CASE("the states of ZeRO are those of its paper, as formulas", "[memory][formulas]") {
  const Expr phi = Symbol::parameters;
  const Expr D = Symbol::data;
  const auto formula = [](const std::string& recipe, ZeroStage stage) {
    Job job = states_job(recipe);
    job.parallelism.data = 8;
    job.parallelism.zero = stage;
    return states_formula(job);
  };
  CHECK(formula("mixed", ZeroStage::none) == 16 * phi);
  CHECK(formula("mixed", ZeroStage::optimizer) == 4 * phi + 12 * phi / D);
  CHECK(formula("mixed", ZeroStage::optimizer_gradients) == 2 * phi + 14 * phi / D);
  CHECK(formula("mixed", ZeroStage::optimizer_gradients_weights) == 16 * phi / D);
  CHECK(formula("mixed-fp32-grad", ZeroStage::optimizer_gradients) == 2 * phi + 16 * phi / D);
  CHECK(formula("fp32", ZeroStage::optimizer_gradients_weights) == 16 * phi / D);
  CHECK(formula("bf16", ZeroStage::optimizer) == 4 * phi + 4 * phi / D);
  CHECK(formula("megatron", ZeroStage::optimizer) == 6 * phi + 12 * phi / D);
  CHECK(formula("megatron", ZeroStage::none) == 18 * phi);
  CHECK(formula("megatron-bf16-grad", ZeroStage::optimizer) == 4 * phi + 12 * phi / D);
}

TEST_CASE("Megatron's distributed optimizer leaves 6 + 12/D, with bf16 gradients 4 + 12/D",
          "[memory][formulas]") {
  Job job = states_job("megatron");
  job.parallelism.data = 16;
  job.parallelism.zero = ZeroStage::optimizer;
  CHECK(states_bytes(job, kLlama3) == 6 * kLlama3 + 12 * kLlama3 / 16);
  Job bf16 = job_of("megatron-bf16-grad");
  bf16.training->implementation.framework = Framework::megatron;
  bf16.training->optimizer_implementation = OptimizerImplementation::fused;
  bf16.parallelism = job.parallelism;
  bf16.parallelism.distributed_optimizer = true;
  const Ledger ledger = write_ledger(states_only(one_tensor(kLlama3)), bf16);
  const LedgerTerm* copies = nullptr;
  for (const LedgerTerm& term : ledger.terms) {
    if (term.name == "fp32 copies of the gradients") copies = &term;
  }
  REQUIRE(copies != nullptr);
  CHECK(copies->formula == 4 * Expr(Symbol::parameters) / Symbol::data);
  bf16.training->implementation.framework = Framework::textbook;
  bf16.training->optimizer_implementation = OptimizerImplementation::foreach_;
  CHECK(states_bytes(bf16, kLlama3) == 4 * kLlama3 + 12 * kLlama3 / 16);
}

TEST_CASE("FSDP2 shards everything: 16/D", "[memory]") {
  Job job = states_job("fsdp2-bf16");
  job.parallelism.data = 8;
  CHECK(states_bytes(job, kLlama3) == 16 * kLlama3 / 8);
}

TEST_CASE("frozen parameters have no gradient and no state", "[memory]") {
  Inventory inventory = one_tensor(1000);
  inventory.parameters.push_back(inventory.parameters.front());
  inventory.parameters.back().trainable = false;
  const Ledger ledger = write_ledger(states_only(inventory), states_job("fp32"));
  CHECK(estimate_of(ledger).allocated() == Bytes(4 * 2000 + 4 * 1000 + 8 * 1000));
}

TEST_CASE("a higher ZeRO stage never takes more states", "[memory]") {
  for (const Recipe& recipe : all_recipes()) {
    for (const std::int64_t ranks : {1, 2, 3, 8, 7}) {
      Job job = states_job(recipe.name);
      job.parallelism.data = ranks;
      std::int64_t before = states_bytes(job, kGpt2Xl);
      for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::optimizer_gradients,
                                    ZeroStage::optimizer_gradients_weights}) {
        job.parallelism.zero = stage;
        const std::int64_t now = states_bytes(job, kGpt2Xl);
        CHECK(now <= before);
        before = now;
      }
    }
  }
}

}  // namespace
}  // namespace memest
