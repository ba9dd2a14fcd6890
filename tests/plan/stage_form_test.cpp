// One form for all depths of a pipeline: it must be the ledger of each.
#include "memest/memory/stage_form.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <variant>

#include "jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLayers = 24;

struct Depth {
  std::int64_t pipeline;
  std::int64_t stages;
  std::int64_t data;
};

std::string spec_of(const Depth& depth, const std::string& recompute) {
  const bool interleaved = depth.stages > 1;
  return "model: {family: decoder, layers: 24, hidden_size: 1024, heads: 16, kv_heads: 8, "
         "ffn_size: 3072, vocab_size: 32000, activation: swiglu, norm: rmsnorm, position: rope}\n"
         "training: {micro_batch: 2, seq_len: 1024, gradient_accumulation: " +
         std::to_string(3 * depth.pipeline) + ", precision: megatron, recompute: " + recompute +
         ", implementation: {name: megatron, layers: local}}\n"
         "parallelism: {tensor: 2, sequence: true, distributed_optimizer: true, data: " +
         std::to_string(depth.data) + ", pipeline: " + std::to_string(depth.pipeline) +
         (interleaved ? ", schedule: interleaved, virtual_stages: " + std::to_string(depth.stages)
                      : "") +
         "}\n"
         "hardware: {gpu: h100-sxm-80gb, count: " +
         std::to_string(2 * depth.data * depth.pipeline) + "}\n";
}

Graph graph_of(const Job& job, std::int64_t rank) {
  return std::get<Graph>(lower(job.model, policy_of(job, rank)));
}

/// Stages of so many layers behind one end of the model.
struct Stages {
  std::size_t count;
  std::int64_t layers;
};

Graph graph_of(const Job& job, std::int64_t rank, const Stages& stages) {
  LoweringPolicy policy = policy_of(job, rank);
  policy.parts.assign(stages.count,
                      {.first = 0, .count = stages.layers, .embedding = false, .head = false});
  policy.parts.front().embedding = rank == 0;
  policy.parts.back().head = rank + 1 == job.parallelism.pipeline;
  return std::get<Graph>(lower(job.model, policy));
}

StageForm form_of(const Job& job, std::int64_t rank, const Stages& stages) {
  return StageForm(write_ledger(graph_of(job, rank, stages), job,
                                {.pipeline_rank = rank, .scope = LedgerScope::layouts}));
}

std::int64_t parameters_of(const Ledger& ledger) { return ledger.bindings.at(Symbol::parameters); }

}  // namespace

TEST_CASE("the form of a stage is the ledger of every depth, number of replicas and micro-batch") {
  const Depth like{.pipeline = 4, .stages = 1, .data = 3};
  for (const char* recompute : {"none", "full", "selective"}) {
    const Job base = test::job_from(spec_of(like, recompute));
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}}) {
      const StageForm one_stage = form_of(base, end, {1, kLayers});
      const StageForm two_stages = form_of(base, end, {2, kLayers});
      const StageForm two_layers = form_of(base, end, {2, 1});
      for (const Depth& depth :
           {Depth{4, 1, 3}, Depth{8, 1, 4}, Depth{4, 2, 16}, Depth{12, 2, 8}, Depth{4, 6, 5}}) {
        Job job = test::job_from(spec_of(depth, recompute));
        const bool single = kLayers == depth.pipeline * depth.stages;
        const StageForm& form = single ? two_layers : depth.stages > 1 ? two_stages : one_stage;
        for (const std::int64_t micro_batch : {1, 3, 16}) {
          job.training->micro_batch = micro_batch;
          const std::int64_t rank = end == 3 ? depth.pipeline - 1 : end;
          const Ledger ledger = write_ledger(graph_of(job, rank), job, rank);
          INFO(recompute << " rank " << rank << " of " << depth.pipeline << " x " << depth.stages
                         << ", micro-batch " << micro_batch);
          const PipelinePlace place{depth.pipeline, rank, depth.stages};
          const Bytes peak =
              form.peak({.micro_batch = micro_batch,
                         .layers = kLayers / (depth.pipeline * depth.stages),
                         .in_flight = most_in_flight(job.parallelism.schedule, place,
                                                     job.training->gradient_accumulation),
                         .parameters = parameters_of(ledger),
                         .data = depth.data});
          // The form counts the rotary frequencies of its own number of stages.
          constexpr std::int64_t kFrequencyBytes = 256;
          CHECK(std::abs((peak - peak_allocated(ledger, ledger.bindings)).value()) <=
                kFrequencyBytes * depth.stages);
        }
      }
    }
  }
}

}  // namespace memest
