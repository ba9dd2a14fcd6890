#include "memest/plan/search.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "jobs.hpp"
#include "memest/plan/alternatives.hpp"
#include "memest/plan/largest.hpp"
#include "memest/reader/catalog.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

using test::gpt2;
using test::llama;

GpuSpec gpu_named(const char* name) {
  const Checked<GpuSpec> gpu = find_gpu(name);
  REQUIRE(gpu.ok());
  return gpu.value();
}

Price price_of(const char* gpu, double dollars) {
  return {.gpu = gpu,
          .price = DollarsPerHour(dollars),
          .provider = "test",
          .source = "test",
          .date = "",
          .is_default = true};
}

PlanRequest request_for(Job job, std::vector<const char*> gpus, std::vector<std::int64_t> counts) {
  PlanRequest request;
  request.job = std::move(job);
  for (const char* gpu : gpus) request.gpus.push_back(gpu_named(gpu));
  request.counts = std::move(counts);
  return request;
}

/// Every row as `estimate` answers for it.
PlanRequest replayed(PlanRequest request) {
  request.finalists = request.misses = request.gpus.size() * request.counts.size();
  return request;
}

/// Every setting of the space, each answered by estimate_job: what the search must agree with.
struct BruteForce {
  Job job;
  std::vector<std::int64_t> micro_batches;
  std::vector<Recompute> recomputes{NoRecompute{}, SelectiveRecompute{}, FullRecompute{}};

  [[nodiscard]] double seconds_per_token() const {
    double best = std::numeric_limits<double>::infinity();
    const std::int64_t share = job.global_batch() / job.parallelism.data;
    for (const std::int64_t micro_batch : micro_batches) {
      for (const Recompute& recompute : recomputes) {
        for (const Parallelism& layout : layouts()) {
          Job candidate = job;
          candidate.lay_over(layout);
          candidate.training->micro_batch = micro_batch;
          candidate.training->gradient_accumulation = share / micro_batch;
          candidate.training->recompute = recompute;
          best = std::min(best, of(candidate));
        }
      }
    }
    return best;
  }

 private:
  /// DDP, DeepSpeed's stages and FSDP2, each with what it offloads.
  [[nodiscard]] std::vector<Parallelism> layouts() const {
    std::vector<Parallelism> all;
    Parallelism layout = job.parallelism;
    for (int stage = 0; stage <= 3; ++stage) {
      layout.zero = static_cast<ZeroStage>(stage);
      for (const bool optimizer : {false, true}) {
        for (const bool parameters : {false, true}) {
          if ((optimizer && stage == 0) || (parameters && stage < 3)) continue;
          layout.offload = {.optimizer = optimizer, .parameters = parameters};
          all.push_back(layout);
        }
      }
    }
    if (!job.training->recipe_of_fsdp) return all;
    for (const std::int64_t replicate : {1, 2, 4}) {
      if (job.parallelism.data / replicate < 2 && replicate > 1) continue;
      layout.fsdp = FullySharded{.replicate = replicate};
      for (const bool host : {false, true}) {
        layout.offload = {.optimizer = host, .parameters = host};
        all.push_back(layout);
      }
    }
    return all;
  }

  static double of(const Job& candidate) {
    const JobEstimate estimate = estimate_job(candidate);
    if (std::get<MemoryAnswer>(estimate.memory).verdict != Verdict::fits) {
      return std::numeric_limits<double>::infinity();
    }
    return 1 / (std::get<TimeEstimate>(estimate.time).tokens_per_second_per_gpu *
                static_cast<double>(candidate.hardware.count));
  }
};

double seconds_per_token(const PlanVerdict& verdict) {
  return 1 / (std::get<TimeEstimate>(verdict.time).tokens_per_second_per_gpu *
              static_cast<double>(verdict.candidate.gpus));
}

}  // namespace

TEST_CASE("The search finds what brute force over estimate_job finds") {
  struct Space {
    Job job;
    const char* gpu;
    std::vector<std::int64_t> divisors;
  };
  const std::vector<Space> spaces{
      {gpt2("seq_len: 1024, global_batch: 48, precision: bf16"), "rtx-4090", {1, 2, 3, 4, 6, 12}},
      {gpt2("seq_len: 512, global_batch: 32, precision: amp-bf16"), "a10", {1, 2, 4, 8}},
      {llama("seq_len: 2048, global_batch: 8, precision: mixed"), "h100-sxm-80gb", {1, 2}},
      {llama("seq_len: 4096, global_batch: 16, precision: bf16"), "a100-sxm-80gb", {1, 2, 4}},
  };
  for (const Space& space : spaces) {
    const PlanRequest request = request_for(space.job, {space.gpu}, {4});
    const PlanAnswer answer = search_plans(replayed(request));
    REQUIRE(answer.best.size() == 1);
    BruteForce brute{.job = space.job, .micro_batches = space.divisors};
    brute.job.hardware.gpu = request.gpus.front();
    brute.job.hardware.count = 4;
    brute.job.training->micro_batch = 1;
    brute.job.training->gradient_accumulation = space.job.global_batch() / 4;
    brute.job.parallelism.data = 4;
    INFO(space.gpu);
    CHECK(seconds_per_token(answer.best.front()) == brute.seconds_per_token());
  }
}

