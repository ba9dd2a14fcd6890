#include "memest/time/step_time.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/time/kernel_law.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using Catch::Approx;
using test::add_op;
using test::attention_op;
using test::dropout_op;
using test::kH;
using test::linear_op;
using test::stack_job;
using test::stack_of;

constexpr std::int64_t kLayers = 8;
constexpr std::int64_t kHidden = 4096;

TimeEstimate time_of(const Graph& graph, const Job& job) {
  const auto answer = estimate_step_time(graph, job, count_flops(graph, job));
  REQUIRE(std::holds_alternative<TimeEstimate>(answer));
  return std::get<TimeEstimate>(answer);
}

std::string reason_of(const Graph& graph, const Job& job) {
  const auto answer = estimate_step_time(graph, job, count_flops(graph, job));
  REQUIRE(std::holds_alternative<Unavailable>(answer));
  return std::get<Unavailable>(answer).sentence;
}

const OpTime& op_named(const TimeEstimate& time, std::string_view name) {
  const auto found = std::find_if(time.ops.begin(), time.ops.end(),
                                  [&](const OpTime& op) { return op.op == name; });
  REQUIRE(found != time.ops.end());
  return *found;
}

Graph linears() { return stack_of({linear_op("a", 0, 1)}, kLayers, kHidden); }

}  // namespace

TEST_CASE("The ridge point is the datasheet's FLOP/s over its B/s") {
  CHECK(time_of(linears(), stack_job(kLayers, kHidden)).ridge_point == Approx(100));
}

namespace {

/// ZeRO over so many GPUs of nodes of eight, with the optimizer's states on the host.
Job offloading_job(std::int64_t data, ZeroStage stage) {
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.data = data;
  job.hardware.count = data;
  job.parallelism.zero = stage;
  job.parallelism.offload.optimizer = true;
  job.hardware.gpu.pcie_generation = Fact<std::int64_t>{5, Provenance::datasheet, "test", ""};
  return job;
}

double seconds_of(const TimeEstimate& time, std::string_view block) {
  double sum = 0;
  for (const OpTime& op : time.ops) {
    if (op.block == block) sum += op.seconds.value();
  }
  return sum;
}

}  // namespace

TEST_CASE("A node's ranks step their shards through one host's memory") {
  const auto on_host = [](std::int64_t data) {
    const Job job = offloading_job(data, ZeroStage::optimizer_gradients);
    return seconds_of(time_of(linears(), job), "optimizer on the host");
  };
  // Half of the shard each, twice the ranks on the host; two nodes have two hosts.
  CHECK(on_host(4) == Approx(on_host(8)));
  CHECK(on_host(16) == Approx(on_host(8) / 2));
}

TEST_CASE("Offloaded weights cross PCIe in both passes of every micro-step") {
  Job job = offloading_job(8, ZeroStage::optimizer_gradients_weights);
  // No pass is long enough to hide anything, but for what its launches take.
  job.hardware.gpu.memory_bandwidth->value = BytesPerSecond(1e18);
  for (auto& [type, peak] : job.hardware.gpu.peak) peak.value = FlopsPerSecond(1e21);
  job.training->micro_batch = 1;
  job.training->seq_len = 1;
  const auto host_seconds = [&](std::int64_t micro_steps, bool parameters) {
    job.training->gradient_accumulation = micro_steps;
    job.parallelism.offload.parameters = parameters;
    return seconds_of(time_of(linears(), job), "host");
  };
  const double weights = host_seconds(2, true) - host_seconds(1, true);
  CHECK(host_seconds(4, true) - host_seconds(2, true) == Approx(2 * weights));
  // Else in every micro-step gradients alone cross, as many bytes as one pass's weights.
  CHECK(weights == Approx(3 * (host_seconds(2, false) - host_seconds(1, false))).epsilon(0.04));
}

TEST_CASE(
    "Behind NVMe the optimizer reads four tensors in fp32 and writes four, at the node's rate") {
  Job job = offloading_job(8, ZeroStage::optimizer_gradients_weights);
  const double in_memory = seconds_of(time_of(linears(), job), "optimizer on the host");
  job.parallelism.offload.optimizer_on_nvme = true;
  CHECK(reason_of(linears(), job).find("write hardware.nvme") != std::string::npos);
  job.hardware.nvme = BytesPerSecond(5e9);
  const double behind = seconds_of(time_of(linears(), job), "optimizer on the host");
  const auto parameters = static_cast<double>((kLayers + 1) * kHidden * kHidden);  // and the head
  CHECK(behind - in_memory == Approx(8 * 4 * parameters / 5e9));
}

