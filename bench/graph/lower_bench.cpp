// Lowering takes the time of its distinct layers: 126 equal ones cost one.
#include <benchmark/benchmark.h>

#include "memest/graph/lower.hpp"

namespace memest {
namespace {

/// Llama-3.1-405B.
ModelSpec llama_405b() {
  DecoderSpec decoder;
  decoder.hidden_size = 16384;
  decoder.embedding_size = 16384;
  decoder.vocab_size = 128256;
  DenseFeedForward part;
  part.size = 53248;
  LayerKind kind;
  kind.feed_forward = part;
  decoder.kinds = {kind};
  decoder.order = {{0, 126}};
  SoftmaxAttention attention;
  attention.heads = 128;
  attention.kv_heads = 8;
  attention.head_dim = 128;
  decoder.attention = attention;
  decoder.position = RotaryPosition{.rotary_dim = 128};
  ModelSpec model;
  model.model_type = "llama";
  model.architecture = decoder;
  return model;
}

void lower_126_layers(benchmark::State& state) {
  const ModelSpec model = llama_405b();
  LoweringPolicy policy;
  policy.seq_len = 8192;
  policy.autocast = state.range(0) != 0;
  policy.weights = policy.autocast ? DType::fp32 : DType::bf16;
  for (auto _ : state) benchmark::DoNotOptimize(lower(model, policy));
}
BENCHMARK(lower_126_layers)->ArgName("autocast")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void sum_saved_bytes(benchmark::State& state) {
  LoweringPolicy policy;
  policy.seq_len = 8192;
  const Graph graph = std::get<Graph>(lower(llama_405b(), policy));
  for (auto _ : state) benchmark::DoNotOptimize(graph.saved_bytes());
}
BENCHMARK(sum_saved_bytes)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace memest