TEST_CASE("What the file writes is kept") {
  const PlanAnswer answer = search_plans(
      request_for(gpt2("seq_len: 1024, micro_batch: 3, recompute: full, precision: bf16",
                       "parallelism: {zero: 1, offload: {optimizer: none}}"),
                  {"a100-sxm-80gb"}, {8}));
  REQUIRE(answer.best.size() == 1);
  const PlanCandidate& candidate = answer.best.front().candidate;
  CHECK(candidate.micro_batch == 3);
  CHECK(std::holds_alternative<FullRecompute>(candidate.recompute));
  CHECK(candidate.parallelism.zero == ZeroStage::optimizer);
  CHECK(answer.candidates == 1);
}

TEST_CASE("The global batch is kept: micro-batch, accumulation and GPUs multiply to it") {
  const PlanAnswer answer =
      search_plans(request_for(gpt2("seq_len: 1024, global_batch: 96, precision: bf16"),
                               {"a100-sxm-80gb", "rtx-4090"}, {1, 2, 8}));
  CHECK(answer.best.size() == 6);
  for (const PlanVerdict& verdict : answer.best) {
    const PlanCandidate& candidate = verdict.candidate;
    CHECK(candidate.micro_batch * candidate.gradient_accumulation * candidate.gpus == 96);
  }
}

TEST_CASE("A global batch that does not divide is refused by name") {
  const PlanAnswer answer = search_plans(request_for(
      gpt2("seq_len: 1024, global_batch: 12, precision: bf16"), {"a100-sxm-80gb"}, {8}));
  CHECK(answer.best.empty());
  REQUIRE(answer.refused.size() == 1);
  CHECK(answer.refused.front().reason ==
        "the global batch of 12 sequences does not divide into 8 equal shares of whole "
        "micro-batches");
}

TEST_CASE("A GPU that has no graph of the model says why, beside one that has") {
  const PlanAnswer answer =
      search_plans(request_for(llama("seq_len: 1024, implementation: torchtitan, float8: {}"),
                               {"a100-sxm-80gb", "h100-sxm-80gb"}, {8}));
  CHECK(answer.best.size() == 1);
  REQUIRE(answer.refused.size() == 1);
  CHECK(answer.refused.front().reason == "float8 products run from compute capability 8.9 on");
}

TEST_CASE("A refusal says what is missing, what fills the device and what would help", "[peers]") {
  const PlanAnswer answer = search_plans(replayed(
      request_for(llama("seq_len: 1024, global_batch: 8, precision: mixed, recompute: none",
                        "parallelism: {zero: 0}"),
                  {"a100-sxm-80gb"}, {8})));
  CHECK(answer.best.empty());
  REQUIRE(answer.refused.size() == 1);
  const PlanVerdict& refused = answer.refused.front();
  CHECK(refused.verdict == Verdict::does_not_fit);
  CHECK(refused.candidate.micro_batch == 1);
  CHECK(refused.reason.starts_with("needs "));
  CHECK(refused.reason.find(" GiB more: ") != std::string::npos);
  REQUIRE_FALSE(refused.levers.empty());
  CHECK(refused.levers.front().name == "ZeRO 3");
  CHECK(refused.levers.front().fits);
  CHECK(refused.levers.front().saved > Bytes());
  REQUIRE(refused.largest_terms.size() > 3);
  Bytes sum;
  for (const NamedBytes& term : refused.largest_terms) sum += term.bytes;
  CHECK(std::abs(sum / refused.device - 1) < 0.05);  // closed form and replay
  CHECK(std::is_sorted(
      refused.largest_terms.begin(), refused.largest_terms.end(),
      [](const NamedBytes& left, const NamedBytes& right) { return left.bytes > right.bytes; }));
}

