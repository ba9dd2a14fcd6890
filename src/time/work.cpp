#include "memest/time/work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "time/gradient_sums.hpp"
#include "time/laws/calls.hpp"
#include "time/op_launches.hpp"
#include "time/optimizer_products.hpp"
#include "time/optimizer_traffic.hpp"
#include "time/recomputation.hpp"

namespace memest {
namespace {

/// Temporaries of an op that the framework writes as several kernels: each is written and read
/// back.
double temporary_bytes(const Block& block, const Op& op, const Bindings& sizes) {
  double bytes = 0;
  const auto add = [&](TensorId id) {
    bytes += 2 * block.tensors[id].bytes().bytes(sizes).as_double();
  };
  if (op.forward_steps.empty()) {
    for (const TensorId id : op.forward_scratch) add(id);
  }
  for (const Step& step : op.forward_steps) {
    if (step.kind == StepKind::free) add(op.forward_scratch[step.tensor]);
  }
  return bytes;
}

double backward_temporary_bytes(const Block& block, const Op& op, const Bindings& sizes) {
  double bytes = 0;
  for (const Step& step : op.backward_steps) {
    if (step.kind != StepKind::free) continue;
    const BackwardTensor& made = op.backward_tensors[step.tensor];
    if (!made.written) continue;
    bytes +=
        2 * static_cast<double>(size_of(made.dtype)) *
        Bytes(narrow_to_int64(block.tensors[made.like].elements().evaluate(sizes))).as_double();
  }
  return bytes;
}

PassWork evaluate(const Work& work, double temporaries, const Bindings& sizes) {
  return {.flops = work.flops.flops(sizes).as_double(),
          .bytes = work.bytes.bytes(sizes).as_double() + temporaries};
}

std::vector<MessageWork> evaluate(const std::vector<Message>& messages, const Bindings& sizes) {
  std::vector<MessageWork> result;
  for (const Message& message : messages) {
    result.push_back({.kind = message.kind,
                      .group = message.group,
                      .bytes = message.bytes.bytes(sizes).as_double(),
                      .times = static_cast<double>(message.times),
                      .asynchronous = message.asynchronous,
                      .routing = message.routing});
  }
  return result;
}

/// Megatron-core's hook adds a finished gradient to the process's buffer, in every micro-step, but
/// where the product has done so itself (distributed_data_parallel.py, _make_backward_post_hook).
void add_hooks(OpWork& work, const Block& block, const Bindings& sizes, const Recipe& recipe) {
  for (const InputGradient& gradient : work.op->gradients) {
    const Tensor& tensor = block.tensors[gradient.input];
    // `grad_added_to_main_grad`: the wgrad GEMM has added it, and the hook drops an empty tensor.
    const bool added = work.op->adds_to_buffer == gradient.input;
    if (tensor.role != Role::parameter || tensor.frozen || added) continue;
    // `main_grad.add_(grad)`: reads the 16-bit gradient, reads and writes the sum.
    const auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype)) +
                       2 * static_cast<std::int64_t>(size_of(recipe.gradients));
    StreamShape shape{.op = StreamOp::add, .dtype = recipe.gradients};
    shape.bytes = checked_multiply(narrow_to_int64(tensor.elements().evaluate(sizes)), bytes);
    // Before the products: messages run beside the last calls.
    work.backward_calls.insert(work.backward_calls.begin(), shape);
  }
}

/// Weights are cast in a step's first micro-batch alone: every one has its part of that.
void add_casts_of_weights(OpWork& work, const Bindings& sizes, double micro_steps) {
  const Expr& bytes = work.op->casts.in_a_step;
  if (bytes.is_zero()) return;
  StreamShape cast{.op = StreamOp::cast};
  cast.bytes = std::llround(bytes.bytes(sizes).as_double() / micro_steps);
  work.forward_calls.insert(work.forward_calls.begin(), cast);
}

OpWork evaluate(const Block& block, const Op& op, const Bindings& sizes, const ForwardSpec& pass) {
  OpWork work;
  work.op = &op;
  work.forward = evaluate(op.forward, temporary_bytes(block, op, sizes), sizes);
  work.backward = evaluate(op.backward, backward_temporary_bytes(block, op, sizes), sizes);
  add_calls(work, block, sizes, pass);
  // DeepSpeed adds them up as well: in `.grad`, or from there in fp32.
  if (row_of(pass.implementation.framework).gradient_buffer) {
    add_hooks(work, block, sizes, pass.recipe);
  }
  work.forward_messages = evaluate(op.forward_messages, sizes);
  work.backward_messages = evaluate(op.backward_messages, sizes);
  return work;
}