TEST_CASE("Without PCIe's generation, or page-locked memory, an offload has no time") {
  Job job = offloading_job(8, ZeroStage::optimizer_gradients);
  job.parallelism.offload.pinned = false;
  CHECK(reason_of(linears(), job).find("not page-locked") != std::string::npos);
  job.parallelism.offload.pinned = true;
  job.hardware.gpu.pcie_generation.reset();
  CHECK(reason_of(linears(), job).find("no PCIe generation is known") != std::string::npos);
}

TEST_CASE("A matmul of few rows is memory-bound, one of many compute-bound") {
  Job few = stack_job(kLayers, kHidden);
  few.training->micro_batch = 1;
  few.training->seq_len = 1;
  const TimeEstimate one_row = time_of(linears(), few);
  CHECK(op_named(one_row, "a").bound == Bound::memory);
  CHECK(op_named(one_row, "a").intensity == Approx(1).epsilon(0.01));
  const TimeEstimate many_rows = time_of(linears(), stack_job(kLayers, kHidden));
  CHECK(op_named(many_rows, "a").bound == Bound::compute);
  CHECK(op_named(many_rows, "a").intensity > many_rows.ridge_point);
}

TEST_CASE("A tiny kernel is bound by its launch") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, 16);
  Job job = stack_job(kLayers, 16);
  job.training->seq_len = 16;
  CHECK(op_named(time_of(graph, job), "a").bound == Bound::launch);
}

TEST_CASE("Passes of short kernels take as long as the host launches them, and the GPU waits") {
  const Graph graph = stack_of({linear_op("a", 0, 1), linear_op("b", 1, 2)}, kLayers, 16);
  Job job = stack_job(kLayers, 16);
  job.training->seq_len = 16;
  const auto waited = [&] { return seconds_of(time_of(graph, job), "host launches"); };
  // A product is one launch forward and two backward: 22.4 us between two forward ones without
  // autograd, 1.28 times that with it, and 0.58 of that between backward ones.
  const double launches = 1.28 * 22.4e-6 * (1 + 2 * 0.58) * static_cast<double>(2 * kLayers + 1);
  double kernels = 0;
  for (const char* block : {"layer", "head"}) {
    kernels += seconds_of(time_of(graph, job), block);
  }
  CHECK(waited() + kernels == Approx(launches));
  const double eager = waited();
  job.training->recompute = FullRecompute{};
  CHECK(waited() > eager);
  job.training->recompute = NoRecompute{};
  job.training->implementation.compile = CompileScope::blocks;
  CHECK(waited() < eager / 2);
}

TEST_CASE("Megatron's modules take the host longer than others") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, 16);
  Job job = stack_job(kLayers, 16);
  job.training->seq_len = 16;
  const TimeEstimate eager = time_of(graph, job);
  job.training->implementation.framework = Framework::megatron;
  const TimeEstimate megatron = time_of(graph, job);
  // A launch of a forward takes 1.8 times as long, one of a backward 1.3 times.
  const auto passes = [](const TimeEstimate& time) {
    return seconds_of(time, "host launches") + seconds_of(time, "layer") + seconds_of(time, "head");
  };
  CHECK(passes(megatron) / passes(eager) == Approx((1.8 + 1.3 * 2 * 0.58) / (1 + 2 * 0.58)));
}

TEST_CASE("Nobody waits for the launches of long kernels") {
  const TimeEstimate time = time_of(linears(), stack_job(kLayers, kHidden));
  CHECK(std::none_of(time.ops.begin(), time.ops.end(),
                     [](const OpTime& op) { return op.block == "host launches"; }));
}