TEST_CASE("A refusal says what the optimizer on the host would save, and take there", "[peers]") {
  const PlanAnswer answer = search_plans(replayed(
      request_for(llama("seq_len: 1024, global_batch: 8, precision: mixed, recompute: full",
                        "parallelism: {zero: 2, offload: {optimizer: none}}"),
                  {"rtx-3090"}, {8})));
  REQUIRE(answer.refused.size() == 1);
  const std::vector<Lever>& levers = answer.refused.front().levers;
  const auto host = std::ranges::find(levers, "the optimizer on the host", &Lever::name);
  REQUIRE(host != levers.end());
  CHECK(host->saved > Bytes());
  REQUIRE(host->host);
  CHECK(*host->host > host->saved);
  REQUIRE(host->slower);
  CHECK(*host->slower > 1);
  for (const Lever& lever : levers) CHECK((&lever == &*host || !lever.host));
}

TEST_CASE("What fits only with states on the host is answered so, and takes longer") {
  const auto searched = [](const char* gpu) {
    return search_plans(replayed(
        request_for(llama("seq_len: 1024, global_batch: 8, precision: mixed, recompute: full",
                          "parallelism: {zero: 2}"),
                    {gpu}, {8})));
  };
  const PlanAnswer large = searched("a100-sxm-80gb");
  REQUIRE(large.best.size() == 1);
  CHECK_FALSE(large.best.front().candidate.parallelism.offload.any());
  const PlanAnswer small = searched("rtx-5090");
  REQUIRE(small.best.size() == 1);
  CHECK(small.best.front().candidate.parallelism.offload.optimizer);
  CHECK(std::get<TimeEstimate>(small.best.front().time).ops.front().block ==
        "optimizer on the host");
}

TEST_CASE("FSDP2 is searched where the precision has a policy for it, in any number of replicas") {
  const PlanAnswer answer =
      search_plans(request_for(llama("seq_len: 512, global_batch: 64, precision: amp-bf16",
                                     "hardware: {network: {bandwidth: 10 Gbit/s, per: gpu}}"),
                               {"h100-sxm-80gb"}, {16}));
  REQUIRE(answer.best.size() == 1);
  const Parallelism& best = answer.best.front().candidate.parallelism;
  REQUIRE(best.fsdp);
  bool replicates = false;
  for (const PlanVerdict& verdict : answer.front) {
    const Parallelism& layout = verdict.candidate.parallelism;
    replicates = replicates || (layout.fsdp && layout.fsdp->replicate > 1);
  }
  CHECK(replicates);
}

TEST_CASE("Reentrant checkpoints of FSDP2's units are not known, and no plan has them") {
  const std::string training =
      "seq_len: 4096, precision: fsdp2-bf16, implementation: transformers, recompute: {full: "
      "{reentrant: true}}";
  const JobEstimate estimate =
      estimate_job(llama(training,
                         "parallelism: {data: 8, zero: 3, fsdp: {version: 2}}\n"
                         "hardware: {gpu: h100-sxm-80gb, count: 8}"));
  const auto* refused = std::get_if<Unavailable>(&estimate.memory);
  REQUIRE(refused != nullptr);
  CHECK(refused->sentence ==
        "reentrant checkpoints of units that FSDP2 shards are not available yet");

  Job free = llama(
      "seq_len: 4096, precision: amp-bf16, implementation: transformers, recompute: {full: "
      "{reentrant: true}}");
  const auto in_rows = [&free] {
    return std::ranges::any_of(layout_choices(free, 8), &Parallelism::shards_rows);
  };
  CHECK_FALSE(in_rows());
  free.training->recompute = FullRecompute{};
  CHECK(in_rows());
}

TEST_CASE("torchtitan shards by FSDP2 alone") {
  const PlanAnswer answer =
      search_plans(request_for(llama("seq_len: 4096, global_batch: 64, implementation: torchtitan"),
                               {"h100-sxm-80gb"}, {8, 16}));
  REQUIRE(answer.best.size() == 2);
  for (const PlanVerdict& verdict : answer.front) {
    const Parallelism& layout = verdict.candidate.parallelism;
    CHECK((layout.data == 1 || layout.fsdp || layout.tensor == 1));
    CHECK((layout.fsdp || layout.zero == ZeroStage::none));
  }
}

