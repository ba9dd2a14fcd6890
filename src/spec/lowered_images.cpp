#include "memest/spec/lowered_images.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

std::int64_t pixels(const Features& image) {
  return checked_multiply(image.sides->height, image.sides->width);
}

/// im2col of a convolution: its kernel's taps of every input channel for each pixel of the output;
/// col2im of a transposed one: of every output channel for each pixel of the input.
std::int64_t columns(const ConvolutionLayer& layer, const Features& given, const Features& made) {
  const std::int64_t taps = checked_multiply(layer.kernel.height, layer.kernel.width);
  return layer.transposed ? checked_multiply(checked_multiply(taps, layer.out), pixels(given))
                          : checked_multiply(checked_multiply(taps, layer.in), pixels(made));
}

class Walk {
 public:
  explicit Walk(const Features& image) : now_(image) {}

  void pass(const std::vector<PlainLayer>& layers) {
    for (const PlainLayer& layer : layers) {
      std::visit([&](const auto& kind) { pass(kind, layer); }, layer);
    }
  }

  LoweredImages seen;
  std::int64_t times = 1;

 private:
  template <class Layer>
  void pass(const Layer& kind, const PlainLayer& layer) {
    const Features given = now_;
    const std::optional<Features> made = features_after(layer, given);
    expect(made.has_value(), "the reader has seen that images are large enough");
    now_ = *made;
    if constexpr (std::is_same_v<Layer, ConvolutionLayer>) {
      const std::int64_t elements = columns(kind, given, now_);
      seen.all = checked_add(seen.all, checked_multiply(times, elements));
      seen.largest = std::max(seen.largest, elements);
    }
  }
  void pass(const ResidualLayer& layer, const PlainLayer& /*layer*/) {
    const Features given = now_;
    pass(layer.shortcut);
    now_ = given;
    pass(layer.body);
  }
  void pass(const ConcatLayer& layer, const PlainLayer& /*layer*/) {
    const Features given = now_;
    std::int64_t channels = 0;
    for (const std::vector<PlainLayer>& branch : layer.branches) {
      now_ = given;
      pass(branch);
      channels += now_.channels;
    }
    now_.channels = channels;
    pass(layer.then);
  }
  void pass(const DenseLayer& layer, const PlainLayer& /*layer*/) {
    Features joined = now_;
    for (const std::vector<PlainLayer>& round : layer.rounds) {
      now_ = joined;
      pass(round);
      joined.channels += now_.channels;
    }
    now_ = joined;
  }

  Features now_;
};

}  // namespace

LoweredImages lowered_images(const LayerList& list) {
  if (!list.reads_images()) return {};
  Walk walk(list.image);
  for (const LayerBlock& block : list.blocks) {
    walk.times = block.repeat;
    walk.pass(block.block);
  }
  return walk.seen;
}

Bytes most_convolution_workspace(const Job& job) {
  const auto* const list = std::get_if<LayerList>(&job.model.architecture);
  const ForwardSpec* const forward = job.forward();
  if (list == nullptr || forward == nullptr) return {};
  const std::int64_t elements =
      checked_multiply(lowered_images(*list).largest, forward->micro_batch);
  return Bytes(checked_multiply(elements, std::int64_t{size_of(forward->recipe.compute)}));
}

}  // namespace memest
