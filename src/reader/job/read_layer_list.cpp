// `{layers: [...]}`: a plain list of layers, with blocks that repeat.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "memest/spec/layer_blocks.hpp"
#include "reader/job/read_model.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Features that a layer takes and gives; 0 where it takes any or leaves them as they are.
struct Width {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct WidthOf {
  Width operator()(const LinearLayer& linear) const { return {linear.in, linear.out}; }
  Width operator()(const ActivationLayer& /*layer*/) const { return {}; }
  Width operator()(const NormLayer& norm) const { return {norm.size, norm.size}; }
  Width operator()(const SoftmaxLayer& /*layer*/) const { return {}; }
  Width operator()(const DropoutLayer& /*layer*/) const { return {}; }
  Width operator()(const EmbeddingLayer& embedding) const { return {0, embedding.size}; }
};

/// Whether a layer has parameters.
struct HasParameters {
  bool operator()(const LinearLayer& /*layer*/) const { return true; }
  bool operator()(const ActivationLayer& /*layer*/) const { return false; }
  bool operator()(const NormLayer& /*layer*/) const { return true; }
  bool operator()(const SoftmaxLayer& /*layer*/) const { return false; }
  bool operator()(const DropoutLayer& /*layer*/) const { return false; }
  bool operator()(const EmbeddingLayer& /*layer*/) const { return true; }
};

bool has_parameters(const LayerList& list) {
  return std::any_of(list.blocks.begin(), list.blocks.end(), [](const LayerBlock& block) {
    return std::any_of(block.block.begin(), block.block.end(),
                       [](const PlainLayer& layer) { return std::visit(HasParameters{}, layer); });
  });
}

std::optional<ActivationFunction> activation_of(std::string_view word) {
  if (word == "relu") return ActivationFunction::relu;
  if (word == "gelu") return ActivationFunction::gelu;
  if (word == "silu") return ActivationFunction::silu;
  if (word == "sigmoid") return ActivationFunction::sigmoid;
  if (word == "tanh") return ActivationFunction::tanh;
  return std::nullopt;
}

PlainLayer layer_of(const Member& member) {
  const Value& keys = member.value;
  const auto size = [&keys](std::string_view key) { return as_count(keys.find(key)).value_or(0); };
  const auto flag = [&keys](std::string_view key, bool fallback) {
    return as_flag(keys.find(key)).value_or(fallback);
  };
  if (const auto function = activation_of(member.key)) {
    return ActivationLayer{.function = *function, .in_place = flag("in_place", false)};
  }
  if (member.key == "linear") {
    return LinearLayer{.in = size("in"), .out = size("out"), .bias = flag("bias", true)};
  }
  if (member.key == "layernorm") {
    return NormLayer{.kind = NormKind::layernorm, .size = size("size"), .bias = flag("bias", true)};
  }
  if (member.key == "rmsnorm") {
    return NormLayer{.kind = NormKind::rmsnorm, .size = size("size"), .bias = false};
  }
  if (member.key == "softmax") return SoftmaxLayer{};
  if (member.key == "dropout") {
    // torch.nn.Dropout(p=0.5).
    return DropoutLayer{.probability = as_number(keys.find("probability")).value_or(0.5),
                        .in_place = flag("in_place", false)};
  }
  return EmbeddingLayer{.rows = size("rows"), .size = size("size")};
}

/// A sum over all different layers stands at every layer: so many of such sums, each a few
/// microseconds.
constexpr std::size_t kMostSums = 500'000;

/// Most blocks within one block, written out; each is an operation or more.
constexpr std::size_t kMostInBlock = 10'000;

class LayerListReader {
 public:
  explicit LayerListReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  LayerList read(const Value& layers) {
    LayerList list;
    for (const Value& entry : layers.items) {
      LayerBlock block;
      if (entry.find("block") == nullptr) {
        append(entry, block.block);
      } else {
        block.repeat = as_count(entry.find("repeat")).value_or(1);
        append_block(entry, block.block);
        pass_repeats(entry, block.repeat);
      }
      list.blocks.push_back(std::move(block));
    }
    return list;
  }