TEST_CASE(
    "nanotron's layers are recomputed whole or not at all, in rows, their rivals and the front") {
  const PlanAnswer answer = search_plans(request_for(
      llama("seq_len: 4096, global_batch: 256, implementation: nanotron"), {"h100-sxm-80gb"}, {8}));
  REQUIRE(answer.best.size() == 1);
  std::vector<PlanCandidate> candidates{answer.best[0].candidate};
  CHECK(answer.best[0].rivals.size() == kRivals);
  for (const Rival& rival : answer.best[0].rivals) {
    CHECK(rival.slower >= 0);
    candidates.push_back(rival.candidate);
  }
  for (const PlanVerdict& verdict : answer.front) candidates.push_back(verdict.candidate);
  for (const PlanCandidate& candidate : candidates) {
    CHECK_FALSE(std::holds_alternative<SelectiveRecompute>(candidate.recompute));
  }
}

TEST_CASE("No answer's own parts exceed its GPU", "[peers]") {
  PlanRequest request =
      request_for(llama("seq_len: 4096, global_batch: 64, precision: mixed"), {}, {8});
  request.gpus = all_gpus();
  const PlanAnswer answer = search_plans(replayed(request));
  CHECK(answer.best.size() + answer.refused.size() == request.gpus.size());
  for (const PlanVerdict& verdict : answer.best) {
    CHECK(verdict.low <= verdict.capacity);
    if (verdict.verdict == Verdict::fits) {
      CHECK(verdict.high <= verdict.capacity);
      CHECK(verdict.reason.empty());
    } else {
      CHECK(verdict.reason.starts_with("too close to call: "));
    }
  }
  for (const PlanVerdict& verdict : answer.refused) {
    const bool host_is_short = verdict.host && verdict.host->verdict() == Verdict::does_not_fit;
    CHECK((verdict.device > verdict.capacity || host_is_short));
    CHECK_FALSE(verdict.reason.empty());
    CHECK_FALSE(verdict.levers.empty());
  }
}

TEST_CASE("The cheapest a token comes first, answers without a price after it") {
  PlanRequest request =
      request_for(gpt2("seq_len: 1024, global_batch: 64, precision: bf16"),
                  {"h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb", "gb10"}, {8});
  request.prices = {price_of("a100-sxm-80gb", 100), price_of("h100-sxm-80gb", 1)};
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 4);
  CHECK(answer.best[0].candidate.gpu->slug == "h100-sxm-80gb");
  CHECK(answer.best[1].candidate.gpu->slug == "a100-sxm-80gb");
  CHECK(answer.best[2].candidate.gpu->slug == "h200-sxm-141gb");
  // No rate is known, but memory is judged all the same.
  CHECK(answer.best[3].candidate.gpu->slug == "gb10");
  CHECK(std::holds_alternative<Unavailable>(answer.best[3].time));
  CHECK(answer.best[3].verdict == Verdict::fits);
}

namespace {

/// A small Llama under Megatron-core, whose layouts brute force can visit.
Job small_megatron(const std::string& training) {
  return test::job_from(
      "model: {family: decoder, layers: 8, hidden_size: 2048, heads: 16, kv_heads: 4, ffn_size: "
      "5632, vocab_size: 32000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 8192, global_batch: 16, precision: megatron, implementation: {name: "
      "megatron, layers: te}, " +
      training + "}\n");
}

/// The least seconds a token over every layout that estimate_job can be asked for on 8 GPUs.
double least_of_all_layouts(Job job, const Recompute& recompute) {
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t batch = job.global_batch();
  job.hardware.count = 8;
  job.training->recompute = recompute;
  for (const auto& [tensor, context] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}}) {
    for (const std::int64_t pipeline : {1, 2, 4, 8}) {
      if (8 % (tensor * context * pipeline) != 0) continue;
      Parallelism& layout = job.parallelism;
      layout.tensor = tensor;
      layout.sequence = tensor > 1;
      layout.context = context;
      layout.pipeline = pipeline;
      layout.data = 8 / (tensor * context * pipeline);
      for (const std::int64_t stages : {1, 2, 4}) {
        if (8 % (pipeline * stages) != 0 || (pipeline == 1 && stages > 1)) continue;
        layout.virtual_stages = stages;
        layout.schedule = stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
        for (const bool distributed : {false, true}) {
          if (distributed && layout.shard_ranks() == 1) continue;
          layout.distributed_optimizer = distributed;
          layout.zero = distributed ? ZeroStage::optimizer : ZeroStage::none;
          const std::int64_t share = batch / layout.data;
          for (std::int64_t micro_batch = 1; micro_batch <= share; micro_batch *= 2) {
            job.training->micro_batch = micro_batch;
            job.training->gradient_accumulation = share / micro_batch;
            if (stages > 1 && job.training->gradient_accumulation % pipeline != 0) continue;
            std::int64_t fitting = 0;
            for (const std::int64_t rank : {std::int64_t{0}, pipeline - 1}) {
              const Graph graph = std::get<Graph>(lower(job.model, policy_of(job, rank)));
              const Ledger ledger = write_ledger(graph, job, rank);
              const MemoryEstimate memory = estimate_memory(ledger, ledger.bindings);
              if (judge(memory, capacity_of(job.hardware)) == Verdict::fits) ++fitting;
            }
            if (fitting < 2) continue;
            Job whole = job;
            whole.parallelism.pipeline = 1;
            whole.parallelism.virtual_stages = 1;
            const Graph graph = std::get<Graph>(lower(job.model, policy_of(whole)));
            for (const bool overlaps : {false, true}) {
              layout.overlap_grad_reduce = overlaps;
              layout.overlap_param_gather = overlaps && distributed;
              const auto time = estimate_step_time(graph, job, count_flops(graph, job));
              least = std::min(least, std::get<TimeEstimate>(time).step.value() /
                                          static_cast<double>(batch * job.training->seq_len));
            }
          }
        }
      }
    }
  }
  return least;
}

}  // namespace