TEST_CASE("The interval holds the estimate, and parts add up to it") {
  const Graph graph =
      stack_of({linear_op("a", 0, 1), attention_op(1, 2), dropout_op(2, 3, 4)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  job.hardware.count = 8;
  job.parallelism.data = 8;
  job.training->gradient_accumulation = 3;
  const TimeEstimate time = time_of(graph, job);
  CHECK(time.low < time.step);
  CHECK(time.step < time.high);
  double sum = 0;
  for (const OpTime& op : time.ops) sum += op.seconds.value();
  CHECK(sum == Approx(time.step.value()));
  CHECK(std::is_sorted(
      time.ops.begin(), time.ops.end(),
      [](const OpTime& left, const OpTime& right) { return left.seconds > right.seconds; }));
}

TEST_CASE("HFU is MFU with the recomputed FLOPs") {
  Job job = stack_job(kLayers, kHidden);
  job.training->recompute = FullRecompute{.reentrant = true};
  const Graph graph = linears();
  const TimeEstimate time = time_of(graph, job);
  const FlopsEstimate flops = count_flops(graph, job);
  CHECK(time.hfu / time.mfu == Approx(flops.computed / flops.required));
  CHECK(flops.computed == flops.executed());
  CHECK(flops.required < flops.computed);
  CHECK(time.hfu < 1);
  CHECK(time.tokens_per_second_per_gpu * time.step.value() == Approx(2048));
}

TEST_CASE("fp32 matmuls run at the fp32 rate, not at the tensor cores'") {
  Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  const double half = op_named(time_of(graph, job), "a").seconds.value();
  for (Block& block : graph.blocks) {
    for (Op& op : block.ops) op.compute = DType::fp32;
  }
  job.training->recipe.compute = DType::fp32;
  CHECK(op_named(time_of(graph, job), "a").seconds.value() > 8 * half);
}

TEST_CASE("A GPU without a rate for the compute type has no time, and says which is missing") {
  Job job = stack_job(kLayers, kHidden);
  job.hardware.gpu.peak.erase(DType::bf16);
  CHECK(reason_of(linears(), job) == "no bf16 rate is known for Round GPU");
  job = stack_job(kLayers, kHidden);
  job.hardware.gpu.memory_bandwidth.reset();
  CHECK(reason_of(linears(), job) == "no memory bandwidth is known for Round GPU");
  job = stack_job(kLayers, kHidden);
  job.parallelism.data = 8;
  job.hardware.count = 8;
  job.hardware.gpu.link_bandwidth.reset();
  CHECK(reason_of(linears(), job) == "neither a link nor a PCIe generation is known for Round GPU");
  job.hardware.gpu = test::round_gpu();
  job.parallelism.data = 16;
  job.hardware.count = 16;
  job.hardware.gpu.target = kAda;
  CHECK(reason_of(linears(), job) ==
        "no network between nodes is usual with Round GPU; write hardware.network to describe it");
  job.hardware.network = Network{.bandwidth = BytesPerSecond(25e9)};
  CHECK(time_of(linears(), job).step.value() > 0);
}

TEST_CASE("The rule says whether steps were recorded on this kind of GPU") {
  Job job = stack_job(kLayers, kHidden);
  const TimeEstimate recorded = time_of(linears(), job);
  CHECK(recorded.rule.find("no step was recorded") == std::string_view::npos);
  job.hardware.gpu.target = kAda;
  const TimeEstimate elsewhere = time_of(linears(), job);
  CHECK(elsewhere.rule.find("no step was recorded") != std::string_view::npos);
  CHECK(elsewhere.high / elsewhere.low > recorded.high / recorded.low);
}

TEST_CASE(
    "On one Hopper GPU kernels explain more of a step than where ranks wait for one another") {
  Job job = stack_job(kLayers, kHidden);
  const auto of_kernels = [&job](Framework framework) {
    job.training->implementation.framework = framework;
    return time_of(linears(), job).step;
  };
  const Seconds on_ampere = of_kernels(Framework::transformers);
  job.hardware.gpu.target = kHopper;
  const Seconds alone = of_kernels(Framework::transformers);
  // Megatron's kernels fill a step on one GPU as on many.
  CHECK(of_kernels(Framework::megatron) < alone);
  job.hardware.count = 2;
  job.parallelism.data = 2;
  CHECK(of_kernels(Framework::transformers) > alone);
  CHECK(on_ampere > Seconds(0));
}

TEST_CASE(
    "Where products lose less in mixed steps, shares recorded of others are less by as much") {
  Job job = stack_job(kLayers, kHidden);
  job.hardware.gpu.target = kHopper;
  const Graph graph = stack_of({dropout_op(0, 1, 2)}, kLayers, kHidden);
  const auto step = [&](const char* slug, Framework framework) {
    job.hardware.gpu.slug = slug;
    job.training->implementation.framework = framework;
    return op_named(time_of(graph, job), "dropout").seconds;
  };
  const auto ratio = [&](Framework framework) {
    return step("h200-sxm-141gb", framework) / step("round", framework);
  };
  CHECK(ratio(Framework::megatron) == Approx(1.09));
  CHECK(ratio(Framework::transformers) == Approx(1));  // steps on one H200 were recorded
  job.hardware.count = job.parallelism.data = 2;
  CHECK(ratio(Framework::transformers) == Approx(1.09));
}

TEST_CASE("An operand that is broadcast makes a kernel of single elements, in eager mode alone") {
  Graph graph = stack_of({add_op(0, 1, 2)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  job.hardware.gpu.multiprocessors.emplace().value = 100;
  GpuProfile profile;
  StreamFit fit;
  fit.kind = {.op = StreamOp::by_element, .pass = KernelPass::forward, .dtype = DType::bf16};
  fit.law = {.bandwidth_share = 0.3, .launch = 0, .l2_gain = 1, .l2_reach = 1};
  profile.streams = {fit};
  fit.kind.op = StreamOp::add;
  fit.law.bandwidth_share = 0.9;
  profile.streams.push_back(fit);
  job.hardware.gpu.profile = std::make_shared<const GpuProfile>(profile);
  const auto seconds = [&] { return op_named(time_of(graph, job), "residual").seconds.value(); };
  const double whole_vectors = seconds();
  graph.blocks[0].tensors[1].shape = {kH};  // a bias
  CHECK(seconds() == Approx(3 * whole_vectors));
  job.training->implementation.compile = CompileScope::blocks;
  CHECK(seconds() == Approx(whole_vectors));
  job.training->implementation.compile = CompileScope::off;
  job.training->implementation.framework = Framework::megatron;
  CHECK(seconds() < 1.2 * whole_vectors);
}

TEST_CASE("The interval is at least as wide as published steps of left-out sources ask") {
  Job job = stack_job(kLayers, kHidden);
  const TimeEstimate kernels = time_of(linears(), job);
  job.source_margins.step = {.low = 0.5, .high = 0, .runs = 10, .sources = 3, .held = 0.8};
  const TimeEstimate below = time_of(linears(), job);
  CHECK(below.low == Seconds(kernels.step.value() * 0.5));
  CHECK(below.high == kernels.high);
  CHECK(below.step == kernels.step);
  CHECK(below.published.runs == 10);
  job.source_margins.step = {.low = 0, .high = 2, .runs = 10, .sources = 3, .held = 0.8};
  const TimeEstimate above = time_of(linears(), job);
  CHECK(above.low == kernels.low);
  CHECK(above.high == Seconds(kernels.step.value() * 3));
}

TEST_CASE("A causal fused attention takes half the time of a full one") {
  Graph graph = stack_of({attention_op(0, 1)}, kLayers, kHidden);
  const Job job = stack_job(kLayers, kHidden);
  const double causal = op_named(time_of(graph, job), "attention").seconds.value();
  graph.blocks.front().ops.front().causal = false;
  CHECK(op_named(time_of(graph, job), "attention").seconds.value() == Approx(2 * causal));
}

TEST_CASE("Collectives hide behind the backward pass as far as it is long") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.data = 8;
  job.hardware.count = 8;
  const double one = time_of(graph, stack_job(kLayers, kHidden)).step.value();
  const double fast_link = time_of(graph, job).step.value();
  CHECK(fast_link > one);  // the last bucket is never hidden
  job.hardware.gpu.link_bandwidth->value = BytesPerSecond(2e9);
  const TimeEstimate slow = time_of(graph, job);
  CHECK(slow.ops.front().op == "gradients");
  CHECK(slow.ops.front().bound == Bound::link);
}

TEST_CASE("ZeRO divides the optimizer step by the data-parallel degree", "[peers]") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.data = 4;
  job.hardware.count = 8;  // the world is larger than what ZeRO shards over
  const double replicated = op_named(time_of(graph, job), "step").seconds.value();
  job.parallelism.zero = ZeroStage::optimizer;
  CHECK(op_named(time_of(graph, job), "step").seconds.value() == Approx(replicated / 4));
}

TEST_CASE("The fused optimizer moves each tensor once") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  const double foreach = op_named(time_of(graph, job), "step").seconds.value();
  job.training->optimizer_implementation = OptimizerImplementation::fused;
  const double fused = op_named(time_of(graph, job), "step").seconds.value();
  CHECK(foreach / fused == Approx(20.0 / 7.0));
  // 7 tensors of 2 B for each of the 9 · 4096² parameters at 0.86 TB/s, of which a step on 8.0
  // reaches 0.87.
  CHECK(fused == Approx(7 * 2 * 9.0 * 4096 * 4096 / (0.86e12 * 0.87)));
}

TEST_CASE("Each micro-step behind the first is added to the gradients, or to a rank's share") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  job.training->optimizer_implementation = OptimizerImplementation::fused;
  const double moved_once = op_named(time_of(graph, job), "step").seconds.value();
  job.training->gradient_accumulation = 4;
  const double sums = op_named(time_of(graph, job), "sums of micro-steps").seconds.value();
  // Three tensors of the seven that AdamW moves, three times.
  CHECK(sums == Approx(3 * 3 * moved_once / 7));
  job.parallelism.data = 2;
  job.hardware.count = 2;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp.emplace();
  CHECK(op_named(time_of(graph, job), "sums of micro-steps").seconds.value() == Approx(sums / 2));
}

