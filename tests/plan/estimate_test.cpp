#include "memest/plan/estimate.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "jobs.hpp"

namespace memest {
namespace {

using Catch::Approx;
using test::gpt2;
using test::llama;
using test::memory_of;

const FlopsEstimate& flops_of(const JobEstimate& estimate) {
  return std::get<FlopsEstimate>(estimate.flops);
}
const TimeEstimate& time_of(const JobEstimate& estimate) {
  return std::get<TimeEstimate>(estimate.time);
}
Bytes saved_of(const JobEstimate& estimate) { return std::get<Bytes>(memory_of(estimate).saved); }

}  // namespace

TEST_CASE("bytes under any release are told at least as widely as under the recorded ones") {
  Job job = gpt2("seq_len: 1024, micro_batch: 8", "hardware: {gpu: h100-sxm-80gb}");
  job.source_margins = {};
  const MemoryAnswer recorded = memory_of(estimate_job(job));
  CHECK_FALSE(recorded.device_of_any_release());
  CHECK_FALSE(recorded.reserved_of_any_release());

  job.source_margins.device = {.low = 0.25, .high = 0.5, .runs = 9, .sources = 3, .held = 0.8};
  job.source_margins.reserved = {.low = 0, .high = 0.25, .runs = 9, .sources = 3, .held = 0.8};
  const MemoryAnswer any = memory_of(estimate_job(job));
  const BytesInterval device = *any.device_of_any_release();
  CHECK(device.expected == recorded.device());
  CHECK(device.low == device.expected - share_rounded_up(device.expected, 0.25));
  CHECK(device.high == device.expected + share_rounded_up(device.expected, 0.5));
  const BytesInterval reserved = *any.reserved_of_any_release();
  CHECK(reserved.low <= reserved.expected);
  CHECK(reserved.high == *any.reserved() + share_rounded_up(*any.reserved(), 0.25));
  // The verdict, and its interval, are of the recorded releases.
  CHECK(any.low() == recorded.low());
  CHECK(any.high() == recorded.high());
  CHECK(any.verdict == recorded.verdict);

  job.source_margins.device = {.low = 0, .high = 0, .runs = 9, .sources = 3, .held = 0.8};
  const BytesInterval narrow = *memory_of(estimate_job(job)).device_of_any_release();
  CHECK(narrow.low == recorded.low());
  CHECK(narrow.high == recorded.high());
}

// Recorded with torch 2.11 FlopCounterMode and saved-tensor hooks, transformers 5.17.
TEST_CASE("GPT-2's FLOPs and saved bytes are those recorded") {
  const JobEstimate estimate =
      estimate_job(gpt2("seq_len: 1024, micro_batch: 8, precision: fp32, implementation: "
                        "{name: transformers, attention: sdpa}",
                        "hardware: {gpu: h200-sxm-141gb}"));
  CHECK(flops_of(estimate).forward == Flops(2333186457600));
  CHECK(flops_of(estimate).backward == Flops(4820991737856));
  CHECK(saved_of(estimate) == Bytes(10316652548));
}

TEST_CASE("Llama-3-8B: every parameter, and the conventions in closed form") {
  const JobEstimate estimate = estimate_job(llama("seq_len: 8192, precision: bf16"));
  CHECK(estimate.parameters.total == 8'030'261'248);
  const std::int64_t tokens = 8192;
  CHECK(flops_of(estimate).model == Flops(6 * Int128{8'030'261'248} * tokens));
  CHECK(flops_of(estimate).palm - flops_of(estimate).model ==
        Flops(Int128{12} * 32 * 32 * 128 * 8192 * tokens));
  CHECK(
      flops_of(estimate).megatron ==
      Flops((6 * Int128{estimate.parameters.matmul} + Int128{6} * 32 * 32 * 128 * 8192) * tokens));
  // Twice the forward, and half a forward more for the attention's scores; the rotary table has no
  // gradient.
  const Int128 attention = Int128{4} * 32 * 32 * 128 * 8192 * tokens;
  const Int128 matmuls = Int128{2} * estimate.parameters.matmul * tokens;
  CHECK(flops_of(estimate).backward.value() == 2 * matmuls + 5 * attention / 2);
  CHECK(flops_of(estimate).forward.value() == matmuls + attention + 128 * tokens);
}

TEST_CASE("What the layers keep is what the model keeps, less embedding, head and loss") {
  const JobEstimate none =
      estimate_job(test::gpt2("seq_len: 1024, micro_batch: 8, precision: bf16"));
  const std::vector<Bytes>& layers = memory_of(none).saved_by_layer;
  REQUIRE(layers.size() == 12);
  Bytes together;
  for (const Bytes layer : layers) together += layer;
  CHECK(together < saved_of(none));
  CHECK(layers[1] == layers[11]);
  const JobEstimate selective = estimate_job(
      test::gpt2("seq_len: 1024, micro_batch: 8, precision: bf16, recompute: selective, "
                 "implementation: {name: transformers, attention: eager}"));
  const JobEstimate eager =
      estimate_job(test::gpt2("seq_len: 1024, micro_batch: 8, precision: bf16, "
                              "implementation: {name: transformers, attention: eager}"));
  CHECK(memory_of(selective).saved_by_layer[1] < memory_of(eager).saved_by_layer[1]);
  const JobEstimate full =
      estimate_job(test::gpt2("seq_len: 1024, micro_batch: 8, precision: bf16, recompute: full"));
  CHECK(memory_of(full).saved_by_layer.empty());
}

TEST_CASE("Ranks that divide a sequence run equal parts of its FLOPs, a ring as an exchange") {
  const auto of_layout = [](const std::string& parallelism) {
    return estimate_job(
        llama("seq_len: 32768, micro_batch: 1, precision: megatron, recompute: full, "
              "implementation: {name: megatron, layers: te}",
              "parallelism: {" + parallelism +
                  "}\n"
                  "hardware: {gpu: h100-sxm-80gb, count: 8}\n"));
  };
  const JobEstimate whole = of_layout("data: 8");
  const JobEstimate ring = of_layout("data: 2, context: 4");
  const JobEstimate exchange = of_layout("data: 2, context: 4, context_exchange: all-to-all");
  for (const JobEstimate* part : {&ring, &exchange}) {
    CHECK(flops_of(*part).executed() * 4 == flops_of(whole).executed());
    CHECK(flops_of(*part).model * 4 == flops_of(whole).model);
    CHECK(flops_of(*part).palm * 4 == flops_of(whole).palm);
    const auto& time = std::get<TimeEstimate>(part->time);
    // No faster than a quarter, and messages and shorter products cost no more than a third.
    const double quarter = std::get<TimeEstimate>(whole.time).step.value() / 4;
    CHECK(time.step.value() > quarter);
    CHECK(time.step.value() < 4.0 / 3 * quarter);
  }
}

TEST_CASE("Recompute keeps inputs alone, and runs the layers again up to the last saved tensor") {
  const std::string training = "seq_len: 2048, micro_batch: 2, precision: bf16, recompute: ";
  const JobEstimate none = estimate_job(llama(training + "none"));
  const JobEstimate full = estimate_job(llama(training + "full"));
  const std::int64_t tokens = 2 * 2048;
  const std::int64_t inputs = std::int64_t{32} * 2 * tokens * 4096;
  const std::int64_t logits = std::int64_t{4} * tokens * 128256;
  const std::int64_t outside =
      logits + 6 * tokens * 4096 + 4 * tokens + 2 * tokens * 4096 + 2 * 8 * tokens + 4;
  CHECK(saved_of(full) == Bytes(inputs + outside));
  CHECK(saved_of(full) < saved_of(none));
  // The down projection is the last to save, and only its input: it is not run again.
  const Int128 down = Int128{2} * tokens * 14336 * 4096;
  const Int128 head = Int128{2} * tokens * 4096 * 128256;
  const Int128 rotary = Int128{2} * 64 * 2048;
  const Int128 forward = flops_of(none).forward.value();
  CHECK(flops_of(full).backward.value() - flops_of(none).backward.value() ==
        forward - head - rotary - 32 * down);
}

TEST_CASE("A pipeline's ranks run again what Megatron's method block names in their own stages") {
  const auto executed = [](const std::string& recompute, const std::string& pipeline) {
    const Job job = test::job_from(
        "model: {family: decoder, layers: 8, hidden_size: 512, heads: 8, vocab_size: 2048, "
        "activation: swiglu, norm: rmsnorm, position: rope, dropout: 0.0}\n"
        "training: {seq_len: 256, gradient_accumulation: 4, precision: megatron, implementation: "
        "megatron, recompute: " +
        recompute + "}\nparallelism: {pipeline: 2" + pipeline +
        "}\nhardware: {gpu: h100-sxm-80gb, count: 2}\n");
    return flops_of(estimate_job(job)).executed().value();
  };
  const std::string interleaved = ", virtual_stages: 2, schedule: interleaved";
  const auto four_layers = executed("full", "") - executed("none", "");
  for (const std::string& stages : {std::string(), std::string(", first_stage_layers: 4")}) {
    CHECK(4 * (executed("{full: {method: block, layers: 1}}", stages) - executed("none", stages)) ==
          four_layers);
  }
  CHECK(2 * (executed("{full: {method: block, layers: 1}}", interleaved) -
             executed("none", interleaved)) ==
        four_layers);
}

TEST_CASE("a split that is said by a list is that which is said by numbers, to byte and second") {
  const auto estimate = [](int layers, const std::string& keys) {
    return estimate_job(test::job_from(
        "model: {family: decoder, layers: " + std::to_string(layers) +
        ", hidden_size: 512, heads: 8, vocab_size: 2048, activation: swiglu, norm: rmsnorm, "
        "position: rope, dropout: 0.0}\ntraining: {seq_len: 256, gradient_accumulation: 8, "
        "precision: megatron, implementation: megatron, recompute: full}\nparallelism: {data: 2, "
        "pipeline: 4, distributed_optimizer: true, " +
        keys + "}\nhardware: {gpu: h100-sxm-80gb, count: 8}\n"));
  };
  struct Split {
    int layers;
    const char* numbers;
    const char* list;
  };
  for (const auto& [layers, numbers, list] :
       {Split{8, "schedule: 1f1b", "pipeline_layout: [2, 2, 2, 2]"},
        Split{8, "virtual_stages: 2, schedule: interleaved", "pipeline_layout: \"Et|(t|)*6tL\""},
        Split{9, "first_stage_layers: 2, last_stage_layers: 1", "pipeline_layout: [2, 3, 3, 1]"},
        Split{14, "virtual_stages: 2, schedule: interleaved, first_stage_layers: 2",
              "pipeline_layout: [1, 2, 2, 2, 1, 2, 2, 2]"},
        Split{14, "account_for_embedding: true, account_for_loss: true",
              "pipeline_layout: \"Et*3|(t*4|)*2t*3L\""},
        Split{7, "account_for_loss: true, virtual_stages: 2, schedule: interleaved",
              "pipeline_layout: [1, 1, 1, 1, 1, 1, 1, 0]"}}) {
    INFO(numbers);
    const JobEstimate said = estimate(layers, numbers);
    const JobEstimate listed = estimate(layers, list);
    CHECK(memory_of(said).allocated() == memory_of(listed).allocated());
    CHECK(memory_of(said).device() == memory_of(listed).device());
    CHECK(memory_of(said).ranks.rank == memory_of(listed).ranks.rank);
    CHECK(flops_of(said).executed() == flops_of(listed).executed());
    CHECK(time_of(said).step == time_of(listed).step);
    REQUIRE(said.other_ranks.size() == listed.other_ranks.size());
    for (std::size_t i = 0; i < said.other_ranks.size(); ++i) {
      CHECK(said.other_ranks[i].allocated() == listed.other_ranks[i].allocated());
    }
  }
}

TEST_CASE("Activations shrink with grouped-query attention", "[peers]") {
  const auto saved_with = [](int kv_heads) {
    return saved_of(estimate_job(test::job_from(
        "model: {family: decoder, layers: 4, hidden_size: 1024, heads: 16, kv_heads: " +
        std::to_string(kv_heads) +
        ", vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
        "training: {seq_len: 512, precision: bf16, implementation: {name: transformers, "
        "attention: sdpa-flash}}\n")));
  };
  // Keys and values of 16 against 4 heads of 64 in bf16, over 512 tokens and 4 layers.
  CHECK(saved_with(16) - saved_with(4) == Bytes(std::int64_t{2} * 2 * 12 * 64 * 512 * 4));
}

TEST_CASE("A larger micro-batch is as many FLOPs a token, and accumulation multiplies the step") {
  const auto flops_with = [](const std::string& batch) {
    return flops_of(estimate_job(gpt2("seq_len: 512, precision: bf16, " + batch)));
  };
  const FlopsEstimate one = flops_with("micro_batch: 1");
  CHECK(flops_with("micro_batch: 4").forward == one.forward * 4);
  CHECK(flops_with("micro_batch: 1, gradient_accumulation: 4").backward == one.backward * 4);
}

TEST_CASE("Money is price times time times all GPUs") {
  const JobEstimate estimate =
      estimate_job(gpt2("seq_len: 1024, micro_batch: 8, gradient_accumulation: 2",
                        "parallelism: {data: 4}\n"
                        "hardware: {gpu: h100-sxm-80gb, count: 4, price: 3 USD/h}"));
  const auto& cost = std::get<CostEstimate>(estimate.cost);
  CHECK(cost.per_hour.value() == Approx(12));
  CHECK(cost.per_step.value() == Approx(12 * time_of(estimate).step.value() / 3600));
  const double tokens = 8.0 * 1024 * 2 * 4;
  CHECK(cost.per_billion_tokens.value() == Approx(cost.per_step.value() * 1e9 / tokens));
}

TEST_CASE("Without a price or a rate the answer says so and keeps the rest") {
  Job job = gpt2("seq_len: 1024, precision: bf16", "hardware: {gpu: gb10}");
  job.hardware.price.reset();
  const JobEstimate estimate = estimate_job(job);
  CHECK(std::holds_alternative<MemoryAnswer>(estimate.memory));
  CHECK(std::holds_alternative<FlopsEstimate>(estimate.flops));
  CHECK(std::get<Unavailable>(estimate.time).sentence.starts_with("no bf16 rate is known for"));
  CHECK(std::get<Unavailable>(estimate.cost).sentence.starts_with("no price is known for"));
  job.hardware.price = DollarsPerHour(1);
  CHECK(std::get<Unavailable>(estimate_job(job).cost).sentence.starts_with("no bf16 rate"));
}

TEST_CASE("A model without training has parameters and nothing else") {
  Job job = gpt2("seq_len: 1024");
  job.training.reset();
  const JobEstimate estimate = estimate_job(job);
  CHECK(estimate.parameters.total == 124'439'808);
  CHECK(std::get<Unavailable>(estimate.memory).sentence ==
        "the spec describes a model without training or inference");
  CHECK(std::holds_alternative<Unavailable>(estimate.cost));
}

TEST_CASE("a GPU without a compute capability is lowered for 8.0, and an estimate says so") {
  GpuSpec gpu;
  CHECK(lowered_capability(gpu) == kAmpere);
  gpu.target = GfxTarget{9, 4, 2};
  CHECK(lowered_capability(gpu) == kAmpere);
  gpu.target = ComputeCapability{10, 3};
  CHECK(lowered_capability(gpu) == ComputeCapability{10, 3});
  const JobEstimate amd =
      estimate_job(gpt2("seq_len: 1024, precision: bf16", "hardware: {gpu: mi300x}"));
  CHECK(amd.assumptions.size() == 1);
  CHECK(estimate_job(gpt2("seq_len: 1024")).assumptions.empty());
}

TEST_CASE("The memory verdict follows the capacity, not the name on the card", "[peers]") {
  const JobEstimate estimate = estimate_job(
      llama("seq_len: 8192, precision: bf16, micro_batch: 4", "hardware: {gpu: rtx-4090}"));
  CHECK(memory_of(estimate).verdict == Verdict::does_not_fit);
  CHECK(memory_of(estimate).capacity.bytes == Bytes(25253904384));
}

TEST_CASE("Where no closed form is known, the terms are what the replay found at its peak") {
  const JobEstimate estimate = estimate_job(test::job_from(
      "model: {family: decoder, layers: 4, hidden_size: 256, heads: 4, kv_heads: 2, ffn_size: 768, "
      "vocab_size: 1024, activation: swiglu, norm: rmsnorm, position: rope, bias: false, "
      "dropout: 0.0, tied_embeddings: false}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: megatron, implementation: {name: "
      "megatron, layers: local, attention: unfused}}\n"
      "parallelism: {data: 4, zero: 3}\n"
      "hardware: {gpu: h200-sxm-141gb, count: 4}\n"));
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  CHECK_FALSE(memory.closed_form.has_value());
  CHECK(memory.estimate.allocated() == memory.allocated());
  CHECK(memory.estimate.outside > Bytes());
  CHECK(memory.device() == *memory.reserved() + memory.estimate.outside);
}

TEST_CASE("a formula's replicas hold what one of them holds: no program reduces them in buckets") {
  const std::string training = "seq_len: 128, micro_batch: 2, implementation: textbook";
  const std::string gpu = "hardware: {gpu: h100-sxm-80gb}";
  const MemoryAnswer alone = memory_of(estimate_job(gpt2(training, gpu)));
  const MemoryAnswer replicas =
      memory_of(estimate_job(gpt2(training, gpu + "\nparallelism: {data: 2}")));
  REQUIRE(replicas.replayed() != nullptr);
  CHECK(replicas.allocated() == alone.allocated());
  CHECK(replicas.estimate.allocated() == alone.estimate.allocated());
}

TEST_CASE("a release of Transformer Engine keeps unread gradients of shapes, one each, or none") {
  constexpr std::int64_t kHidden = 256;
  constexpr std::int64_t kExpert = 96;
  const auto kept = [](const std::string& release) {
    const JobEstimate estimate = estimate_job(test::job_from(
        "model: {family: decoder, layers: 2, hidden_size: 256, heads: 4, ffn_size: 512, "
        "vocab_size: 1024, activation: swiglu, norm: rmsnorm, position: rope, moe: {experts: 4, "
        "top_k: 2, expert_ffn_size: 96}}\n"
        "training: {seq_len: 128, precision: megatron, implementation: {name: megatron, layers: "
        "te, transformer_engine: " +
        release + "}}\nhardware: {gpu: h200-sxm-141gb}\n"));
    Bytes bytes;
    const MemoryAnswer& memory = memory_of(estimate);
    for (const Term& term : memory.estimate.terms) {
      const LedgerTerm& named = memory.ledger.terms[term.index];
      if (named.name == "unread gradient of a weight's shape") bytes += term.value;
    }
    return bytes;
  };
  const Bytes attention(2 * (3 + 1) * kHidden * kHidden);
  const Bytes experts(2 * (2 + 1) * kExpert * kHidden);
  CHECK(kept("'2.11'") == attention + experts);
  CHECK(kept("'2.9'") == attention);
  CHECK(kept("'2.2'") == Bytes());
}

TEST_CASE("what nobody recorded has an interval as wide as any") {
  const auto margins = [](const std::string& parallelism) {
    const Job job = test::job_from(
        "model: mixtral-8x7b\ntraining: {seq_len: 4096, precision: megatron, implementation: "
        "{name: megatron, layers: te}}\nparallelism: " +
        parallelism + "\nhardware: {gpu: h100-sxm-80gb, count: 16}\n");
    return job.margins().replay.kept;
  };
  const Margin recorded = margins("{data: 16, expert: 8}");
  const Margin divided = margins("{data: 8, context: 2, expert: 8}");
  CHECK(recorded.scale == RunScale::several_gpus);
  CHECK(divided.scale == RunScale::unrecorded);
  CHECK(divided.low >= recorded.low);
  CHECK(divided.high >= recorded.high);
}

TEST_CASE("what every second layer saves is half of what all do and half of their checkpoints") {
  const auto saved = [](const std::string& recompute) {
    return saved_of(estimate_job(
        test::job_from("model: llama-3-8b\ntraining: {seq_len: 2048, precision: fsdp2-bf16, "
                       "recompute: " +
                       recompute +
                       ", implementation: torchtitan}\nparallelism: {data: 8, fsdp: {version: "
                       "2}}\nhardware: {gpu: h100-sxm-80gb, count: 8}\n")));
  };
  const Bytes layer = saved("none") - saved("{every: 32}");
  CHECK(saved("none") - saved("{every: 2}") == layer * 16);
  CHECK(saved("none") - saved("{every: 3}") == layer * 10);
}

TEST_CASE("layers of two kinds under one checkpoint keep the tables that each reads") {
  // Local and global layers: the second kind's tables are no argument of the first layer.
  const JobEstimate estimate = estimate_job(test::job_from(
      "model: gemma-3-270m\n"
      "training: {seq_len: 1024, global_batch: 2, precision: bf16, recompute: {every: 4}}\n"
      "hardware: {gpu: h100-sxm-80gb}\n"));
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  REQUIRE(memory.replayed() != nullptr);
  CHECK(memory.allocated() <= *memory.reserved());
}

}  // namespace memest
