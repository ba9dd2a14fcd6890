#include "reader/job/layer_keys.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

std::optional<ActivationFunction> activation_of(std::string_view word) {
  if (word == "relu") return ActivationFunction::relu;
  if (word == "relu6") return ActivationFunction::relu6;
  if (word == "gelu") return ActivationFunction::gelu;
  if (word == "silu") return ActivationFunction::silu;
  if (word == "sigmoid") return ActivationFunction::sigmoid;
  if (word == "tanh") return ActivationFunction::tanh;
  return std::nullopt;
}

/// The keys of one layer.
class LayerKeys {
 public:
  explicit LayerKeys(const Value& keys) : keys_(keys) {}

  [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t fallback = 0) const {
    return as_count(keys_.find(key)).value_or(fallback);
  }
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const {
    return as_flag(keys_.find(key)).value_or(fallback);
  }
  /// A number, or [height, width].
  [[nodiscard]] Sides sides(std::string_view key, const Sides& fallback) const {
    const Value* const value = keys_.find(key);
    if (value == nullptr) return fallback;
    if (const auto side = as_count(value)) return {*side, *side};
    if (value->items.size() != 2) return fallback;
    return {as_count(&value->items[0]).value_or(fallback.height),
            as_count(&value->items[1]).value_or(fallback.width)};
  }
  [[nodiscard]] double probability() const {
    // torch.nn.Dropout(p=0.5).
    return as_number(keys_.find("probability")).value_or(0.5);
  }

 private:
  const Value& keys_;
};

ConvolutionLayer convolution_of(const LayerKeys& keys, const Features& given) {
  return {.in = keys.count("in", given.channels),
          .out = keys.count("out"),
          .kernel = keys.sides("kernel", {}),
          .stride = keys.sides("stride", {}),
          .padding = keys.sides("padding", {0, 0}),
          .dilation = keys.sides("dilation", {}),
          .groups = keys.count("groups", 1),
          .bias = keys.flag("bias", true),
          .transposed = keys.flag("transposed", false),
          .output_padding = keys.sides("output_padding", {0, 0})};
}

PoolLayer pool_of(const LayerKeys& keys, Pooling kind) {
  // torch.nn.MaxPool2d(kernel_size, stride=None): stride or kernel_size.
  const Sides kernel = keys.sides("kernel", {});
  return {.kind = kind,
          .kernel = kernel,
          .stride = keys.sides("stride", kernel),
          .padding = keys.sides("padding", {0, 0}),
          .ceil = keys.flag("ceil", false)};
}

struct InputOf {
  LayerInput operator()(const ActivationLayer&) const { return LayerInput::either; }
  LayerInput operator()(const DropoutLayer&) const { return LayerInput::either; }
  LayerInput operator()(const ResidualLayer&) const { return LayerInput::either; }
  LayerInput operator()(const LinearLayer&) const { return LayerInput::rows; }
  LayerInput operator()(const NormLayer&) const { return LayerInput::rows; }
  LayerInput operator()(const SoftmaxLayer&) const { return LayerInput::rows; }
  LayerInput operator()(const EmbeddingLayer&) const { return LayerInput::rows; }
  template <class Other>
  LayerInput operator()(const Other&) const {
    return LayerInput::images;
  }
};

struct WidthTaken {
  std::int64_t operator()(const LinearLayer& layer) const { return layer.in; }
  std::int64_t operator()(const NormLayer& layer) const { return layer.size; }
  std::int64_t operator()(const ConvolutionLayer& layer) const { return layer.in; }
  std::int64_t operator()(const BatchNormLayer& layer) const { return layer.size; }
  template <class Other>
  std::int64_t operator()(const Other&) const {
    return 0;
  }
};

bool any_has_parameters(const std::vector<PlainLayer>& layers) {
  return std::any_of(layers.begin(), layers.end(), has_parameters);
}