void add_parameters(StepWork& work, const Inventory& inventory, const TrainingSpec& training) {
  for (const ParameterTensor& parameter : inventory.parameters) {
    double elements = static_cast<double>(parameter.count);
    for (const std::int64_t size : parameter.shape) elements *= static_cast<double>(size);
    work.parameters += elements;
    if (parameter.trainable) work.trainable += elements;
  }
  work.optimizer_bytes = optimizer_bytes(inventory, training);
  work.optimizer_products = optimizer_products(inventory, training);
  work.clipping_bytes = gradient_upkeep_bytes(work.trainable, training);
}

bool reaches_expert_ranks(const Op& op) { return reach(op.forward_messages, RankGroup::expert); }

/// The inventory knows which weights are experts', the blocks which layers have some: all alike.
void add_experts(StepWork& work, const std::vector<double>& executions) {
  const Graph& graph = *work.graph;
  double experts = 0;
  for (const ParameterTensor& parameter : graph.parameters.parameters) {
    if (!parameter.expert_parallel || !parameter.trainable) continue;
    double elements = static_cast<double>(parameter.count);
    for (const std::int64_t size : parameter.shape) elements *= static_cast<double>(size);
    experts += elements;
  }
  if (experts == 0) return;
  double layers = 0;
  std::vector<bool> has(graph.blocks.size(), false);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const std::vector<Op>& ops = graph.blocks[block].ops;
    has[block] = std::any_of(ops.begin(), ops.end(), reaches_expert_ranks);
    if (has[block]) layers += executions[block];
  }
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    // A layer's share: every layer of experts has as many.
    if (has[block]) work.weights[block].trained_experts = experts / layers;
  }
}

}  // namespace

Bindings sizes_of(const Graph& graph, const ForwardSpec& forward) {
  Bindings sizes = graph.sizes;
  bind_tokens(sizes, forward.micro_batch,
              forward.seq_len / context_ranks(sizes) + graph.virtual_tokens);
  return sizes;
}

std::vector<OpWork> forward_work_of(const Graph& graph, std::span<const BlockRun> order,
                                    const Bindings& sizes, const ForwardSpec& pass) {
  std::vector<OpWork> ops;
  for (const BlockRun& run : order) {
    const Block& block = graph.blocks[run.block];
    for (const Op& op : block.ops) {
      if (op.once) continue;
      OpWork work = evaluate(block, op, sizes, pass);
      work.block = run.block;
      work.executions = static_cast<double>(run.repeat);
      ops.push_back(std::move(work));
    }
  }
  return ops;
}

StepWork work_of(const Graph& graph, const Job& job) {
  expect(job.training.has_value(), "a job without training has no step");
  const TrainingSpec& training = *job.training;
  const Bindings sizes = sizes_of(graph, training);
  const std::array stage{graph.layers()};
  const Recomputations recomputed = recomputations_of(graph, training, stage);

  std::vector<double> executions(graph.blocks.size(), 0);
  for (const std::vector<BlockRun>* order : {&graph.order, &graph.teacher}) {
    for (const BlockRun& run : *order) executions[run.block] += static_cast<double>(run.repeat);
  }

  StepWork work;
  work.graph = &graph;
  work.micro_steps = static_cast<double>(training.gradient_accumulation);
  work.units = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const Block& described = graph.blocks[block];
    work.weights.push_back({static_cast<double>(described.parameters().evaluate(sizes)),
                            static_cast<double>(described.trained_parameters().evaluate(sizes)),
                            0});
    // Layers are the units that ZeRO 3 gathers, and what passes between them is what a pipeline
    // sends.
    if (!described.checkpointable) continue;
    work.units += executions[block];
    work.stream_bytes = described.tensors[described.input].bytes().bytes(sizes).as_double();
  }
  add_experts(work, executions);
  work.units = std::max(work.units, 1.0);
  add_parameters(work, graph.parameters, training);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const Block& described = graph.blocks[block];
    for (std::size_t op = 0; op < described.ops.size(); ++op) {
      OpWork evaluated = evaluate(described, described.ops[op], sizes, training);
      add_casts_of_weights(evaluated, sizes, work.micro_steps);
      evaluated.block = block;
      evaluated.executions = executions[block];
      evaluated.recomputations = static_cast<double>(recomputed[block][op].whole);
      evaluated.recasts = static_cast<double>(recomputed[block][op].casts);
      work.ops.push_back(std::move(evaluated));
    }
  }
  count_launches(work, training.implementation);
  for (OpWork& sums : gradient_sums(graph, sizes, executions)) work.ops.push_back(std::move(sums));
  return work;
}

}  // namespace memest