namespace {

/// The most that any rank of the candidate's pipeline takes, in closed form.
Bytes most_of_all_ranks(Job job, const PlanCandidate& candidate) {
  job.hardware.gpu = *candidate.gpu;
  job.lay_over(candidate.parallelism);
  job.training->micro_batch = candidate.micro_batch;
  job.training->gradient_accumulation = candidate.gradient_accumulation;
  job.training->recompute = candidate.recompute;
  Bytes most;
  for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
    const Graph graph = std::get<Graph>(lower(job.model, policy_of(job, rank)));
    const Ledger ledger = write_ledger(graph, job, rank);
    most = std::max(most, estimate_memory(ledger, ledger.bindings).device());
  }
  return most;
}

}  // namespace

TEST_CASE("No rank of a pipeline takes more than the search says, and one takes as much") {
  const std::string training =
      "training: {seq_len: 2048, global_batch: 64, precision: megatron, implementation: {name: "
      "megatron, layers: te}}\n";
  const std::string decoder =
      "heads: 16, kv_heads: 16, head_dim: 64, vocab_size: 32000, activation: swiglu, norm: "
      "rmsnorm, position: rope";
  struct Model {
    const char* name;
    std::string layers;
    bool own_ends;
  };
  for (const auto& [name, layers, own_ends] :
       {Model{"alike", "layers: 16, hidden_size: 1024, ffn_size: 2816, ", false},
        Model{"eleven", "layers: 11, hidden_size: 1024, ffn_size: 2816, ", true},
        Model{"mixture",
              "layers: 9, hidden_size: 1024, ffn_size: 2816, moe: {experts: 8, top_k: 2, "
              "expert_ffn_size: 1408, dense_layers: 2, capacity_factor: 1.0}, ",
              true}}) {
    INFO(name);
    const Job job =
        test::job_from("model: {family: decoder, " + layers + decoder + "}\n" + training);
    const PlanRequest request = request_for(job, {"a100-sxm-40gb"}, {4, 8, 16});
    const PlanAnswer answer = search_plans(request);
    bool has_pipeline = false;
    bool has_own_ends = false;
    for (const PlanVerdict& verdict : answer.front) {
      const Parallelism& layout = verdict.candidate.parallelism;
      INFO("pipeline " << layout.pipeline << " x " << layout.virtual_stages);
      // The forms of stages have no letter for the number of tensors, each of which has scalars.
      CHECK(std::abs((verdict.device - most_of_all_ranks(job, verdict.candidate)).value()) < 4096);
      has_pipeline = has_pipeline || layout.pipeline > 1;
      has_own_ends = has_own_ends || layout.last_stage_layers > 0;
    }
    CHECK(has_pipeline);
    CHECK(has_own_ends == own_ends);
  }
}

