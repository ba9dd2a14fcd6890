// Layers of images: sizes against a count of windows, what a convolution costs, what is kept.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/spec/layers.hpp"

namespace memest {
namespace {

constexpr int kDraws = 2000;

/// How many windows of `reach` begin at multiples of `stride` and end within the padded side; with
/// `ceil` one more may end outside, if it begins within the side or its left padding.
std::int64_t counted(std::int64_t side, std::int64_t reach, std::int64_t stride,
                     std::int64_t padding, bool ceil) {
  std::int64_t count = 0;
  for (std::int64_t begin = -padding;; begin += stride) {
    if (begin + reach > side + padding) {
      const bool another = ceil && count > 0 && begin - stride + reach < side + padding;
      return another && begin < side ? count + 1 : count;
    }
    ++count;
  }
}

TEST_CASE("a window stands as often as it fits, over drawn sizes") {
  std::mt19937 random(7);
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < kDraws; ++i) {
    const Features given{4, Sides{draw(1, 40), draw(1, 40)}};
    const Sides kernel{draw(1, 7), draw(1, 7)};
    const Sides stride{draw(1, 4), draw(1, 4)};
    const Sides dilation{draw(1, 3), draw(1, 3)};
    const Sides padding{draw(0, 3), draw(0, 3)};
    INFO(i << ": " << given.sides->height << " x " << given.sides->width);
    const ConvolutionLayer convolution{.in = 4,
                                       .out = 6,
                                       .kernel = kernel,
                                       .stride = stride,
                                       .padding = padding,
                                       .dilation = dilation};
    const Sides windows = {counted(given.sides->height, dilation.height * (kernel.height - 1) + 1,
                                   stride.height, padding.height, false),
                           counted(given.sides->width, dilation.width * (kernel.width - 1) + 1,
                                   stride.width, padding.width, false)};
    const auto convolved = features_after(convolution, given);
    CHECK(convolved.has_value() == (windows.height > 0 && windows.width > 0));
    if (convolved) CHECK(*convolved == Features{6, windows});

    const Sides half{kernel.height / 2, kernel.width / 2};
    const bool ceil = draw(0, 1) == 1;
    const PoolLayer pool{.kernel = kernel, .stride = stride, .padding = half, .ceil = ceil};
    const auto pooled = features_after(pool, given);
    const Sides expected = {
        counted(given.sides->height, kernel.height, stride.height, half.height, ceil),
        counted(given.sides->width, kernel.width, stride.width, half.width, ceil)};
    CHECK(pooled.has_value() == (expected.height > 0 && expected.width > 0));
    if (pooled) CHECK(*pooled == Features{4, expected});
  }
}

TEST_CASE("a transposed convolution undoes the sizes of its convolution, over drawn sizes") {
  std::mt19937 random(11);
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t kernel = draw(1, 6);
    const std::int64_t stride = draw(1, 4);
    const std::int64_t side = draw(kernel, 50);
    ConvolutionLayer layer{
        .in = 3, .out = 5, .kernel = {kernel, kernel}, .stride = {stride, stride}, .dilation = {}};
    const auto narrow = features_after(layer, {3, Sides{side, side}});
    REQUIRE(narrow.has_value());
    layer.transposed = true;
    const std::int64_t lost = (side - kernel) % stride;
    layer.output_padding = {lost, lost};
    INFO(i << ": side " << side << ", kernel " << kernel << ", stride " << stride);
    CHECK(features_after(layer, *narrow) == Features{5, Sides{side, side}});
  }
}

ModelSpec net(std::vector<PlainLayer> layers, const Features& image) {
  ModelSpec model;
  model.family = Family::layer_list;
  model.architecture = LayerList{
      .blocks = {{.block = std::move(layers)}}, .image = image, .loss = ListLoss::cross_entropy};
  return model;
}

LoweringPolicy policy(std::int64_t micro_batch) {
  LoweringPolicy made;
  made.implementation.framework = Framework::plain;
  made.weights = DType::fp32;
  made.compute = DType::fp32;
  made.seq_len = 1;
  made.micro_batch = micro_batch;
  return made;
}

/// Of a square kernel that leaves the image's size.
ConvolutionLayer convolution(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  ConvolutionLayer layer;
  layer.in = in;
  layer.out = out;
  layer.kernel = {kernel, kernel};
  layer.padding = {kernel / 2, kernel / 2};
  return layer;
}

TEST_CASE("a grouped convolution costs its weight times every pixel, thrice with its backward") {
  const ConvolutionLayer stem = convolution(3, 8, 3);
  ConvolutionLayer grouped = convolution(8, 16, 3);
  grouped.stride = {2, 2};
  grouped.groups = 4;
  const ModelSpec model =
      net({stem, grouped, AdaptivePoolLayer{}, FlattenLayer{}, LinearLayer{.in = 16, .out = 10}},
          {3, Sides{12, 10}});
  CHECK(count_parameters(model).total == (3 * 8 * 9 + 8) + (2 * 16 * 9 + 16) + (16 * 10 + 10));
  const auto answer = lower(model, policy(2));
  const auto& graph = std::get<Graph>(answer);
  const std::int64_t first = 2 * 2 * 12 * 10 * (3 * 8 * 9);
  const std::int64_t second = 2 * 2 * 6 * 5 * (2 * 16 * 9);
  const std::int64_t head = 2 * 2 * 16 * 10;
  CHECK(narrow_to_int64(graph.forward_flops().evaluate(graph.sizes)) == first + second + head);
  // The image wants no gradient.
  CHECK(narrow_to_int64(graph.backward_flops().evaluate(graph.sizes)) ==
        first + 2 * second + 2 * head);
}

TEST_CASE("a block of convolution, norm and relu in place keeps two images of it and statistics") {
  ConvolutionLayer pointwise = convolution(3, 8, 1);
  pointwise.bias = false;
  const ModelSpec model =
      net({pointwise, BatchNormLayer{8}, ActivationLayer{.in_place = true}}, {3, Sides{4, 4}});
  const auto answer = lower(model, policy(2));
  const auto& graph = std::get<Graph>(answer);
  const std::int64_t given = 4 * 2 * 3 * 16;
  const std::int64_t made = 4 * 2 * 8 * 16;
  CHECK(narrow_to_int64(graph.blocks.front().saved_bytes(true).evaluate(graph.sizes)) ==
        given + 2 * made + 2 * 4 * 8);
}

TEST_CASE("a concatenation that alone reads what a block is given is refused by name") {
  ModelSpec model;
  model.family = Family::layer_list;
  ConcatLayer joint;
  joint.branches.resize(1);
  model.architecture = LayerList{.blocks = {{.block = {convolution(3, 8, 1)}}, {.block = {joint}}},
                                 .image = {3, Sides{4, 4}},
                                 .loss = ListLoss::cross_entropy};
  const auto answer = lower(model, policy(2));
  REQUIRE(std::holds_alternative<Unavailable>(answer));
  CHECK(std::get<Unavailable>(answer).sentence ==
        "the backward of a concatenation that alone reads what a block is given is not available "
        "yet; begin the block before the layer that makes it");
}

}  // namespace
}  // namespace memest