 private:
  /// A layer, or a block within a block as many times as it says.
  void append(const Value& entry, std::vector<PlainLayer>& layers) {
    if (entry.find("block") == nullptr) {
      if (entry.members.size() == 1) append_layer(entry.members.front(), layers);
      return;
    }
    const std::size_t start = layers.size();
    append_block(entry, layers);
    const std::int64_t repeat = as_count(entry.find("repeat")).value_or(1);
    pass_repeats(entry, repeat);
    const std::vector<PlainLayer> once(layers.begin() + static_cast<std::ptrdiff_t>(start),
                                       layers.end());
    for (std::int64_t i = 1; i < repeat && !too_many_; ++i) {
      layers.insert(layers.end(), once.begin(), once.end());
      if (layers.size() > kMostInBlock) report_too_many(entry);
    }
  }

  void append_block(const Value& entry, std::vector<PlainLayer>& layers) {
    const Value& block = *entry.find("block");
    if (block.items.empty()) {
      diagnostics_.push_back(error_at(block.span, "a block has at least one layer"));
    }
    first_widths_.push_back(0);
    for (const Value& inner : block.items) append(inner, layers);
    const std::int64_t first = first_widths_.back();
    first_widths_.pop_back();
    last_first_width_ = first;
    note_input(first);
  }

  void append_layer(const Member& member, std::vector<PlainLayer>& layers) {
    const PlainLayer layer = layer_of(member);
    const Width width = std::visit(WidthOf{}, layer);
    if (width.in > 0 && width_ > 0 && width.in != width_) {
      diagnostics_.push_back(
          error_at(member.key_span, "the layer before gives " + std::to_string(width_) +
                                        " features, this one takes " + std::to_string(width.in)));
    }
    note_input(width.in);
    if (width.out > 0) width_ = width.out;
    layers.push_back(layer);
  }

  /// The first layer with a width decides what the blocks around it take.
  void note_input(std::int64_t width) {
    for (std::int64_t& first : first_widths_) {
      if (first == 0) first = width;
    }
  }

  /// The second round of a block takes what its first gave.
  void pass_repeats(const Value& entry, std::int64_t repeat) {
    if (repeat < 2 || last_first_width_ == 0 || width_ == 0 || last_first_width_ == width_) return;
    diagnostics_.push_back(error_at(entry.find("repeat")->span,
                                    "the block takes " + std::to_string(last_first_width_) +
                                        " features and gives " + std::to_string(width_) +
                                        ", so it cannot repeat"));
  }

  void report_too_many(const Value& entry) {
    too_many_ = true;
    diagnostics_.push_back(
        error_at(entry.find("repeat")->span,
                 "a block of more than " + std::to_string(kMostInBlock) + " layers"));
  }

  Diagnostics& diagnostics_;
  std::int64_t width_ = 0;  ///< features after the layers so far; 0: not known
  std::int64_t last_first_width_ = 0;
  std::vector<std::int64_t> first_widths_;  ///< of the open blocks, the outermost first
  bool too_many_ = false;
};

void check_sums(const std::vector<LayerBlock>& blocks, const SourceSpan& span,
                Diagnostics& diagnostics) {
  if (blocks.empty()) return;
  const std::size_t most = kMostSums / blocks.size();
  if (count_different(blocks, most) <= most) return;
  diagnostics.push_back(error_at(span,
                                 "a list of " + std::to_string(blocks.size()) +
                                     " layers with more than " + std::to_string(most) +
                                     " different ones",
                                 "write what comes again as {repeat: N, block: [...]}"));
}

}  // namespace

std::optional<LayerList> read_layer_list(const Value& model, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  LayerListReader reader(diagnostics);
  const Value& layers = *model.find("layers");
  LayerList list = reader.read(layers);
  check_sums(list.blocks, layers.span, diagnostics);
  if (layers.items.empty()) {
    diagnostics.push_back(error_at(layers.span, "a model has at least one layer"));
  }
  if (diagnostics.size() > before) return std::nullopt;
  if (!has_parameters(list)) {
    diagnostics.push_back(error_at(layers.span,
                                   "no layer has parameters, so there is nothing to train",
                                   "add a linear, layernorm, rmsnorm or embedding layer"));
    return std::nullopt;
  }
  return list;
}

}  // namespace memest
