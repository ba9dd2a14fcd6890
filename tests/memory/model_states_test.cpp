// Worked numbers of the field's ledgers: 2Φ + 2Φ + KΦ and its relatives.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "memest/memory/ledger.hpp"

namespace memest {
namespace {

constexpr std::int64_t kGpt2Xl = 1557611200;
constexpr std::int64_t kLlama3 = 8030261248;

Recipe mixed() {
  Recipe recipe;
  recipe.name = "mixed";
  recipe.weights = recipe.gradients = recipe.compute = DType::bf16;
  recipe.master = DType::fp32;
  return recipe;
}

Optimizer adam() {
  Optimizer optimizer;
  optimizer.name = "adam";
  optimizer.states.resize(2);
  optimizer.states[0].name = "exp_avg";
  optimizer.states[1].name = "exp_avg_sq";
  optimizer.implementations.resize(1);
  optimizer.implementations[0].transient.whole_copies = 1;
  return optimizer;
}

Job job_of(const Recipe& recipe) {
  Job job;
  job.training.emplace();
  job.training->recipe = recipe;
  job.training->optimizer = adam();
  job.training->seq_len = 1024;
  job.training->implementation.framework = Framework::textbook;
  return job;
}

/// A model of one tensor, for ledgers that are linear in Φ.
Graph states_only(std::int64_t parameters) {
  Graph graph;
  ParameterTensor all;
  all.shape = {parameters};
  graph.parameters.parameters.push_back(all);
  graph.sizes.set(Symbol::micro_batch, 1).set(Symbol::seq_len, 1024);
  Block empty;
  empty.name = "nothing";
  empty.tensors.emplace_back();
  graph.blocks.push_back(empty);
  graph.order.push_back({});
  return graph;
}

std::int64_t group_bytes(const Ledger& ledger, TermGroup group) {
  std::int64_t total = 0;
  for (const Term& term : estimate_memory(ledger, ledger.bindings).terms) {
    if (ledger.terms[term.index].group == group) total += term.value.value();
  }
  return total;
}

TEST_CASE("2Φ + 2Φ + 12Φ of GPT-2 XL is the field's 24 GB for 1.5 B", "[memory]") {
  const Ledger ledger = write_ledger(states_only(kGpt2Xl), job_of(mixed()));
  CHECK(group_bytes(ledger, TermGroup::weights) == 2 * kGpt2Xl);  // 3.1 GB
  CHECK(group_bytes(ledger, TermGroup::gradients) == 2 * kGpt2Xl);
  CHECK(group_bytes(ledger, TermGroup::optimizer) == 12 * kGpt2Xl);
  CHECK(estimate_memory(ledger, ledger.bindings).allocated() == Bytes(16 * kGpt2Xl));
  CHECK(16 * kGpt2Xl == 24921779200);
}

TEST_CASE("ZeRO divides by the data-parallel degree, not by the number of GPUs", "[memory]") {
  Job job = job_of(mixed());
  job.hardware.count = 64;
  job.parallelism.data = 8;
  const auto allocated = [&](ZeroStage stage) {
    job.parallelism.zero = stage;
    const Ledger ledger = write_ledger(states_only(kLlama3), job);
    return estimate_memory(ledger, ledger.bindings).allocated().value();
  };
  CHECK(allocated(ZeroStage::none) == 16 * kLlama3);
  CHECK(allocated(ZeroStage::optimizer) == 4 * kLlama3 + 12 * kLlama3 / 8);
  CHECK(allocated(ZeroStage::optimizer_gradients) == 2 * kLlama3 + 14 * kLlama3 / 8);
  CHECK(allocated(ZeroStage::optimizer_gradients_weights) == 16 * kLlama3 / 8);
}

}  // namespace
}  // namespace memest
