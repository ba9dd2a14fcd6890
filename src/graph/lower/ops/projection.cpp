// A projection: one product, two of a low rank, one with a weight of codes, and the adapter around
// it.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "graph/lower/adapters/adapted_layer.hpp"
#include "graph/lower/float8/float8_linear.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/quantized/quantized_linear.hpp"
#include "graph/parameters/low_rank_parameters.hpp"
#include "graph/parameters/parameter_names.hpp"

namespace memest {
namespace {

/// A projection of a decoder, its module in the state dict, and the names of its adapter's ops and
/// of its two factors.
struct LinearModule {
  std::string_view projection;
  std::string_view DecoderNames::*module;
  AdapterNames adapter;
  std::string_view first = {};  ///< empty: no layer's
  std::string_view second = {};
};
/// That of a layer.
template <Literal projection>
constexpr LinearModule layer_module(std::string_view DecoderNames::*module) {
  return {projection.text, module, adapter_names<projection>(), kJoined<projection, Literal(".0")>,
          kJoined<projection, Literal(".1")>};
}
constexpr std::array kLinearModules = {
    layer_module<"q_proj">(&DecoderNames::q),
    layer_module<"k_proj">(&DecoderNames::k),
    layer_module<"v_proj">(&DecoderNames::v),
    layer_module<"qkv_proj">(&DecoderNames::qkv),
    layer_module<"o_proj">(&DecoderNames::attention_output),
    layer_module<"gate_proj">(&DecoderNames::gate),
    layer_module<"up_proj">(&DecoderNames::up),
    layer_module<"gate_up_proj">(&DecoderNames::gate_up),
    layer_module<"down_proj">(&DecoderNames::down),
    LinearModule{"lm_head", &DecoderNames::head, adapter_names<"lm_head">()},
};

/// The row of `projection`; null where neither an adapter nor factors can be there.
const LinearModule* row_of(std::string_view projection) {
  const auto* const found =
      std::find_if(kLinearModules.begin(), kLinearModules.end(),
                   [&](const LinearModule& row) { return row.projection == projection; });
  return found == kLinearModules.end() ? nullptr : found;
}

/// Whether a layer has the projection: queries, keys and values from one matrix or from three, a
/// gate beside the feed-forward's first product, in one matrix with it, or none.
bool has_projection(const DecoderContext& context, std::string_view projection) {
  const bool fused = context.attention.layout == QkvLayout::fused;
  if (projection == "qkv_proj") return fused;
  if (projection == "q_proj" || projection == "k_proj" || projection == "v_proj") {
    return !fused || context.program.adapts_joint_parts;
  }
  const std::vector<LayerKind>& kinds = context.decoder.kinds;
  return std::any_of(kinds.begin(), kinds.end(), [projection](const LayerKind& kind) {
    const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward);
    if (dense == nullptr) return true;
    const bool in_one = dense->gated && dense->fused_gate_up;
    if (projection == "gate_up_proj") return in_one;
    if (projection == "up_proj") return !in_one;
    return projection != "gate_proj" || (dense->gated && !in_one);
  });
}

struct Factorised {
  const Projection2d& shape;
  Expr rank;
};
/// torch.nn.Sequential(Linear(in, rank, bias=False), Linear(rank, out)) in the layer's place.
TensorId factorised(BlockBuilder& block, const LinearModule& names, const Factorised& layer,
                    const Rows& rows) {
  const Projection2d& shape = layer.shape;
  const TensorId narrow = linear(block, {names.first, shape.in, layer.rank}, rows);
  return linear(block, {names.second, layer.rank, shape.out, shape.bias}, {rows.shape, narrow});
}

/// Whether the weight of `shape` is kept as codes; `names`: its row, if it has one.
bool is_of_codes(const DecoderContext& context, const Projection2d& shape,
                 const LinearModule* names) {
  return context.quantized != nullptr && names != nullptr && !shape.tied &&
         quantizes(*context.quantized, context.names.*names->module);
}

}  // namespace

bool has_layer_module(const DecoderContext& context, std::string_view name) {
  return std::any_of(kLinearModules.begin(), kLinearModules.end(), [&](const LinearModule& row) {
    return !row.first.empty() && has_projection(context, row.projection) &&
           is_named(context.names.*row.module, name);
  });
}

bool has_module(const DecoderContext& context, std::string_view target) {
  return std::any_of(kLinearModules.begin(), kLinearModules.end(), [&](const LinearModule& row) {
    return has_projection(context, row.projection) && is_named(context.names.*row.module, target);
  });
}

TensorId base_projection(BlockBuilder& block, const DecoderContext& context,
                         const Projection2d& shape, const Rows& rows) {
  return is_of_codes(context, shape, row_of(shape.name))
             ? quantized_linear(block, context, shape, rows)
             : linear(block, shape, rows);
}

TensorId projection(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                    const Rows& rows) {
  if (runs_in_float8(context, shape)) return float8_linear(block, context, shape, rows);
  const LinearModule* names = row_of(shape.name);
  if (names != nullptr && context.low_rank != nullptr &&
      factorises(*context.low_rank, context.names.*names->module)) {
    return factorised(block, *names, {shape, Expr(context.low_rank->rank)}, rows);
  }
  const bool codes = is_of_codes(context, shape, names);
  if (context.adapter == nullptr) names = nullptr;
  if (names != nullptr && trains_whole(*context.adapter, context.names.*names->module)) {
    Projection2d whole = shape;
    whole.whole = true;
    return linear(block, whole, rows);
  }
  const auto base_layer = [&](const Rows& given) {
    return base_projection(block, context, shape, given);
  };
  if (names == nullptr || !adapts(*context.adapter, context.names.*names->module)) {
    return base_layer(rows);
  }
  const std::string_view module = context.names.*names->module;
  return adapted(block, context, {names->adapter, module, shape, codes}, {rows, base_layer});
}

}  // namespace memest
