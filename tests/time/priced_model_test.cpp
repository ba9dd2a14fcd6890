// What the layout of a job adds to the work of its layers.
#include "memest/time/priced_model.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <utility>
#include <variant>

#include "memest/spec/compression/teacher.hpp"
#include "memest/time/step_time.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using Catch::Approx;
using test::linear_op;
using test::stack_job;
using test::stack_of;

constexpr std::int64_t kLayers = 16;
constexpr std::int64_t kHidden = 4096;

/// A stack without its head where the ends should be equal.
Graph layers_alone(std::int64_t layers) {
  Graph graph = stack_of({linear_op("a", 0, 1)}, layers, kHidden);
  graph.order.pop_back();
  graph.parameters.parameters.pop_back();
  return graph;
}

/// All that a model's price needs to live.
struct Priced {
  Job job;
  StepWork work;
  GpuLaws laws;
  Links links;
  std::vector<OpPrice> prices;

  Priced(const Graph& graph, Job given)
      : job(std::move(given)),
        work(work_of(graph, job)),
        laws(job.hardware.gpu),
        links(laws, job.hardware),
        prices(price_ops(work, links, places_of(job.parallelism, job.hardware.linked_gpus()))) {}
  [[nodiscard]] PricedModel model() const { return {{work, prices}, job, links}; }
};

Job pipeline_job(std::int64_t pipeline, std::int64_t micro_steps) {
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.pipeline = pipeline;
  job.hardware.count = pipeline;
  job.training->gradient_accumulation = micro_steps;
  return job;
}

}  // namespace

TEST_CASE("the bubble of 1F1B is (p - 1)/m of the work, interleaved v times less") {
  const Graph graph = layers_alone(kLayers);
  Job job = pipeline_job(4, 8);
  const Priced priced(graph, job);
  const PricedModel model = priced.model();
  const StepSeconds plain = model.step(job.parallelism, 8);
  // Each action but the ends' sends a message: the ranks of the middle two a micro-batch.
  const double work = plain.forward + plain.backward + plain.sends;
  CHECK(plain.bubble == Approx(3.0 / 8 * work).epsilon(0.03));
  job.parallelism.schedule = Schedule::interleaved;
  job.parallelism.virtual_stages = 2;
  const StepSeconds interleaved = model.step(job.parallelism, 8);
  CHECK(interleaved.bubble == Approx(plain.bubble / 2).epsilon(0.05));
  CHECK(interleaved.sends > plain.sends);
  job.parallelism.schedule = Schedule::zero_bubble;
  job.parallelism.virtual_stages = 1;
  CHECK(model.step(job.parallelism, 8).bubble < plain.bubble);
  job.parallelism.schedule = Schedule::gpipe;
  CHECK(model.step(job.parallelism, 8).bubble == Approx(plain.bubble).epsilon(0.02));
}

TEST_CASE("Megatron's interleaved ranks work while their messages travel, its 1F1B waits") {
  const Graph graph = layers_alone(kLayers);
  Job job = pipeline_job(4, 32);
  job.parallelism.schedule = Schedule::interleaved;
  job.parallelism.virtual_stages = 2;
  const auto step_of = [&](Framework framework, LayerSpec layers) {
    job.training->implementation.framework = framework;
    job.training->implementation.layers = layers;
    const Priced priced(graph, job);
    return priced.model().step(job.parallelism, 32);
  };
  CHECK(step_of(Framework::megatron, LayerSpec::te).sends == 0);
  CHECK(step_of(Framework::megatron, LayerSpec::legacy).sends > 0);
  CHECK(step_of(Framework::torchtitan, LayerSpec::local).sends > 0);
  CHECK(step_of(Framework::megatron, LayerSpec::te).total() <
        step_of(Framework::megatron, LayerSpec::legacy).total());
  job.parallelism.schedule = Schedule::one_f_one_b;
  job.parallelism.virtual_stages = 1;
  CHECK(step_of(Framework::megatron, LayerSpec::te).sends > 0);
}

