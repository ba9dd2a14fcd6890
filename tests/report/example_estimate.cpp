#include "example_estimate.hpp"

namespace memest {

Job example_job() {
  Job job;
  job.name = "tiny.yaml";
  job.model.name = "tiny";
  TrainingSpec training;
  training.seq_len = 1024;
  training.micro_batch = 2;
  training.gradient_accumulation = 4;
  training.recipe.name = "mixed";
  training.optimizer.name = "adamw";
  training.optimizer.rule = OptimizerRule::adamw;
  job.training = training;
  job.hardware.gpu.slug = "card-24gb";
  job.hardware.gpu.name = "Card 24GB";
  job.hardware.gpu.capacity = {Bytes(24 * kGiB), Provenance::public_, "its driver", ""};
  job.hardware.gpu.memory_bandwidth = {BytesPerSecond(1e12), Provenance::datasheet, "S", ""};
  job.hardware.price = DollarsPerHour(1.5);
  job.hardware.price_source = "a cloud, 2025-11";
  return job;
}

namespace {

Ledger example_ledger() {
  const Expr parameters = Symbol::parameters;
  Ledger ledger;
  ledger.terms = {
      {"weights", TermGroup::weights, 2 * parameters, "ZeRO, section 3.1", ""},
      {"gradients", TermGroup::gradients, 2 * parameters, "ZeRO, section 3.1", ""},
      {"optimizer states", TermGroup::optimizer, 12 * parameters, "ZeRO, section 3.1", ""},
      {"activations", TermGroup::activations,
       Expr(2) * Symbol::micro_batch * Symbol::seq_len * Symbol::hidden_size, "the graph", ""},
      {"CUDA context", TermGroup::overhead, Expr(kGiB / 2), "configs/gpus", "by GPU"},
  };
  ledger.instants = {{"end of forward", {0, 2, 3}}, {"optimizer step", {0, 1, 2, 3}}};
  ledger.bindings.set(Symbol::parameters, kGiB)
      .set(Symbol::micro_batch, 2)
      .set(Symbol::seq_len, 1024)
      .set(Symbol::hidden_size, 1024 * 1024);
  ledger.outside_allocator = {4};
  return ledger;
}

}  // namespace

JobEstimate example_estimate() {
  MemoryAnswer memory;
  memory.ledger = example_ledger();
  MemoryEstimate& estimate = memory.estimate;
  estimate.terms = {{0, Bytes(2 * kGiB)},
                    {1, Bytes(2 * kGiB)},
                    {2, Bytes(12 * kGiB)},
                    {3, Bytes(4 * kGiB)},
                    {4, Bytes(kGiB / 2)}};
  estimate.instants = {{0, Bytes(18 * kGiB)}, {1, Bytes(20 * kGiB)}};
  estimate.peak = 1;
  estimate.margin.low = 0.01;
  estimate.margin.high = 0.05;
  estimate.outside = estimate.outside_low = estimate.outside_high = Bytes(kGiB / 2);
  memory.closed_form = Bytes(20 * kGiB);
  memory.moments = {{"optimizer step", Bytes(20 * kGiB)}, {"end of forward", Bytes(18 * kGiB)}};
  memory.capacity = {Bytes(24 * kGiB), false};
  memory.verdict = Verdict::fits;
  memory.simple = {Bytes(16 * kGiB), Bytes(2 * kGiB), 3};
  memory.saved = Bytes(4 * kGiB);

  TimeEstimate time;
  time.step = Seconds(2);
  time.low = Seconds(1.5);
  time.high = Seconds(3);
  time.mfu = 0.4;
  time.hfu = 0.5;
  time.tokens_per_second_per_gpu = 4096;
  time.ridge_point = 300;
  time.ops = {
      {"layer", "down_proj", OpClass::contraction, Seconds(0.5), Bound::compute, 800, 0, 0, {}}};
  time.rule = "A rule of thumb.";

  JobEstimate answer;
  answer.memory = memory;
  answer.flops = FlopsEstimate{};
  answer.time = time;
  answer.cost = CostEstimate{Dollars(1.5), Dollars(0.001), Dollars(101.7), "a cloud, 2025-11"};
  answer.parameters.total = answer.parameters.trainable = answer.parameters.active = kGiB;
  answer.parameters.tensors = 12;
  auto& flops = std::get<FlopsEstimate>(answer.flops);
  flops.forward = Flops(1'000'000'000'000'000);
  flops.backward = Flops(2'000'000'000'000'000);
  flops.model = flops.palm = flops.megatron = Flops(2'900'000'000'000'000);
  return answer;
}

}  // namespace memest