TEST_CASE("A step takes as long as its own kernels' reads and writes, not AdamW's") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  const double adamw = op_named(time_of(graph, job), "step").seconds.value();
  job.training->optimizer.name = "sgd";
  job.training->optimizer.rule = OptimizerRule::sgd;
  job.training->optimizer.states.clear();
  const double sgd = op_named(time_of(graph, job), "step").seconds.value();
  CHECK(adamw / sgd == Approx(20.0 / 3.0));
  // One kernel is all that PyTorch's SGD runs: fused it is no faster.
  job.training->optimizer_implementation = OptimizerImplementation::fused;
  CHECK(op_named(time_of(graph, job), "step").seconds.value() == Approx(sgd));
}

TEST_CASE("Matrix products take what the GPU's profile says, over the share that kernels explain") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  job.hardware.gpu.multiprocessors.emplace().value = 100;
  GpuProfile profile;
  MatmulFit fit;
  fit.provenance = Provenance::measured;
  fit.law.data_gradient = 2;
  profile.matmuls = {fit};
  job.hardware.gpu.profile = std::make_shared<const GpuProfile>(profile);

  const TimeEstimate time = time_of(graph, job);
  CHECK(time.origin().provenance == Provenance::measured);
  const std::int64_t rows = 2 * 1024;
  const Machine machine = *machine_of(job.hardware.gpu, DType::bf16);
  const auto seconds = [&](MatmulPass pass, std::int64_t m, std::int64_t k) {
    const MatmulShape shape{.pass = pass, .m = m, .n = kHidden, .k = k};
    return seconds_of(fit.law, shape, machine, Load::sustained);
  };
  const double passes = seconds(MatmulPass::forward, rows, kHidden) +
                        seconds(MatmulPass::data_gradient, rows, kHidden) +
                        seconds(MatmulPass::weight_gradient, kHidden, rows);
  constexpr double kShareOfA100 = 0.87;
  CHECK(op_named(time, "a").seconds.value() == Approx(kLayers * passes / kShareOfA100));
}

TEST_CASE("A profile without a law for the type leaves the datasheet's rates") {
  const Graph graph = linears();
  Job job = stack_job(kLayers, kHidden);
  const double without = time_of(graph, job).step.value();
  job.hardware.gpu.multiprocessors.emplace().value = 100;
  GpuProfile profile;
  MatmulFit fit;
  fit.kind.operand = DType::fp32;
  profile.matmuls = {fit};
  job.hardware.gpu.profile = std::make_shared<const GpuProfile>(profile);
  CHECK(time_of(graph, job).step.value() == without);
  CHECK(time_of(graph, job).origin().provenance == Provenance::datasheet);
}

}  // namespace memest
