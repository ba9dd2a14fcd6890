// transformers' DynamicCache, filled by the forward (transformers 5.17, cache_utils.py).
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

constexpr std::string_view kKeys = "k_cache";
constexpr std::string_view kValues = "v_cache";
/// The dimension of tokens in keys and values, [b, s, heads, d] as projections make them.
constexpr std::size_t kTokens = 1;

/// The keys or values that the layer's cache holds before a decoding pass.
TensorId held_before(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                     const Heads& added) {
  Shape shape = block.tensor(added.id).shape;
  shape[kTokens] = context.dims.keys - Expr(1);
  const TensorId held =
      block.make({name, "before"}, std::move(shape), block.dtype_of(added.id), Role::input);
  block.tensor(held).cache_part = CachePart::before;
  return held;
}

/// A layer's keys or values, and those held before.
struct CachedHeads {
  std::string_view name;
  Heads added;
  DType dtype = {};  ///< of the cache
  std::optional<TensorId> before = {};
};

/// The heads joined to what was before or, where there is nothing yet, to an empty tensor of the
/// cache's type.
Heads joined(BlockBuilder& block, const DecoderContext& context, const CachedHeads& heads) {
  const auto& [name, added, dtype, before] = heads;
  Shape shape = block.tensor(added.id).shape;
  Joint joint = {{added.id}, dtype};
  if (before) {
    shape[kTokens] = context.dims.keys;
    joint = {{*before, added.id}, {}};
  }
  const TensorId out = concatenate(block, {name}, joint, std::move(shape));
  block.answer(out);
  block.tensor(out).cache_part = CachePart::after;
  return {out, true};
}

}  // namespace

// DynamicLayer.update, or DynamicSlidingWindowLayer.update, whose lazy_initialization sends its
// window's size. The names of the keys and values that are added end with the call. A layer's cache
// lets its old keys go when it has the new ones, a window's lets both go when both are there; of a
// window it keeps a view, whose storage is whole. Keys and values have the keys' type.
void update_cache(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                  AttentionInputs& inputs) {
  Frame call(block);
  // Under autocast keys that were rotated in fp32 make values of fp32, too.
  const DType dtype = block.dtype_of(inputs.k.id);
  for (const TensorId added : {inputs.k.id, inputs.v.id}) call.local(added);
  if (!context.decodes()) {
    if (kind.sliding_window) {
      block.answer(
          compute(block, OpKind::copy, {}, {{"cache", "window"}, {Expr(1)}, DType::int64}));
    }
    inputs.k = joined(block, context, {kKeys, inputs.k, dtype});
    inputs.v = joined(block, context, {kValues, inputs.v, dtype});
    return;
  }
  Frame cache(block);
  const TensorId keys = held_before(block, context, kKeys, inputs.k);
  const TensorId values = held_before(block, context, kValues, inputs.v);
  if (kind.sliding_window) {
    for (const TensorId held : {keys, values}) cache.local(held);
  }
  inputs.k = joined(block, context, {kKeys, inputs.k, dtype, keys});
  inputs.v = joined(block, context, {kValues, inputs.v, dtype, values});
}

}  // namespace memest
