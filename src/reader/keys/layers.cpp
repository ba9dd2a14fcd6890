// The keys of `model` as a list of layers.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

// Defaults of torch.nn: Linear(bias=True), LayerNorm(bias=True), Dropout(p=0.5), Conv2d(stride=1,
// padding=0, dilation=1, groups=1, bias=True), MaxPool2d(stride=kernel_size), and inplace=False.
constexpr Key kLinearKeys[] = {
    {.name = "in",
     .shapes = {count()},
     .doc = "Input features; of images what the layer before gives, where left out."},
    {.name = "out", .shapes = {count()}, .doc = "Output features.", .required = true},
    {.name = "bias", .shapes = {flag()}, .fallback = "true", .doc = "A bias is added."},
};
constexpr Key kActivationKeys[] = {
    {.name = "in_place",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The result overwrites the input."},
};
constexpr Key kNormKeys[] = {
    {.name = "size", .shapes = {count()}, .doc = "Features.", .required = true},
    {.name = "bias", .shapes = {flag()}, .fallback = "true", .doc = "Layernorm adds a bias."},
};
constexpr Key kRmsNormKeys[] = {
    {.name = "size", .shapes = {count()}, .doc = "Features.", .required = true},
};
constexpr Key kDropoutKeys[] = {
    {.name = "probability",
     .shapes = {number(0, 1)},
     .fallback = "0.5",
     .doc = "Share of elements set to zero."},
    {.name = "in_place",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The result overwrites the input."},
};
constexpr Key kEmbeddingKeys[] = {
    {.name = "rows", .shapes = {count()}, .doc = "Rows of the table.", .required = true},
    {.name = "size", .shapes = {count()}, .doc = "Features of a row.", .required = true},
};

extern const Shapes kLayerShapes;
constexpr std::int64_t kMostSide = 100'000;
constexpr Shapes kSideShapes = {count(0, kMostSide)};
/// A number for both sides, or [height, width].
constexpr Shapes sides(std::int64_t least) { return {count(least, kMostSide), list(kSideShapes)}; }

constexpr Key kConvolutionKeys[] = {
    {.name = "in",
     .shapes = {count()},
     .doc = "Input channels; what the layer before gives, where left out."},
    {.name = "out", .shapes = {count()}, .doc = "Output channels.", .required = true},
    {.name = "kernel",
     .shapes = sides(1),
     .doc = "Side of the kernel, or [height, width].",
     .required = true},
    {.name = "stride", .shapes = sides(1), .fallback = "1", .doc = "Step of the kernel."},
    {.name = "padding", .shapes = sides(0), .fallback = "0", .doc = "Zeros on every side."},
    {.name = "dilation", .shapes = sides(1), .fallback = "1", .doc = "Step between taps."},
    {.name = "groups",
     .shapes = {count()},
     .fallback = "1",
     .doc = "Groups of channels that are convolved apart; as many as channels: depthwise."},
    {.name = "bias", .shapes = {flag()}, .fallback = "true", .doc = "A bias is added."},
    {.name = "transposed",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The gradient of a convolution, which enlarges (ConvTranspose2d)."},
    {.name = "output_padding",
     .shapes = sides(0),
     .fallback = "0",
     .doc = "Rows and columns added to the output of a transposed one."},
};
constexpr Key kBatchNormKeys[] = {
    {.name = "size",
     .shapes = {count()},
     .doc = "Channels; what the layer before gives, where left out."},
};
constexpr Key kPoolKeys[] = {
    {.name = "kernel",
     .shapes = sides(1),
     .doc = "Side of the window, or [height, width].",
     .required = true},
    {.name = "stride", .shapes = sides(1), .doc = "Step of the window; its side where left out."},
    {.name = "padding", .shapes = sides(0), .fallback = "0", .doc = "On every side."},
    {.name = "ceil",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "A window that ends outside of the image counts."},
};
constexpr Key kAdaptivePoolKeys[] = {
    {.name = "size",
     .shapes = sides(1),
     .doc = "Side of the output, or [height, width].",
     .required = true},
};
constexpr Key kResidualBlockKeys[] = {
    {.name = "body",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers whose result is added.",
     .required = true},
    {.name = "shortcut",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers on the other way; what comes is added itself where left out."},
    {.name = "in_place",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Written `out += identity`, as ResNets do, not `x + body(x)`."},
};
constexpr Shapes kBranchShapes = {list(kLayerShapes)};
constexpr Key kConcatKeys[] = {
    {.name = "branches",
     .shapes = {list(kBranchShapes)},
     .doc = "Lists of layers; an empty one hands on what comes.",
     .required = true},
    {.name = "then",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers behind, which run while the parts are still named."},
};
constexpr Key kRepeatKeys[] = {
    {.name = "repeat",
     .shapes = {count(1, kMaxLayers)},
     .doc = "How many times the block stands there.",
     .required = true},
    {.name = "block",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers in order; blocks may hold blocks.",
     .required = true},
};
constexpr Key kLayerKeys[] = {
    {.name = "linear", .shapes = {table(kLinearKeys)}, .doc = "y = x W^T + b."},
    {.name = "relu", .shapes = {table(kActivationKeys)}, .doc = "max(x, 0)."},
    {.name = "gelu", .shapes = {table(kActivationKeys)}, .doc = "Exact GELU."},
    {.name = "relu6", .shapes = {table(kActivationKeys)}, .doc = "min(max(x, 0), 6)."},
    {.name = "silu", .shapes = {table(kActivationKeys)}, .doc = "x sigmoid(x)."},
    {.name = "sigmoid", .shapes = {table(kActivationKeys)}, .doc = "Logistic function."},
    {.name = "tanh", .shapes = {table(kActivationKeys)}, .doc = "Hyperbolic tangent."},
    {.name = "layernorm", .shapes = {table(kNormKeys)}, .doc = "Layer normalization."},
    {.name = "rmsnorm", .shapes = {table(kRmsNormKeys)}, .doc = "Root mean square normalization."},
    {.name = "softmax", .shapes = {table({})}, .doc = "Softmax over the last dimension."},
    {.name = "dropout", .shapes = {table(kDropoutKeys)}, .doc = "Dropout."},
    {.name = "embedding", .shapes = {table(kEmbeddingKeys)}, .doc = "A table that is looked up."},
    {.name = "conv", .shapes = {table(kConvolutionKeys)}, .doc = "Convolution of images."},
    {.name = "batchnorm", .shapes = {table(kBatchNormKeys)}, .doc = "Batch normalization."},
    {.name = "maxpool", .shapes = {table(kPoolKeys)}, .doc = "Largest of each window."},
    {.name = "avgpool", .shapes = {table(kPoolKeys)}, .doc = "Mean of each window."},
    {.name = "adaptive_maxpool",
     .shapes = {table(kAdaptivePoolKeys)},
     .doc = "Largest of as many windows as the output has elements."},
    {.name = "adaptive_avgpool",
     .shapes = {table(kAdaptivePoolKeys)},
     .doc = "Mean of as many windows as the output has elements."},
    {.name = "flatten", .shapes = {table({})}, .doc = "Images as rows of features."},
    {.name = "residual", .shapes = {table(kResidualBlockKeys)}, .doc = "A sum of two ways."},
    {.name = "concat",
     .shapes = {table(kConcatKeys)},
     .doc = "Branches, joined along the channels."},
    {.name = "dense",
     .shapes = {table(kRepeatKeys)},
     .doc = "A block whose every round reads the results of all before, as DenseNet's."},
};
constexpr Shapes kLayerShapes = {one_of_or_word(kLayerKeys), table(kRepeatKeys)};

constexpr Key kImageKeys[] = {
    {.name = "channels", .shapes = {count()}, .doc = "Channels, 3 of colours.", .required = true},
    {.name = "height", .shapes = {count(1, kMostSide)}, .doc = "Rows.", .required = true},
    {.name = "width", .shapes = {count(1, kMostSide)}, .doc = "Columns.", .required = true},
};
constexpr Word kListLosses[] = {{"mean-square"}, {"cross-entropy"}};
constexpr Key kLayerListKeys[] = {
    {.name = "layers",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers in order, and repeated blocks of them.",
     .required = true},
    {.name = "loss",
     .shapes = {choice(kListLosses)},
     .fallback = "mean-square",
     .doc = "Mean square of the output, or cross-entropy over its features or channels."},
    {.name = "image", .shapes = {table(kImageKeys)}, .doc = "What a sample is, where not rows."},
};

}  // namespace

std::span<const Key> layer_list_keys() { return kLayerListKeys; }

}  // namespace memest