TEST_CASE("a search's seconds are the estimate's") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, kHidden);
  for (const std::int64_t pipeline : {1, 2, 4, 8}) {
    for (const std::int64_t data : {1, 2, 8}) {
      for (const std::int64_t micro_steps : {1, 4, 16}) {
        Job job = pipeline_job(pipeline, micro_steps);
        job.parallelism.data = data;
        job.hardware.count = data * pipeline;
        const Priced priced(graph, job);
        const Seconds expected = expected_step_time(priced.model(), job.parallelism, micro_steps);
        const auto answer = estimate_step_time(graph, job, count_flops(graph, job));
        CHECK(std::get<TimeEstimate>(answer).step.value() == Approx(expected.value()));
      }
    }
  }
}

TEST_CASE("the parts of a pipelined step add up, and its head makes the last stage the busiest") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, kHidden);
  Job job = pipeline_job(4, 8);
  job.parallelism.data = 2;
  job.hardware.count = 8;
  const auto answer = estimate_step_time(graph, job, count_flops(graph, job));
  const auto& time = std::get<TimeEstimate>(answer);
  double sum = 0;
  for (const OpTime& op : time.ops) sum += op.seconds.value();
  CHECK(sum == Approx(time.step.value()));
  CHECK(time.low < time.step);
  CHECK(time.step < time.high);
  CHECK(time.bubble.value() > 0);
  REQUIRE(time.stages.size() == 4);
  CHECK(time.stages[3].forward.value() == Approx(time.stages[0].forward.value() * 5 / 4));
  const auto head = std::find_if(time.ops.begin(), time.ops.end(),
                                 [](const OpTime& op) { return op.op == "head"; });
  CHECK(head != time.ops.end());
}

TEST_CASE("messages of a layer wait for the link, beside kernels only for what is longer") {
  Graph graph = layers_alone(kLayers);
  Op& op = graph.blocks.front().ops.front();
  const Expr bytes = 2 * test::kB * test::kS * test::kH;
  op.forward_messages = {{.kind = MessageKind::all_gather, .bytes = bytes}};
  op.backward_messages = {
      {.kind = MessageKind::reduce_scatter, .bytes = bytes, .asynchronous = true}};
  Job job = stack_job(kLayers, kHidden);
  const double alone = Priced(graph, job).model().step(job.parallelism, 1).total();
  job.parallelism.tensor = 8;
  job.hardware.count = 8;
  const Priced shared(graph, job);
  const StepSeconds step = shared.model().step(job.parallelism, 1);
  const double gather =
      shared.links
          .price(MessageKind::all_gather, {8, 8}, 2.0 * 2 * 1024 * static_cast<double>(kHidden))
          .expected;
  CHECK(step.total() == Approx(alone + kLayers * gather));
  job.hardware.gpu.link_bandwidth->value = BytesPerSecond(1e9);
  const Priced slow(graph, job);
  CHECK(slow.model().step(job.parallelism, 1).backward > step.backward);
}

TEST_CASE("recomputed forwards send again") {
  Graph graph = layers_alone(kLayers);
  const Expr bytes = 2 * test::kB * test::kS * test::kH;
  graph.blocks.front().ops.front().forward_messages = {
      {.kind = MessageKind::all_reduce, .bytes = bytes}};
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.tensor = 8;
  job.hardware.count = 8;
  const StepSeconds once = Priced(graph, job).model().step(job.parallelism, 1);
  job.training->recompute = FullRecompute{.reentrant = true};
  const StepSeconds twice = Priced(graph, job).model().step(job.parallelism, 1);
  CHECK(twice.backward == Approx(once.backward + once.forward));
}