TEST_CASE("so it is where the stages are listed, or the ends of the model count as layers") {
  const std::string sizes =
      "layers: 14, hidden_size: 1024, ffn_size: 2816, heads: 16, kv_heads: 16, head_dim: 64, "
      "vocab_size: 32000, activation: swiglu, norm: rmsnorm, position: rope";
  // Layers of one kind: of others a search looks at three ranks alone.
  const std::string mixture =
      ", moe: {experts: 8, top_k: 2, expert_ffn_size: 1408, capacity_factor: 1.0}";
  bool interleaves = false;
  for (const std::string& experts : {std::string(), mixture}) {
    for (const std::string keys :
         // Of a list a search looks at both ends and at the fullest stage between them: here it is
         // the first of these, which has most micro-batches in flight too.
         {"pipeline: 4, pipeline_layout: [3, 5, 4, 2]",
          "pipeline: 4, pipeline_layout: [0, 7, 7, 0]",
          "pipeline: 4, pipeline_layout: [1, 2, 3, 2, 2, 1, 2, 1]",
          "pipeline: 4, account_for_embedding: true, account_for_loss: true",
          "pipeline: 4, first_stage_layers: 4, last_stage_layers: 2, virtual_stages: 2, schedule: "
          "interleaved",
          "tensor: 1"}) {
      INFO(keys << experts);
      const Job job = test::job_from(
          "model: {family: decoder, " + sizes + experts +
          "}\ntraining: {seq_len: 2048, global_batch: 64, precision: megatron, implementation: "
          "{name: megatron, layers: te}}\nparallelism: {data: 2, " +
          keys + "}\n");
      const PlanRequest request = request_for(job, {"a100-sxm-40gb"}, {8});
      const PlanAnswer answer = search_plans(request);
      CHECK(!answer.front.empty());
      for (const PlanVerdict& verdict : answer.front) {
        const Parallelism& layout = verdict.candidate.parallelism;
        INFO(layout.virtual_stages << " stages a rank");
        // Every expert has tensors of its own, each with scalars.
        const std::int64_t apart = experts.empty() ? 4096 : 4 * kMiB;
        CHECK(std::abs((verdict.device - most_of_all_ranks(job, verdict.candidate)).value()) <
              apart);
        interleaves = interleaves || layout.virtual_stages > 1;
      }
    }
  }
  CHECK(interleaves);
}

TEST_CASE("so it is under torchtitan, whose stages have layers of any number") {
  for (const int pipeline : {2, 4}) {
    for (const int layers : {16, 19}) {
      for (const std::string schedule : {"1f1b", "gpipe", "interleaved"}) {
        const Job job = test::job_from(
            "model: {family: decoder, layers: " + std::to_string(layers) +
            ", hidden_size: 2048, heads: 16, ffn_size: 5632, vocab_size: 32000, activation: "
            "swiglu, "
            "norm: rmsnorm, position: rope}\n"
            "training: {seq_len: 4096, global_batch: 32, implementation: torchtitan}\n"
            "parallelism: {pipeline: " +
            std::to_string(pipeline) + ", schedule: " + schedule + "}\n");
        const PlanRequest request = request_for(job, {"a100-sxm-40gb"}, {8, 16});
        const PlanAnswer answer = search_plans(request);
        INFO(schedule << " over " << pipeline << " ranks, " << layers << " layers");
        REQUIRE(!answer.front.empty());
        for (const PlanVerdict& verdict : answer.front) {
          CHECK(verdict.candidate.parallelism.pipeline == pipeline);
          CHECK(std::abs((verdict.device - most_of_all_ranks(job, verdict.candidate)).value()) <
                4096);
        }
      }
    }
  }
}

TEST_CASE(
    "torchtitan's mixtures are laid out over all ranks but stages, whole ones over expert ranks") {
  const Job job = test::job_from(
      "model: {family: decoder, layers: 12, hidden_size: 2048, heads: 32, kv_heads: 4, head_dim: "
      "128, ffn_size: 6144, vocab_size: 151936, activation: swiglu, norm: rmsnorm, position: rope, "
      "qk_norm: true, moe: {experts: 128, top_k: 8, expert_ffn_size: 768}}\n"
      "training: {seq_len: 4096, global_batch: 64, precision: fsdp2-bf16, implementation: "
      "torchtitan}\n");
  const PlanAnswer answer = search_plans(request_for(job, {"h100-sxm-80gb"}, {8, 16}));
  REQUIRE(answer.best.size() == 2);
  for (const PlanVerdict& verdict : answer.front) {
    const Parallelism& layout = verdict.candidate.parallelism;
    CHECK(layout.fsdp.has_value());
    CHECK((layout.expert == 1 || layout.tensor == 1 || layout.whole_experts()));
    CHECK(layout.ranks_of_experts() % layout.expert == 0);
    CHECK(layout.pipeline == 1);
  }
}

TEST_CASE("Over layouts, too, the search finds what brute force finds") {
  for (const char* gpu : {"h100-sxm-80gb", "rtx-4090", "a100-sxm-40gb"}) {
    for (const char* recompute : {"none", "full"}) {
      const Job job = small_megatron(std::string("recompute: ") + recompute);
      const PlanRequest request = request_for(job, {gpu}, {8});
      const PlanAnswer answer = search_plans(request);
      INFO(gpu << " " << recompute);
      Job brute = job;
      brute.hardware.gpu = request.gpus.front();
      const double least = least_of_all_layouts(brute, job.training->recompute);
      const bool fits = !answer.best.empty() && answer.best.front().verdict == Verdict::fits;
      REQUIRE(fits == (least < std::numeric_limits<double>::infinity()));
      if (!fits) continue;
      // The search takes an interleaved pipeline's time in closed form, the estimate by running it.
      CHECK(std::abs(seconds_per_token(answer.best.front()) / least - 1) < 0.01);
    }
  }
}