struct HasParameters {
  bool operator()(const LinearLayer&) const { return true; }
  bool operator()(const NormLayer&) const { return true; }
  bool operator()(const EmbeddingLayer&) const { return true; }
  bool operator()(const ConvolutionLayer&) const { return true; }
  bool operator()(const BatchNormLayer&) const { return true; }
  bool operator()(const ResidualLayer& layer) const {
    return any_has_parameters(layer.body) || any_has_parameters(layer.shortcut);
  }
  bool operator()(const ConcatLayer& layer) const {
    return std::any_of(layer.branches.begin(), layer.branches.end(), any_has_parameters) ||
           any_has_parameters(layer.then);
  }
  bool operator()(const DenseLayer& layer) const {
    return std::any_of(layer.rounds.begin(), layer.rounds.end(), any_has_parameters);
  }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

struct FaultOf {
  /// torch/nn/modules/conv.py, _ConvNd.__init__; ConvTranspose's output_padding is refused by
  /// check_shape_forward.
  std::string operator()(const ConvolutionLayer& layer) const {
    const auto divides = [&](std::int64_t channels) { return channels % layer.groups == 0; };
    if (!divides(layer.in) || !divides(layer.out)) {
      return std::to_string(layer.groups) + " groups do not divide " + std::to_string(layer.in) +
             " channels in and " + std::to_string(layer.out) + " out";
    }
    const Sides& added = layer.output_padding;
    if (!layer.transposed && added != Sides{0, 0}) {
      return "a convolution that is not transposed has no output padding";
    }
    const auto fits = [](std::int64_t padding, std::int64_t stride, std::int64_t dilation) {
      return padding < std::max(stride, dilation) || padding == 0;
    };
    if (!fits(added.height, layer.stride.height, layer.dilation.height) ||
        !fits(added.width, layer.stride.width, layer.dilation.width)) {
      return "output padding is smaller than the stride or the dilation";
    }
    return {};
  }
  /// Pool.h: pad should be at most half of effective kernel size.
  std::string operator()(const PoolLayer& layer) const {
    if (2 * layer.padding.height > layer.kernel.height ||
        2 * layer.padding.width > layer.kernel.width) {
      return "the padding is at most half of the window";
    }
    return {};
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

}  // namespace

PlainLayer leaf_layer(std::string_view word, const Value& written, const Features& given) {
  const LayerKeys keys(written);
  if (const auto function = activation_of(word)) {
    return ActivationLayer{.function = *function, .in_place = keys.flag("in_place", false)};
  }
  if (word == "linear") {
    return LinearLayer{.in = keys.count("in", given.channels),
                       .out = keys.count("out"),
                       .bias = keys.flag("bias", true)};
  }
  if (word == "layernorm") {
    return NormLayer{
        .kind = NormKind::layernorm, .size = keys.count("size"), .bias = keys.flag("bias", true)};
  }
  if (word == "rmsnorm") {
    return NormLayer{.kind = NormKind::rmsnorm, .size = keys.count("size"), .bias = false};
  }
  if (word == "softmax") return SoftmaxLayer{};
  if (word == "dropout") {
    return DropoutLayer{.probability = keys.probability(),
                        .in_place = keys.flag("in_place", false)};
  }
  if (word == "conv") return convolution_of(keys, given);
  if (word == "batchnorm") return BatchNormLayer{.size = keys.count("size", given.channels)};
  if (word == "maxpool") return pool_of(keys, Pooling::maximum);
  if (word == "avgpool") return pool_of(keys, Pooling::average);
  if (word == "adaptive_maxpool") {
    return AdaptivePoolLayer{.kind = Pooling::maximum, .size = keys.sides("size", {})};
  }
  if (word == "adaptive_avgpool") {
    return AdaptivePoolLayer{.kind = Pooling::average, .size = keys.sides("size", {})};
  }
  if (word == "flatten") return FlattenLayer{};
  return EmbeddingLayer{.rows = keys.count("rows"), .size = keys.count("size")};
}

LayerInput input_of(const PlainLayer& layer) { return std::visit(InputOf{}, layer); }

std::int64_t width_taken(const PlainLayer& layer) { return std::visit(WidthTaken{}, layer); }

bool has_parameters(const PlainLayer& layer) { return std::visit(HasParameters{}, layer); }

std::string fault_of(const PlainLayer& layer) { return std::visit(FaultOf{}, layer); }

}  // namespace memest