TEST_CASE("Megatron reduces and gathers behind its passes, the others beside them") {
  const Graph graph = layers_alone(kLayers);
  Job job = stack_job(kLayers, kHidden);
  job.parallelism.data = 8;
  job.parallelism.zero = ZeroStage::optimizer;
  job.hardware.count = 8;
  const StepSeconds beside = Priced(graph, job).model().step(job.parallelism, 1);
  job.training->implementation.framework = Framework::megatron;
  job.parallelism.distributed_optimizer = true;
  const Priced priced(graph, job);
  const StepSeconds behind = priced.model().step(job.parallelism, 1);
  const double bytes = 2.0 * kLayers * static_cast<double>(kHidden * kHidden);
  CHECK(behind.gradients ==
        Approx(priced.links.price(MessageKind::reduce_scatter, {8, 8}, bytes).expected));
  CHECK(beside.gradients < behind.gradients);
  // Micro-steps do not reduce again.
  CHECK(priced.model().step(job.parallelism, 4).gradients == behind.gradients);
  job.parallelism.overlap_grad_reduce = true;
  const StepSeconds reduces_beside = priced.model().step(job.parallelism, 1);
  CHECK(reduces_beside.gradients < behind.gradients);
  CHECK(reduces_beside.weights == behind.weights);
  job.parallelism.overlap_param_gather = true;
  CHECK(priced.model().step(job.parallelism, 1).weights < behind.weights);
}

TEST_CASE("in ZeRO 3 a reference's forward gathers as many weights as the model's") {
  const Graph graph = layers_alone(kLayers);
  Job job = stack_job(kLayers, kHidden);
  job.hardware.gpu.link_bandwidth->value = BytesPerSecond(1e9);  // no pass hides what travels
  job.parallelism.data = job.hardware.count = 8;
  const auto gathers = [&graph](Job of, ZeroStage stage) {
    of.parallelism.zero = stage;
    return Priced(graph, of).model().step(of.parallelism, 1).weights;
  };
  const auto beside = [&job](TeacherUse use) {
    Teacher teacher;
    teacher.use = use;
    Job other = job;
    other.training->teacher = std::make_shared<const Teacher>(std::move(teacher));
    return other;
  };
  const Job preferring = beside(TeacherUse::own_reference);
  const Job distilling = beside(TeacherUse::distillation);
  constexpr ZeroStage kWeights = ZeroStage::optimizer_gradients_weights;
  // Both passes gather: with a reference three do.
  CHECK(gathers(preferring, kWeights) > 1.4 * gathers(job, kWeights));
  CHECK(gathers(distilling, kWeights) == gathers(job, kWeights));
  CHECK(gathers(preferring, ZeroStage::optimizer) == gathers(job, ZeroStage::optimizer));
}

TEST_CASE("DeepSpeed's ZeRO 3 gathers codes at what they take, whatever type holds them") {
  Graph graph = layers_alone(kLayers);
  Job job = stack_job(kLayers, kHidden);
  job.training->implementation.framework = Framework::transformers;
  job.hardware.gpu.link_bandwidth->value = BytesPerSecond(1e9);
  job.parallelism.data = job.hardware.count = 8;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  const auto gathers = [&graph](const Job& of) {
    return Priced(graph, of).model().step(of.parallelism, 1).weights;
  };
  const double whole = gathers(job);
  for (ParameterTensor& tensor : graph.parameters.parameters) tensor.quantized = true;
  job.model.quantized = QuantizedWeights{};
  const double codes = gathers(job);
  // Half a byte of two.
  CHECK(codes < 0.3 * whole);
  CHECK(codes > 0.2 * whole);
  job.model.quantized->storage = DType::bf16;
  CHECK(gathers(job) == codes);
}

TEST_CASE("a stage takes for recompute by block what its first layers take") {
  const Graph graph = layers_alone(kLayers);
  Job job = pipeline_job(1, 1);
  const auto recompute_of = [&](Recompute recompute, std::int64_t stages) {
    job.training->implementation.framework = Framework::megatron;
    job.training->recompute = recompute;
    const Priced priced(graph, job);
    const StageSplit split(kLayers, {.pipeline = stages}, 0);
    return priced.model().stage(split, 0).passes.recompute;
  };
  const double layer = recompute_of(FullRecompute{}, kLayers);
  const FullRecompute three{.method = RecomputeMethod::block, .layers = 3};
  CHECK(recompute_of(three, 1) == Approx(3 * layer));
  CHECK(recompute_of(three, 2) == Approx(3 * layer));
  CHECK(recompute_of(three, 8) == Approx(2 * layer));
}

}  // namespace memest
