#include "memest/time/flops.hpp"

#include <catch2/catch_test_macros.hpp>

#include "small_graph.hpp"

namespace memest {
namespace {

using test::add_op;
using test::attention_op;
using test::dropout_op;
using test::linear_op;
using test::stack_job;
using test::stack_of;

constexpr std::int64_t kLayers = 6;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kTokens = 2 * 1024;
/// 2·m·n·k of one square layer.
constexpr std::int64_t kLinear = 2 * kTokens * kHidden * kHidden;
constexpr std::int64_t kAttention = 4 * 2 * 1024 * std::int64_t{1024} * kHidden;

Flops flops(std::int64_t count) { return Flops(count); }

DecoderSpec decoder() {
  DecoderSpec spec;
  spec.hidden_size = 512;
  spec.vocab_size = 1000;
  spec.embedding_size = 512;
  spec.kinds = {{.sliding_window = {}, .feed_forward = DenseFeedForward{.size = 2048}}};
  spec.order = {{.kind = 0, .repeat = 4}};
  spec.attention = SoftmaxAttention{.heads = 8, .kv_heads = 2, .head_dim = 64};
  spec.position = RotaryPosition{.rotary_dim = 64};
  return spec;
}

Job decoder_job(DecoderSpec spec) {
  Job job = stack_job(1, kHidden);
  job.model.family = Family::decoder;
  job.model.architecture = std::move(spec);
  return job;
}

}  // namespace

TEST_CASE("Backward is twice the forward of matmuls, and micro-steps multiply both") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const FlopsEstimate once = count_flops(graph, job);
  CHECK(once.forward == flops((kLayers + 1) * kLinear));
  CHECK(once.backward == once.forward * 2);
  CHECK(once.executed() == once.forward * 3);

  job.training->gradient_accumulation = 5;
  const FlopsEstimate five = count_flops(graph, job);
  CHECK(five.forward == once.forward * 5);
  CHECK(five.backward == once.backward * 5);
  CHECK(five.model == once.model * 5);
}

TEST_CASE("A MAC is two FLOPs: the total of a layer list is 6 times weights times tokens") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, kHidden);
  const FlopsEstimate estimate = count_flops(graph, stack_job(kLayers, kHidden));
  CHECK(estimate.executed() == flops(6 * (kLayers + 1) * kHidden * kHidden * kTokens));
  CHECK(estimate.model == estimate.executed());
  CHECK(estimate.palm == estimate.model);
  CHECK(estimate.megatron == estimate.model);
}