TEST_CASE("The time of a plan is that of its estimate, of a pipeline too") {
  Job job = small_megatron("recompute: full");
  job.parallelism.pipeline = 4;
  job.given.pipeline = true;
  const PlanRequest request = request_for(job, {"h100-sxm-80gb"}, {8});
  const PlanAnswer answer = search_plans(request);
  REQUIRE_FALSE(answer.best.empty());
  const PlanCandidate& chosen = answer.best.front().candidate;
  job.hardware.gpu = request.gpus.front();
  job.hardware.count = chosen.gpus;
  job.parallelism = chosen.parallelism;
  job.training->micro_batch = chosen.micro_batch;
  job.training->gradient_accumulation = chosen.gradient_accumulation;
  const JobEstimate estimate = estimate_job(job);
  const auto& planned = std::get<TimeEstimate>(answer.best.front().time);
  const auto& estimated = std::get<TimeEstimate>(estimate.time);
  CHECK(planned.step == estimated.step);
  CHECK(planned.mfu == estimated.mfu);
  CHECK(planned.hfu == estimated.hfu);
}

TEST_CASE("The number of threads changes nothing") {
  PlanRequest request = request_for(small_megatron("clip_gradients: true"),
                                    {"h100-sxm-80gb", "a100-sxm-80gb", "l40s"}, {1, 4, 8, 16});
  request.prices = {price_of("h100-sxm-80gb", 2), price_of("a100-sxm-80gb", 1)};
  const PlanAnswer alone = search_plans(request);
  request.threads = 4;
  const PlanAnswer together = search_plans(request);
  CHECK(alone.candidates == together.candidates);
  REQUIRE(alone.best.size() == together.best.size());
  REQUIRE(alone.front.size() == together.front.size());
  const auto same = [](const PlanVerdict& left, const PlanVerdict& right) {
    CHECK(left.candidate.gpu->slug == right.candidate.gpu->slug);
    CHECK(left.candidate.gpus == right.candidate.gpus);
    CHECK(left.candidate.parallelism.tensor == right.candidate.parallelism.tensor);
    CHECK(left.candidate.parallelism.pipeline == right.candidate.parallelism.pipeline);
    CHECK(left.candidate.micro_batch == right.candidate.micro_batch);
    CHECK(left.device == right.device);
  };
  for (std::size_t i = 0; i < alone.best.size(); ++i) same(alone.best[i], together.best[i]);
  for (std::size_t i = 0; i < alone.front.size(); ++i) same(alone.front[i], together.front[i]);
}

TEST_CASE("No plan of the front is beaten by another in money, time, GPUs and memory at once") {
  PlanRequest request = request_for(small_megatron("clip_gradients: true"),
                                    {"h100-sxm-80gb", "a100-sxm-80gb"}, {2, 4, 8, 16});
  request.prices = {price_of("h100-sxm-80gb", 2), price_of("a100-sxm-80gb", 1)};
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.front.size() > 2);
  const auto measures = [](const PlanVerdict& verdict) {
    return std::array{std::get<CostEstimate>(verdict.cost).per_billion_tokens.value(),
                      seconds_per_token(verdict), static_cast<double>(verdict.candidate.gpus),
                      verdict.high / verdict.capacity};
  };
  for (const PlanVerdict& plan : answer.front) {
    for (const PlanVerdict& other : answer.front) {
      if (&plan == &other) continue;
      const auto mine = measures(plan);
      const auto its = measures(other);
      bool better_somewhere = false;
      for (std::size_t i = 0; i < mine.size(); ++i) better_somewhere |= mine[i] < its[i];
      CHECK(better_somewhere);
    }
  }
}

TEST_CASE("What is too slow for the deadline is refused, and says for how long it would run") {
  PlanRequest request =
      request_for(small_megatron("clip_gradients: true"), {"h100-sxm-80gb"}, {1, 16});
  const PlanAnswer all = search_plans(request);
  REQUIRE(all.best.size() == 2);
  const double slow = std::max(seconds_per_token(all.best[0]), seconds_per_token(all.best[1]));
  constexpr double kTokens = 1e12;
  request.goal = Goal{kTokens, Seconds(0.5 * slow * kTokens)};
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 1);
  CHECK(answer.best.front().candidate.gpus == 16);
  REQUIRE(answer.refused.size() == 1);
  CHECK(answer.refused.front().reason.starts_with("takes "));
}

