// Megatron-LM's layers of 2021 and 2022, and DeepSpeed's optimizers around them, against programs
// written after their sources (Megatron-LM v2: model, local DDP, Float16OptimizerWithFloat16Params;
// DeepSpeed 0.6.7: stage 1, BF16_Optimizer), run by PyTorch 2.11 on a device that computes nothing.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <variant>

#include "jobs.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using namespace testing;

struct Run {
  std::string sizes;      ///< layers, hidden size, positions
  std::string training;   ///< sequence, accumulation, precision, recompute
  std::string around;     ///< more of the implementation, and the parallelism
  std::int64_t peak = 0;  ///< torch.cuda.max_memory_allocated()
};

constexpr const char* kAlone = "}}\n";
constexpr const char* kDeepSpeed = ", deepspeed: true}}\nparallelism: {zero: 1}\n";

std::int64_t replayed(const Run& run) {
  const std::string text =
      "model: {family: decoder, " + run.sizes +
      ", heads: 16, vocab_size: 50304, activation: gelu, norm: layernorm, position: learned, "
      "bias: true, tied_embeddings: true, dropout: 0.1}\ntraining: {micro_batch: 4, "
      "clip_gradients: false, " +
      run.training + ", implementation: {name: megatron, layers: legacy" + run.around +
      "hardware: {gpu: a100-sxm-80gb}\n";
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  const Graph graph =
      std::get<Graph>(lower(job.value().model, policy_of(*job.value().training, kAmpere)));
  const Timeline timeline = std::get<Timeline>(write_timeline(graph, job.value()));
  const Bytes room(std::int64_t{1} << 40);
  return replay_steps(timeline, {}, {room, room, {}}).peak.allocated.value();
}

}  // namespace

TEST_CASE("legacy layers allocate what programs after their sources do, within 0.03 %",
          "[memory]") {
  const std::string small = "hidden_size: 1024, max_positions: 1024";
  const std::string large = "layers: 24, hidden_size: 2048, max_positions: 2048";
  const std::string of_small = "seq_len: 1024, gradient_accumulation: 2, ";
  const std::string of_large = "seq_len: 2048, gradient_accumulation: 2, ";
  const Run runs[] = {
      {"layers: 4, " + small, of_small + "precision: megatron-fp16, recompute: none", kAlone,
       4838266880},
      {"layers: 12, " + small, of_small + "precision: megatron-fp16, recompute: full", kAlone,
       4638955520},
      {large, "seq_len: 2048, gradient_accumulation: 1, precision: megatron-fp16, recompute: none",
       kAlone, 69535270912},
      {"layers: 12, " + small, of_small + "precision: megatron-fp16, recompute: full", kDeepSpeed,
       4639560192},
      {"layers: 12, " + small, of_small + "precision: megatron, recompute: full", kDeepSpeed,
       5456663040},
      {large, of_large + "precision: megatron-fp16, recompute: full", kDeepSpeed, 28969927168},
      {large, of_large + "precision: megatron, recompute: full", kDeepSpeed, 29700391424},
  };
  for (const Run& run : runs) {
    CAPTURE(run.sizes, run.training, run.around);
    const auto measured = static_cast<double>(run.peak);
    CHECK(std::abs(static_cast<double>(replayed(run)) / measured - 1) < 3e-4);
  }
}

}  // namespace memest
