// The keys of `compression`.
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

constexpr Key kPruneKeys[] = {
    {.name = "layers", .shapes = {count(1, kMaxLayers)}, .doc = "Layers that stay."},
    {.name = "hidden_size",
     .shapes = {count()},
     .doc = "Channels of the residual stream that stay."},
    {.name = "heads", .shapes = {count()}, .doc = "Attention heads that stay, of head_dim each."},
    {.name = "kv_heads", .shapes = {count()}, .doc = "Heads of keys and values that stay."},
    {.name = "ffn_size", .shapes = {count()}, .doc = "Channels of the feed-forward that stay."},
};

constexpr Key kCompressionKeys[] = {
    {.name = "prune",
     .shapes = {table(kPruneKeys)},
     .doc = "Whole layers, heads and channels are taken away; what is left out stays as it is."},
    {.name = "low_rank",
     .shapes = {table(kLowRankKeys)},
     .doc = "Linear layers as pairs of narrow ones."},
};

}  // namespace

std::span<const Key> compression_keys() { return kCompressionKeys; }

}  // namespace memest
