// The keys of `compression`.
#include "reader/keys/code_storage.hpp"
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr Shapes kModules = {text()};
constexpr Key kLowRankKeys[] = {
    {.name = "rank",
     .shapes = {count()},
     .doc = "Inner size of each pair of layers.",
     .required = true,
     .usual = "256"},
    {.name = "modules",
     .shapes = {list(kModules)},
     .doc = "Linear layers of a block that are two each, by the end of their names.",
     .required = true,
     .usual = "[gate_proj, up_proj, down_proj]"},
};

constexpr Word kSharedOrders[] = {{"repeat"}, {"cycle"}};
constexpr Key kShareLayersKeys[] = {
    {.name = "distinct",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Layers that have weights of their own.",
     .required = true,
     .usual = "1"},
    {.name = "order",
     .shapes = {choice(kSharedOrders)},
     .fallback = "repeat",
     .doc = "`repeat`: a layer runs several times in a row; `cycle`: all of them, and again."},
};

constexpr Key kPruneKeys[] = {
    {.name = "layers", .shapes = {count(1, kMaxLayers)}, .doc = "Layers that stay."},
    {.name = "hidden_size",
     .shapes = {count()},
     .doc = "Channels of the residual stream that stay."},
    {.name = "heads", .shapes = {count()}, .doc = "Attention heads that stay, of head_dim each."},
    {.name = "kv_heads", .shapes = {count()}, .doc = "Heads of keys and values that stay."},
    {.name = "ffn_size", .shapes = {count()}, .doc = "Channels of the feed-forward that stay."},
};

// WeightFormatRow::word.
constexpr Word kWeightFormats[] = {{"nf4"},  {"fp4"},  {"int8"}, {"hqq8"},
                                   {"hqq4"}, {"hqq2"}, {"hqq1"}, {"torchao-nf4"}};
constexpr double kMostMagnitude = 65'504;  // in fp16
constexpr Key kQuantizeKeys[] = {
    {.name = "weights",
     .shapes = {choice(kWeightFormats)},
     .doc = "Codes of 4 bits (bitsandbytes' nf4 and fp4; torchao-nf4 of torchtune), LLM.int8() "
            "(`int8`), or 8 to 1 bits (HQQ's).",
     .required = true,
     .usual = "nf4"},
    {.name = "double_quant",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The scales of nf4 and fp4 are codes too (bnb_4bit_use_double_quant)."},
    kCodeStorage,
    {.name = "group_size",
     .shapes = {count(1, 65'536)},
     .fallback = "64",
     .doc = "Codes that share a scale, of HQQ."},
    {.name = "threshold",
     .shapes = {number(0, kMostMagnitude)},
     .fallback = "6",
     .doc = "Of `int8`: magnitude from which a column is an outlier (llm_int8_threshold); 0: none "
            "is."},
    {.name = "skip_modules",
     .shapes = {list(kModules)},
     .fallback = "[lm_head]",
     .doc = "Linear layers that stay whole, by the end of their names."},
};

constexpr Key kCompressionKeys[] = {
    {.name = "prune",
     .shapes = {table(kPruneKeys)},
     .doc = "Whole layers, heads and channels are taken away; what is left out stays as it is."},
    {.name = "low_rank",
     .shapes = {table(kLowRankKeys)},
     .doc = "Linear layers as pairs of narrow ones."},
    {.name = "share_layers",
     .shapes = {table(kShareLayersKeys)},
     .doc = "Layers that use another's weights."},
    {.name = "quantize",
     .shapes = {table(kQuantizeKeys)},
     .doc = "Frozen weights of linear layers as codes and scales."},
};

}  // namespace

std::span<const Key> compression_keys() { return kCompressionKeys; }

}  // namespace memest
