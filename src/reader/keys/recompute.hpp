// The keys of `training.recompute`.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>

#include "memest/spec/recompute/recompute.hpp"
#include "reader/keys/keys.hpp"

namespace memest {

inline constexpr auto kSelectiveChoices = [] {
  std::array<Word, std::size(kSelectiveWords)> words;
  std::ranges::transform(kSelectiveWords, words.begin(),
                         [](const SelectiveWord& one) { return Word{one.word}; });
  return words;
}();
inline constexpr Shapes kSelectiveItem = {choice(kSelectiveChoices)};
inline constexpr Word kMethods[] = {{"uniform"}, {"block"}};
inline constexpr Key kFullKeys[] = {
    {.name = "reentrant",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "torch.utils.checkpoint with use_reentrant=True."},
    {.name = "method",
     .shapes = {choice(kMethods)},
     .fallback = "uniform",
     .doc = "Megatron's recompute_method; `block` recomputes the first `layers` alone, in "
            "transformers too."},
    {.name = "layers",
     .shapes = {count(1, kMaxLayers)},
     .fallback = "1",
     .doc = "Megatron's recompute_num_layers."},
    {.name = "distribute",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Megatron's distribute_saved_activations."},
};
inline constexpr Shapes kLayerNumber = {count(0, kMaxLayers - 1)};
inline constexpr Word kRecomputes[] = {{"none"}, {"full"}, {"selective"}, {"sqrt"}};
inline constexpr Key kRecomputeKeys[] = {
    {.name = "every",
     .shapes = {count(1, kMaxLayers)},
     .doc = "One checkpoint for every so many blocks."},
    {.name = "full", .shapes = {table(kFullKeys)}, .doc = "Every block keeps its input only."},
    {.name = "selective",
     .shapes = {list(kSelectiveItem)},
     .doc = "Which parts of a block are recomputed."},
    {.name = "blocks",
     .shapes = {list(kLayerNumber)},
     .doc = "These layers of the model alone, counted from 0, each in a checkpoint of its own."},
    {.name = "budget",
     .shapes = {quantity(Dimension::size)},
     .doc = "As little recompute as keeps what a GPU's memory is taken of within so much."},
};

}  // namespace memest
