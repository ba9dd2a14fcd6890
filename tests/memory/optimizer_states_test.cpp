// States and step transients of the optimizers, tensor by tensor.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "jobs.hpp"
#include "memest/graph/parameters.hpp"

namespace memest {
namespace {

using namespace testing;

Inventory tensors(const std::vector<std::vector<std::int64_t>>& shapes) {
  Inventory inventory;
  for (const std::vector<std::int64_t>& shape : shapes) {
    ParameterTensor tensor;
    tensor.shape = shape;
    inventory.parameters.push_back(tensor);
  }
  return inventory;
}

Ledger fp32_ledger(const std::string& optimizer, const Inventory& inventory) {
  return write_ledger(states_only(inventory), job_of("fp32", optimizer));
}

std::int64_t state_bytes(const std::string& optimizer, const Inventory& inventory) {
  return named_bytes(fp32_ledger(optimizer, inventory), "optimizer states");
}

TEST_CASE("states like the parameter are counted in Φ", "[memory]") {
  const std::vector<std::pair<std::string, std::int64_t>> states{{"sgd", 0},
                                                                 {"momentum", 1},
                                                                 {"adam", 2},
                                                                 {"adamw", 2},
                                                                 {"amsgrad", 3},
                                                                 {"adagrad", 1},
                                                                 {"rmsprop", 1},
                                                                 {"adadelta", 2},
                                                                 {"adamax", 2},
                                                                 {"nadam", 2},
                                                                 {"radam", 2},
                                                                 {"rprop", 2},
                                                                 {"lion", 1},
                                                                 {"lamb", 2},
                                                                 {"sophia", 2},
                                                                 {"rmsprop-centered", 2},
                                                                 {"rmsprop-centered-momentum", 3}};
  for (const auto& [name, count] : states) {
    CAPTURE(name);
    CHECK(state_bytes(name, one_tensor(10000)) == 4 * count * 10000);
  }
}

TEST_CASE("8-bit states take a byte an element and four a block of 256", "[memory]") {
  // 4095 elements stay in fp32; 4096 are 16 blocks; 4097 are 17.
  CHECK(state_bytes("adamw-8bit", tensors({{4095}})) == 2 * 4 * 4095);
  CHECK(state_bytes("adamw-8bit", tensors({{4096}})) == 2 * (4096 + 4 * 16));
  CHECK(state_bytes("adamw-8bit", tensors({{4097}})) == 2 * (4097 + 4 * 17));
  CHECK(state_bytes("lion-8bit", tensors({{64, 64}, {64}})) == 4096 + 4 * 16 + 4 * 64);
}

TEST_CASE("beside 8-bit states of a whole model the Trainer keeps those of embeddings in fp32",
          "[memory]") {
  Inventory inventory = tensors({{100, 64}, {64, 64}});
  inventory.parameters.front().role = ParameterRole::embedding;
  Job job = job_of("fp32", "adamw-8bit");
  const auto bytes = [&](LoopKind loop) {
    job.training->implementation.loop = loop;
    adapt_optimizer_to_loop(*job.training);
    return named_bytes(write_ledger(states_only(inventory), job), "optimizer states");
  };
  const std::int64_t of_codes = 2 * (4096 + 4 * 16);
  CHECK(bytes(LoopKind::plain) == 2 * (6400 + 4 * 25) + of_codes);
  CHECK(bytes(LoopKind::trainer) == 2 * 4 * 6400 + of_codes);
  CHECK(bytes(LoopKind::sft) == bytes(LoopKind::trainer));
}

TEST_CASE("paged states of 100,000 elements and more are managed memory, their scales are not",
          "[memory]") {
  CHECK(state_bytes("paged-adamw", tensors({{99'999}})) == 2 * 4 * 99'999);
  CHECK(state_bytes("paged-adamw", tensors({{100'000}})) == 0);
  CHECK(state_bytes("paged-adamw-8bit", tensors({{99'999}})) == 2 * (99'999 + 4 * 391));
  CHECK(state_bytes("paged-adamw-8bit", tensors({{100'000}})) == 2 * 4 * 391);
}

TEST_CASE("factored states take rows and columns, or their squares", "[memory]") {
  CHECK(state_bytes("adafactor", tensors({{300, 200}, {50}})) == 4 * (300 + 200 + 50));
  CHECK(state_bytes("shampoo", tensors({{30, 20}})) == 2 * 4 * (30 * 30 + 20 * 20));
  // SOAP keeps no factor of a dimension above 10,000.
  CHECK(state_bytes("soap", tensors({{20000, 10}})) == 2 * 4 * 20000 * 10 + 2 * 4 * 10 * 10);
  CHECK(state_bytes("muon", tensors({{30, 20}, {50}})) == 4 * 30 * 20 + 2 * 4 * 50);
}

TEST_CASE("a step's temporaries follow the implementation", "[memory]") {
  const Inventory inventory = tensors({{100}, {700}, {300}});
  Job job = job_of("fp32", "adamw");
  const auto step = [&](OptimizerImplementation implementation) {
    job.training->optimizer_implementation = implementation;
    const Ledger ledger = write_ledger(states_only(inventory), job);
    return named_bytes(ledger, "temporaries of the");
  };
  CHECK(step(OptimizerImplementation::foreach_) == 4 * 1100);
  CHECK(step(OptimizerImplementation::fused) == 0);
  // max over i of 2·s_i + s_(i−1): 200, 1400 + 100, 600 + 700.
  CHECK(step(OptimizerImplementation::for_loop) == 4 * 1500);
}

TEST_CASE("equal layers follow each other in a loop over parameters", "[memory]") {
  Inventory inventory = tensors({{700}, {600}});
  for (ParameterTensor& tensor : inventory.parameters) tensor.count = 2;
  Job job = job_of("fp32", "adamw");
  job.training->optimizer_implementation = OptimizerImplementation::for_loop;
  // The second layer's 700 comes after the first one's 600.
  CHECK(named_bytes(write_ledger(states_only(inventory), job), "temporaries of the for-loop") ==
        4 * (2 * 700 + 600));
}

TEST_CASE("fused AdamW keeps one fp32 step a tensor", "[memory]") {
  Job job = job_of("bf16", "adamw");
  job.training->optimizer_implementation = OptimizerImplementation::fused;
  const Ledger ledger = write_ledger(states_only(tensors({{10}, {20}, {30}})), job);
  CHECK(named_bytes(ledger, "optimizer states: step") == 3 * 4);
}

TEST_CASE("clipping Llama-3-8B keeps 291 · 8016 partial sums", "[memory]") {
  Job job = job_of("bf16");
  job.training->clip_gradients = true;
  const Ledger ledger = write_ledger(states_only(parameters_of(llama_3_8b())), job);
  CHECK(named_bytes(ledger, "partial sums") == 9330624);
}

TEST_CASE("every optimizer of the catalog has a ledger under every recipe", "[memory]") {
  const Inventory inventory = tensors({{512, 256}, {512}});
  for (const Optimizer& optimizer : all_optimizers()) {
    for (const Recipe& recipe : all_recipes()) {
      CAPTURE(optimizer.name, recipe.name);
      const Ledger ledger =
          write_ledger(states_only(inventory), job_of(recipe.name, optimizer.name));
      CHECK(estimate_of(ledger).allocated() > Bytes(0));
    }
  }
}

}  // namespace
}  // namespace memest
