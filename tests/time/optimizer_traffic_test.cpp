// Bytes that a step of the optimizer moves, an element.
#include "time/optimizer_traffic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

constexpr double kElements = 1000;

double moved_by(const std::string& precision, const std::string& optimizer) {
  const std::string text =
      "model: llama-3-8b\ntraining: {seq_len: 64, precision: " + precision +
      ", optimizer: " + optimizer +
      ", implementation: megatron}\n"
      "parallelism: {data: 1, distributed_optimizer: true}\nhardware: {gpu: h100-sxm-80gb}\n";
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  ParameterTensor tensor;
  tensor.shape = {static_cast<std::int64_t>(kElements)};
  Inventory inventory;
  inventory.parameters.push_back(tensor);
  return optimizer_bytes(inventory, *job.value().training) / kElements;
}

}  // namespace

TEST_CASE("a step moves what it keeps, and what widens and narrows it") {
  // Weights written, master and moments read and written, gradients read.
  CHECK(moved_by("megatron", "adamw") == 2 + 2 * 4 + 2 * (4 + 4) + 4);
  CHECK(moved_by("megatron-bf16-grad", "adamw") == 2 + 2 * 4 + 2 * (4 + 4) + 2);
  // Remainders and their weights are both read and written.
  CHECK(moved_by("megatron-bf16-grad", "{exp_avg: fp32}") == 2 * 2 + 2 * 2 + 2 * (4 + 4) + 2);
  CHECK(moved_by("megatron-bf16-grad", "{main_params: fp32}") == 2 + 2 * 4 + 2 * (4 + 4) + 2);
  // Widened 2 + 4, stepped 4 + 4, narrowed 4 + 2, copied 2 + 2.
  CHECK(moved_by("megatron-bf16-grad", "{exp_avg: bf16, exp_avg_sq: bf16}") ==
        2 * 2 + 2 * 2 + 2 * 24 + 2);
  // fp16 beside: its scale 4 + 4, its extremes 4, the new scale 4 + 4; but no copy.
  CHECK(moved_by("megatron-bf16-grad", "{exp_avg_sq: fp16, main_params: fp16}") ==
        2 + 40 + (4 + 4) + 40 + 2);
}

TEST_CASE("a moving average is read and written beside the weights, once a step") {
  ParameterTensor tensor;
  tensor.shape = {static_cast<std::int64_t>(kElements)};
  tensor.trainable = false;  // frozen ones are averaged too
  Inventory inventory;
  inventory.parameters.push_back(tensor);
  TrainingSpec training;
  training.recipe = find_recipe("bf16").value();
  training.averages_weights = true;
  CHECK(optimizer_bytes(inventory, training) == kElements * 3 * 2);
}

TEST_CASE("an fp16 step reads and writes its gradients once more, to unscale them") {
  const auto upkeep = [](const std::string& precision) {
    TrainingSpec training;
    training.recipe = find_recipe(precision).value();
    training.clip_gradients = true;
    return gradient_upkeep_bytes(kElements, training) / kElements;
  };
  CHECK(upkeep("megatron-bf16-grad") == 3 * 2);
  CHECK(upkeep("megatron-fp16") == 3 * 2 + 2 * 4);
}

}  // namespace memest
