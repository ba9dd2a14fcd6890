// Sizes of images behind each layer, as torch.nn's pages and Pool.h, ConvUtils.h have them.
#include <algorithm>
#include <type_traits>

#include "memest/spec/layers.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// A window along one side.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  [[nodiscard]] std::int64_t reach() const { return checked_multiply(dilation, kernel - 1) + 1; }
};

/// ConvUtils.h, conv_output_size; 0 where the window is larger than the padded side.
std::int64_t windows(std::int64_t side, const Window& window) {
  const std::int64_t room =
      checked_add(side, checked_multiply(std::int64_t{2}, window.padding)) - window.reach();
  return room < 0 ? 0 : room / window.stride + 1;
}

/// Pool.h, pooling_output_shape_pad_lr: with ceil_mode the last window begins inside the image or
/// its left padding.
std::int64_t pooled(std::int64_t side, const Window& window, bool ceil) {
  const std::int64_t room =
      checked_add(side, checked_multiply(std::int64_t{2}, window.padding)) - window.reach();
  if (room < 0) return 0;
  if (!ceil) return room / window.stride + 1;
  const std::int64_t count = (room + window.stride - 1) / window.stride + 1;
  return (count - 1) * window.stride >= side + window.padding ? count - 1 : count;
}

/// ConvUtils.h, conv_input_size.
std::int64_t widened(std::int64_t side, const Window& window, std::int64_t output_padding) {
  return checked_multiply(side - 1, window.stride) - 2 * window.padding + window.reach() +
         output_padding;
}

struct After {
  const Features& given;

  template <class Side>
  [[nodiscard]] std::optional<Features> sized(std::int64_t channels, const Side& side) const {
    const Sides sides = {side(given.sides->height, &Sides::height),
                         side(given.sides->width, &Sides::width)};
    if (sides.height < 1 || sides.width < 1) return std::nullopt;
    return Features{channels, sides};
  }

  std::optional<Features> operator()(const ConvolutionLayer& layer) const {
    return sized(layer.out, [&](std::int64_t side, std::int64_t Sides::*at) {
      const Window window{layer.kernel.*at, layer.stride.*at, layer.padding.*at,
                          layer.dilation.*at};
      return layer.transposed ? widened(side, window, layer.output_padding.*at)
                              : windows(side, window);
    });
  }
  std::optional<Features> operator()(const PoolLayer& layer) const {
    return sized(given.channels, [&](std::int64_t side, std::int64_t Sides::*at) {
      return pooled(side, {layer.kernel.*at, layer.stride.*at, layer.padding.*at}, layer.ceil);
    });
  }
  std::optional<Features> operator()(const AdaptivePoolLayer& layer) const {
    return Features{given.channels, layer.size};
  }
  std::optional<Features> operator()(const FlattenLayer&) const {
    return Features{checked_multiply(given.channels,
                                     checked_multiply(given.sides->height, given.sides->width))};
  }
  std::optional<Features> operator()(const LinearLayer& layer) const {
    return Features{layer.out, given.sides};
  }
  std::optional<Features> operator()(const EmbeddingLayer& layer) const {
    return Features{layer.size, given.sides};
  }
  template <class Other>
  std::optional<Features> operator()(const Other&) const {
    return given;
  }
};

}  // namespace

std::optional<Features> features_after(const PlainLayer& layer, const Features& given) {
  return std::visit(After{given}, layer);
}

}  // namespace memest
