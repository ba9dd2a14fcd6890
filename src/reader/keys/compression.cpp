// The keys of `compression`.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr Shapes kModules = {text()};

constexpr Word kFourBitTypes[] = {{"nf4"}, {"fp4"}};
constexpr Key kBitsandbytesKeys[] = {
    {.name = "bits",
     .shapes = {count(4, 8)},
     .doc = "4 (Linear4bit) or 8 (Linear8bitLt).",
     .required = true,
     .usual = "4"},
    {.name = "type",
     .shapes = {choice(kFourBitTypes)},
     .fallback = "nf4",
     .doc = "Of 4 bits: the data type (bnb_4bit_quant_type)."},
    {.name = "double_quant",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Of 4 bits: the scales are quantised too (bnb_4bit_use_double_quant)."},
};
constexpr Key kHqqKeys[] = {
    {.name = "bits",
     .shapes = {count(1, 8)},
     .doc = "Bits of a weight: 8, 4, 3, 2 or 1 (nbits).",
     .required = true,
     .usual = "4"},
    {.name = "group_size",
     .shapes = {count()},
     .fallback = "64",
     .doc = "Weights that share a scale and a zero."},
};
constexpr Key kQuantizeKeys[] = {
    {.name = "bitsandbytes",
     .shapes = {table(kBitsandbytesKeys)},
     .doc = "bitsandbytes' linear layers."},
    {.name = "hqq", .shapes = {table(kHqqKeys)}, .doc = "HQQ's linear layers."},
};

constexpr Key kLowRankKeys[] = {
    {.name = "rank",
     .shapes = {count()},
     .doc = "Inner size of each pair of layers.",
     .required = true},
    {.name = "modules",
     .shapes = {list(kModules)},
     .doc = "Linear layers that are factorised; all of a layer's where left out."},
};
constexpr Key kShareKeys[] = {
    {.name = "groups",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Layers that have parameters of their own (ALBERT's num_hidden_groups).",
     .required = true},
};
constexpr Key kUnstructuredKeys[] = {
    {.name = "amount",
     .shapes = {number(0, 1)},
     .doc = "Share of each weight that is set to zero.",
     .required = true},
    {.name = "modules",
     .shapes = {list(kModules)},
     .doc = "Linear layers that are pruned; all of a layer's where left out."},
};
constexpr Key kStructuredKeys[] = {
    {.name = "layers", .shapes = {count(1, kMaxLayers)}, .doc = "Layers that stay."},
    {.name = "ffn_size", .shapes = {count()}, .doc = "Channels of the feed-forward that stay."},
    {.name = "heads", .shapes = {count()}, .doc = "Attention heads that stay."},
    {.name = "kv_heads", .shapes = {count()}, .doc = "Heads of keys and values that stay."},
    {.name = "hidden_size",
     .shapes = {count()},
     .doc = "Channels of the residual stream that stay."},
};
constexpr Key kPruneKeys[] = {
    {.name = "unstructured",
     .shapes = {table(kUnstructuredKeys)},
     .doc = "Single weights (torch.nn.utils.prune)."},
    {.name = "structured",
     .shapes = {table(kStructuredKeys)},
     .doc = "Whole layers, heads and channels: a smaller model."},
};

constexpr Key kCompressionKeys[] = {
    {.name = "quantize",
     .shapes = {one_of(kQuantizeKeys)},
     .doc = "Weights of few bits, with their scales.",
     .later = "quantised weights"},
    {.name = "prune",
     .shapes = {one_of(kPruneKeys)},
     .doc = "Weights or parts that are taken away.",
     .later = "pruning"},
    {.name = "low_rank",
     .shapes = {table(kLowRankKeys)},
     .doc = "Linear layers as pairs of narrow ones.",
     .later = "low-rank factorisation"},
    {.name = "share_layers",
     .shapes = {table(kShareKeys)},
     .doc = "Parameters that several layers share.",
     .later = "parameters that layers share"},
};

}  // namespace

std::span<const Key> compression_keys() { return kCompressionKeys; }

}  // namespace memest
