#include "memest/spec/parallel/cost_split.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

namespace memest {
namespace {

using Stages = std::vector<std::int64_t>;

/// A LLaMA of so many layers and rows of its vocabulary.
DecoderSpec llama(std::int64_t layers, std::int64_t vocabulary) {
  DecoderSpec decoder;
  decoder.hidden_size = decoder.embedding_size = 4096;
  decoder.vocab_size = vocabulary;
  decoder.attention = SoftmaxAttention{.heads = 32, .kv_heads = 8, .head_dim = 128};
  decoder.kinds = {LayerKind{.feed_forward = DenseFeedForward{.size = 14336}}};
  decoder.order = {{0, layers}};
  return decoder;
}

Stages stages(std::int64_t layers, std::int64_t vocabulary, std::int64_t pipeline) {
  Parallelism layout;
  layout.pipeline = pipeline;
  return stages_by_cost(llama(layers, vocabulary), layout);
}

// A layer costs 4·32·128·4096 + 3·14336·4096, the head 128 256·4096: 2.16 layers.
TEST_CASE("a stage ends with the layer that takes the cost past its part") {
  CHECK(stages(32, 128256, 2) == Stages{18, 14});
  CHECK(stages(32, 128256, 4) == Stages{9, 9, 8, 6});
  CHECK(stages(32, 128256, 8) == Stages{5, 4, 4, 5, 4, 4, 4, 2});
}

TEST_CASE("a head that costs nothing leaves the last stage a layer less") {
  // 16 layers of 32 are half: the next one alone exceeds it.
  CHECK(stages(32, 0, 2) == Stages{17, 15});
}

TEST_CASE("every layer has a stage, and the vocabulary is that of the tensor ranks") {
  for (const std::int64_t pipeline : {2, 3, 4, 6, 8, 16}) {
    const Stages found = stages(40, 128256, pipeline);
    REQUIRE(found.size() == static_cast<std::size_t>(pipeline));
    CHECK(std::accumulate(found.begin(), found.end(), std::int64_t{0}) == 40);
  }
}

TEST_CASE("there is no split where a stage would have nothing to train") {
  CHECK(stages(2, 128256, 4).empty());
  CHECK(stages(4, 1280000, 2).empty());
}

TEST_CASE("1F1B takes a micro-batch less than there are ranks, all forwards first any number") {
  Parallelism layout;
  CHECK(least_micro_batches(layout) == 1);
  layout.pipeline = 8;
  CHECK(least_micro_batches(layout) == 7);
  layout.schedule = Schedule::gpipe;
  CHECK(least_micro_batches(layout) == 1);
}

}  // namespace
}  // namespace memest