TEST_CASE("Full recompute runs every layer again, except the head") {
  const Graph graph = stack_of({linear_op("a", 0, 1), dropout_op(1, 2, 3)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = FullRecompute{};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
}

TEST_CASE("Recompute stops before a last matmul that only saves its input") {
  const Graph graph =
      stack_of({linear_op("a", 0, 1), linear_op("b", 1, 2), add_op(0, 2, 3)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;

  job.training->recompute = FullRecompute{};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
  job.training->recompute = FullRecompute{.reentrant = true};
  CHECK(count_flops(graph, job).backward == kept + flops(2 * kLayers * kLinear));
  job.training->recompute = FullRecompute{};
  job.training->implementation.framework = Framework::torchtitan;
  CHECK(count_flops(graph, job).backward == kept + flops(2 * kLayers * kLinear));
}

TEST_CASE("Only the last layer of a shared checkpoint stops early") {
  const Graph graph = stack_of({linear_op("a", 0, 1), linear_op("b", 1, 2)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = EveryRecompute{.every = 4};
  // Segments of 4 and 2 layers, two of the six layers end one.
  CHECK(count_flops(graph, job).backward == kept + flops((2 * kLayers - 2) * kLinear));
  job.training->recompute = SqrtRecompute{};
  // ⌈√6⌉ = 3 segments of 2 layers.
  CHECK(count_flops(graph, job).backward == kept + flops((2 * kLayers - 3) * kLinear));
}

TEST_CASE("torchtitan runs one layer of every four again") {
  const Graph graph = stack_of({linear_op("a", 0, 1), linear_op("b", 1, 2)}, 14, kHidden);
  Job job = stack_job(14, kHidden);
  job.training->implementation.framework = Framework::torchtitan;
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = EveryRecompute{.every = 4};
  CHECK(count_flops(graph, job).backward == kept + flops(3 * 2 * kLinear));
}

TEST_CASE("Recompute by block runs the first layers of every stage again") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  job.training->implementation.framework = Framework::megatron;
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = FullRecompute{.method = RecomputeMethod::block, .layers = 2};
  CHECK(count_flops(graph, job).backward == kept + flops(2 * kLinear));
  job.parallelism.pipeline = 2;
  CHECK(count_flops(graph, job).backward == kept + flops(4 * kLinear));
  job.training->recompute = FullRecompute{.method = RecomputeMethod::block, .layers = 9};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
}

TEST_CASE("Selective recompute runs the parts again that it names") {
  Op feed_forward = linear_op("up", 2, 3);
  feed_forward.part_of.feed_forward = true;
  const Graph graph =
      stack_of({linear_op("a", 0, 1), attention_op(1, 2), feed_forward}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = SelectiveRecompute{.attention_core = false, .feed_forward = true};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
  job.training->recompute = SelectiveRecompute{.feed_forward = true};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * (kLinear + kAttention)));
}

TEST_CASE("Results that are thrown away are made once more") {
  Op norm = linear_op("norm", 0, 1);
  norm.remade = Remade::norm;
  Op reader = linear_op("up", 1, 2);
  reader.drops = Remade::norm;
  const Graph graph = stack_of({norm, reader}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = SelectiveRecompute{.attention_core = false, .expert_activation = true};
  CHECK(count_flops(graph, job).backward == kept);
  job.training->recompute = SelectiveRecompute{.attention_core = false, .norms = true};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
}

TEST_CASE("A list of operators in a compiled layer runs again what a backward reads") {
  Op kept_product = linear_op("a", 0, 1);
  kept_product.kept_selectively = true;
  const Graph graph =
      stack_of({kept_product, linear_op("b", 1, 2), linear_op("c", 2, 3)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  job.training->implementation.framework = Framework::torchtitan;
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = SelectiveRecompute{};
  CHECK(count_flops(graph, job).backward == kept + flops(2 * kLayers * kLinear));
  job.training->implementation.compile = CompileScope::blocks;
  // What c makes no backward reads.
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kLinear));
}

TEST_CASE("Selective recompute runs the attention core again and nothing else") {
  const Graph graph = stack_of({linear_op("a", 0, 1), attention_op(1, 2)}, kLayers, kHidden);
  Job job = stack_job(kLayers, kHidden);
  const Flops kept = count_flops(graph, job).backward;
  job.training->recompute = SelectiveRecompute{};
  CHECK(count_flops(graph, job).backward == kept + flops(kLayers * kAttention));
}

TEST_CASE("Conventions: PaLM adds 12·L·a·d·s a token, Megatron half of it to its matmuls") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, 4, kHidden);
  const DecoderSpec spec = decoder();
  const FlopsEstimate estimate = count_flops(graph, decoder_job(spec));
  const ParameterCounts counts = count_parameters(decoder_job(spec).model);
  CHECK(estimate.model == flops(6 * counts.total * kTokens));
  CHECK(estimate.palm - estimate.model == flops(12 * 4 * 8 * 64 * 1024 * kTokens));
  const std::int64_t layer = 512 * 512 * 2 + 2 * 512 * 2 * 64 + 3 * 512 * 2048;
  const std::int64_t matmuls = 4 * layer + 512 * 1000;
  CHECK(estimate.megatron == flops((6 * matmuls + 6 * 4 * 8 * 64 * 1024) * kTokens));
}

TEST_CASE("top-K decides the FLOPs of a mixture of experts", "[peers]") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, 4, kHidden);
  const auto with_top_k = [&](std::int64_t top_k) {
    DecoderSpec spec = decoder();
    spec.kinds.front().feed_forward =
        MixtureOfExperts{.experts = 16, .top_k = top_k, .expert_size = 512};
    return count_flops(graph, decoder_job(std::move(spec)));
  };
  const std::int64_t expert = 3 * 512 * 512;
  CHECK(with_top_k(4).model - with_top_k(2).model == flops(6 * 4 * 2 * expert * kTokens));
  CHECK(with_top_k(4).megatron - with_top_k(2).megatron == flops(6 * 4 * 2 * expert * kTokens));
}

TEST_CASE("Megatron's formula leaves the router out") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, 4, kHidden);
  DecoderSpec spec = decoder();
  spec.kinds.front().feed_forward = MixtureOfExperts{.experts = 16, .top_k = 2, .expert_size = 512};
  const FlopsEstimate estimate = count_flops(graph, decoder_job(spec));
  const std::int64_t layer = 512 * 512 * 2 + 2 * 512 * 2 * 64 + 2 * 3 * 512 * 512;
  CHECK(estimate.megatron ==
        flops((6 * (4 * layer + 512 * 1000) + 6 * 4 * 8 * 64 * 1024) * kTokens));
}

TEST_CASE("An untied output head counts in every convention", "[peers]") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, 4, kHidden);
  DecoderSpec tied = decoder();
  tied.tied_embeddings = true;
  const FlopsEstimate with_head = count_flops(graph, decoder_job(decoder()));
  const FlopsEstimate without = count_flops(graph, decoder_job(tied));
  CHECK(with_head.model - without.model == flops(6 * 512 * 1000 * kTokens));
  CHECK(with_head.megatron == without.megatron);  // a tied matrix is multiplied all the same
}

TEST_CASE("Head size is its own number, not hidden size over heads", "[peers]") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, 4, kHidden);
  DecoderSpec wide = decoder();
  std::get<SoftmaxAttention>(wide.attention).head_dim = 128;
  const FlopsEstimate narrow = count_flops(graph, decoder_job(decoder()));
  const FlopsEstimate doubled = count_flops(graph, decoder_job(wide));
  CHECK((doubled.palm - doubled.model) == (narrow.palm - narrow.model) * 2);
}

TEST_CASE("A batch and sequence beyond 64 bits are counted, not wrapped") {
  const Graph graph = stack_of({linear_op("a", 0, 1)}, kLayers, 65536);
  Job job = stack_job(kLayers, 65536);
  job.training->micro_batch = 1'000'000;
  job.training->seq_len = 1'000'000;
  const FlopsEstimate estimate = count_flops(graph, job);
  const Int128 expected = Int128{2} * 1'000'000 * 1'000'000 * 65536 * 65536 * (kLayers + 1);
  CHECK(estimate.forward.value() == expected);
}

}  // namespace memest