TEST_CASE("The largest model is the same, however many layers the spec begins with") {
  std::vector<std::int64_t> found;
  for (const char* layers : {"6", "17"}) {
    const Job job = test::job_from(
        std::string("model: {layers: ") + layers +
        ", hidden_size: 2048, heads: 16, kv_heads: 8, ffn_size: 5632, vocab_size: 32000, "
        "activation: swiglu, norm: rmsnorm, moe: {experts: 8, top_k: 2, expert_ffn_size: 1408, "
        "capacity_factor: 1.0}}\ntraining: {seq_len: 2048, gradient_accumulation: 4, precision: "
        "megatron-bf16-grad, implementation: {name: megatron, layers: local}}\n");
    found.push_back(find_largest(request_for(job, {"rtx-3080"}, {4}), Growth::model).front().value);
  }
  CHECK(found[0] == found[1]);
}

TEST_CASE("The largest micro-batch, sequence and model fit by their replay") {
  const PlanRequest request = request_for(small_megatron("recompute: none"), {"rtx-4090"}, {8});
  for (const Growth growth : {Growth::micro_batch, Growth::sequence, Growth::model}) {
    const std::vector<Largest> answers = find_largest(request, growth);
    REQUIRE(answers.size() == 1);
    INFO(name_of(growth) << " " << answers.front().value);
    REQUIRE(answers.front().value > 0);
    const auto& plan = std::get<PlanVerdict>(answers.front().plan);
    CHECK(plan.verdict == Verdict::fits);
    CHECK(plan.replayed);
  }
}

TEST_CASE("Every other value of a setting is answered beside the choice") {
  const PlanRequest request =
      request_for(small_megatron("clip_gradients: true"), {"h100-sxm-80gb"}, {8});
  const PlanAnswer answer = search_plans(request);
  REQUIRE_FALSE(answer.best.empty());
  const PlanVerdict& chosen = answer.best.front();
  const std::vector<Alternative> others = alternatives_to(request, chosen);
  REQUIRE(others.size() > 4);
  for (const Alternative& other : others) {
    INFO(other.name);
    CHECK((other.verdict.verdict != Verdict::fits ||
           seconds_per_token(other.verdict) >= 0.999 * seconds_per_token(chosen)));
  }
}

TEST_CASE("On one GPU nothing is sharded") {
  const PlanAnswer answer = search_plans(
      request_for(gpt2("seq_len: 1024, global_batch: 8, precision: bf16"), {"a10"}, {1}));
  REQUIRE(answer.best.size() == 1);
  CHECK(answer.best.front().candidate.parallelism.zero == ZeroStage::none);
}

TEST_CASE("A model without a graph is not searched, and the answer says why") {
  Job job = gpt2("seq_len: 1024");
  job.training.reset();
  CHECK(std::holds_alternative<Unavailable>(
      search_plans(request_for(job, {"a10"}, {1})).unavailable));
}

TEST_CASE("adapters are planned on several GPUs as replicas, as an estimate answers them") {
  const char* const adapter =
      GENERATE("lora: {rank: 8, targets: [q_proj]}", "dora: {rank: 8, targets: [q_proj]}",
               "ia3: {targets: [k_proj]}");
  const Job job = llama("seq_len: 1024, global_batch: 8, precision: bf16, adapter: {" +
                        std::string(adapter) + "}");
  const PlanRequest request = replayed(request_for(job, {"h200-sxm-141gb"}, {1, 8}));
  const PlanAnswer both = search_plans(request);
  REQUIRE(both.best.size() == 2);
  for (const PlanVerdict& best : both.best) {
    const PlanCandidate& candidate = best.candidate;
    CHECK(candidate.parallelism.zero == ZeroStage::none);
    CHECK_FALSE(candidate.parallelism.fsdp);
    Job estimated = job;
    estimated.hardware.gpu = *candidate.gpu;
    estimated.hardware.count = candidate.gpus;
    estimated.lay_over(candidate.parallelism);
    estimated.training->micro_batch = candidate.micro_batch;
    estimated.training->gradient_accumulation = candidate.gradient_accumulation;
    estimated.training->recompute = candidate.recompute;
    const JobEstimate estimate = estimate_job(estimated);
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(*memory.reserved() + memory.estimate.outside == best.device);
  }
}

}  // namespace memest
