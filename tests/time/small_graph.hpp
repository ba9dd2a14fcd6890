// Graphs and jobs small enough to check by hand.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest::test {

inline const Expr kB(Symbol::micro_batch);
inline const Expr kS(Symbol::seq_len);
inline const Expr kH(Symbol::hidden_size);

/// A square linear layer h × h over b·s rows that keeps its input.
inline Op linear_op(std::string_view name, TensorId input, TensorId output) {
  const Expr rows = kB * kS;
  const Expr flops = 2 * rows * kH * kH;
  const Expr bytes = 2 * (2 * rows * kH + kH * kH);
  Op op;
  op.kind = OpKind::linear;
  op.name = name;
  op.inputs = {input};
  op.outputs = {output};
  op.saved = {input};
  op.forward = {flops, bytes};
  op.backward = {2 * flops, 2 * bytes};
  op.compute = DType::bf16;
  return op;
}

/// Dropout: keeps a mask that its own kernel makes.
inline Op dropout_op(TensorId input, TensorId output, TensorId mask) {
  const Expr bytes = 5 * kB * kS * kH;
  Op op;
  op.kind = OpKind::dropout;
  op.name = "dropout";
  op.inputs = {input};
  op.outputs = {output};
  op.saved = {mask};
  op.forward = {0, bytes};
  op.backward = {0, bytes};
  return op;
}

/// Residual addition: keeps nothing.
inline Op add_op(TensorId left, TensorId right, TensorId output) {
  const Expr bytes = 6 * kB * kS * kH;
  Op op;
  op.kind = OpKind::add;
  op.name = "residual";
  op.inputs = {left, right};
  op.outputs = {output};
  op.forward = {0, bytes};
  return op;
}

/// Fused causal attention whose scores count 4·b·s²·h FLOPs.
inline Op attention_op(TensorId input, TensorId output) {
  const Expr flops = 4 * kB * kS * kS * kH;
  const Expr bytes = 8 * kB * kS * kH;
  Op op;
  op.kind = OpKind::attention;
  op.name = "attention";
  op.inputs = {input, input, input};  // one head as wide as the model
  op.outputs = {output};
  op.saved = {input, output};
  op.forward = {flops, bytes};
  op.backward = {Rational(5, 2) * flops, 2 * bytes};
  op.compute = DType::bf16;
  op.part_of.attention_core = true;
  op.causal = true;
  return op;
}

/// `layers` layers of `ops` over tensors 0 … `tensors` − 1 of 16 bits, and a square head that is
/// not recomputed.
inline Graph stack_of(std::vector<Op> ops, std::int64_t layers, std::int64_t hidden) {
  Graph graph;
  Block layer;
  layer.name = "layer";
  layer.checkpointable = true;
  for (TensorId id = 0; id < 8; ++id) {
    Tensor tensor;
    tensor.name = "activation";
    tensor.shape = {kB, kS, kH};
    tensor.dtype = DType::bf16;
    tensor.storage = id;
    layer.tensors.push_back(std::move(tensor));
  }
  Block head = layer;
  layer.ops = std::move(ops);
  head.name = "head";
  head.checkpointable = false;
  head.ops = {linear_op("head", 0, 1)};
  graph.blocks = {std::move(layer), std::move(head)};
  graph.order = {{.block = 0, .repeat = layers}, {.block = 1, .repeat = 1}};
  graph.parameters.parameters = {
      {.name = "layer.weight", .shape = {hidden, hidden}, .count = layers},
      {.name = "head.weight", .shape = {hidden, hidden}}};
  graph.sizes.set(Symbol::hidden_size, hidden);
  return graph;
}

/// 100 TFLOP/s in 16 bits, 10 in fp32, 1 TB/s of memory, 200 GB/s of link: round numbers, no real
/// GPU.
inline GpuSpec round_gpu() {
  GpuSpec gpu;
  gpu.slug = "round";
  gpu.name = "Round GPU";
  gpu.target = kAmpere;
  gpu.capacity.value = Bytes(80 * kGiB);
  gpu.memory_bandwidth =
      Fact<BytesPerSecond>{.value = BytesPerSecond(1e12), .source = {}, .note = {}};
  gpu.link_bandwidth =
      Fact<BytesPerSecond>{.value = BytesPerSecond(2e11), .source = {}, .note = {}};
  gpu.peak[DType::bf16] = {.value = FlopsPerSecond(1e14), .source = {}, .note = {}};
  gpu.peak[DType::fp16] = {.value = FlopsPerSecond(1e14), .source = {}, .note = {}};
  gpu.peak[DType::fp32] = {.value = FlopsPerSecond(1e13), .source = {}, .note = {}};
  return gpu;
}

/// A stack of `layers` linear layers in bf16, b = 2, s = 1024 on one round GPU.
inline Job stack_job(std::int64_t layers, std::int64_t hidden) {
  Job job;
  job.model.family = Family::layer_list;
  job.model.architecture = LayerList{
      {{.repeat = layers + 1, .block = {LinearLayer{.in = hidden, .out = hidden, .bias = false}}}}};
  TrainingSpec training;
  training.seq_len = 1024;
  training.micro_batch = 2;
  training.recipe.weights = DType::bf16;
  training.recipe.gradients = DType::bf16;
  training.recipe.states = DType::bf16;
  training.recipe.compute = DType::bf16;
  training.optimizer.name = "adamw";
  training.optimizer.rule = OptimizerRule::adamw;
  training.optimizer.states.resize(2);
  job.training = std::move(training);
  job.hardware.gpu = round_gpu();
  return job;
}

}  // namespace memest::test
