// A projection: one product, two of a low rank, one with a weight of codes, and what an adapter
// adds to it (the forward of peft's lora.Linear, line by line).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

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
  std::string_view a;
  std::string_view b;
  std::string_view sum;
  std::string_view first = {};  ///< empty: no layer's
  std::string_view second = {};
};
constexpr std::array kLinearModules = {
    LinearModule{"q_proj", &DecoderNames::q, "q_proj.lora_A", "q_proj.lora_B", "q_proj.lora",
                 "q_proj.0", "q_proj.1"},
    LinearModule{"k_proj", &DecoderNames::k, "k_proj.lora_A", "k_proj.lora_B", "k_proj.lora",
                 "k_proj.0", "k_proj.1"},
    LinearModule{"v_proj", &DecoderNames::v, "v_proj.lora_A", "v_proj.lora_B", "v_proj.lora",
                 "v_proj.0", "v_proj.1"},
    LinearModule{"qkv_proj", &DecoderNames::qkv, "qkv_proj.lora_A", "qkv_proj.lora_B",
                 "qkv_proj.lora", "qkv_proj.0", "qkv_proj.1"},
    LinearModule{"o_proj", &DecoderNames::attention_output, "o_proj.lora_A", "o_proj.lora_B",
                 "o_proj.lora", "o_proj.0", "o_proj.1"},
    LinearModule{"gate_proj", &DecoderNames::gate, "gate_proj.lora_A", "gate_proj.lora_B",
                 "gate_proj.lora", "gate_proj.0", "gate_proj.1"},
    LinearModule{"up_proj", &DecoderNames::up, "up_proj.lora_A", "up_proj.lora_B", "up_proj.lora",
                 "up_proj.0", "up_proj.1"},
    LinearModule{"gate_up_proj", &DecoderNames::gate_up, "gate_up_proj.lora_A",
                 "gate_up_proj.lora_B", "gate_up_proj.lora", "gate_up_proj.0", "gate_up_proj.1"},
    LinearModule{"down_proj", &DecoderNames::down, "down_proj.lora_A", "down_proj.lora_B",
                 "down_proj.lora", "down_proj.0", "down_proj.1"},
    LinearModule{"lm_head", &DecoderNames::head, "lm_head.lora_A", "lm_head.lora_B",
                 "lm_head.lora"},
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
  if (projection == "q_proj" || projection == "k_proj" || projection == "v_proj") return !fused;
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

TensorId times_trained(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  Frame module(block);
  module.local(rows.x);
  const TensorId weight = block.trained_parameter({shape.name, "weight"}, {shape.out, shape.in});
  return product_with(block, shape, {weight, {}}, rows);
}

/// A layer that peft adapts, and whether its weight is kept as codes.
struct AdaptedLayer {
  const LinearModule& names;
  const Projection2d& shape;
  bool codes = false;
};
/// Its input, and its own result.
struct Adapted {
  const Rows& rows;
  TensorId result = 0;
};

/// The habits of peft's layers, by the layer that they hold.
struct LayerHabits {
  bool clones = false;        ///< the result, before the adapter's is added
  bool converts = true;       ///< the input to the adapter's type
  bool sums_in_type = false;  ///< the adapter's result is cast to the layer's before the sum
};
LayerHabits layer_habits(const DecoderContext& context, bool codes) {
  // tuners/lora/layer.py: lora.Linear casts its input in any case; lora/bnb.py and lora/hqq.py
  // where autocast would not (requires_conversion). lora.Linear4bit clones what its layer answers.
  if (!codes) return {};
  const bool hqq = memest::row_of(context.quantized->format).hqq;
  return {.clones = !hqq, .converts = !context.policy.autocast, .sums_in_type = !hqq};
}

/// result + lora_B(lora_A(dropout(x))) * scaling, from the inside out.
TensorId adapted(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                 const Adapted& of) {
  const LinearModule& names = layer.names;
  const Projection2d& shape = layer.shape;
  const LoraAdapter& lora = *context.adapter;
  const LayerHabits habits = layer_habits(context, layer.codes);
  const TensorId x = of.rows.x;
  const DType type = block.dtype_of(of.result);
  const Expr rank(lora.rank);
  Frame frame(block);
  frame.local(x);
  const TensorId result =
      habits.clones ? copy(block, {names.sum, "clone"}, of.result, block.tensor(of.result).shape)
                    : of.result;
  // x = self._cast_input_dtype(x, lora_A.weight.dtype): fp32 beside 16-bit weights, twice the
  // bytes, and kept by lora_A.
  const TensorId wide =
      habits.converts ? cast(block, {names.sum, "input"}, x, block.trained_type()) : x;
  if (wide != x) frame.local(wide);
  const TensorId input = dropout(block, names.sum, context.dropout(lora.dropout), wide);
  const TensorId narrow = times_trained(block, {names.a, shape.in, rank}, {of.rows.shape, input});
  const TensorId update = times_trained(block, {names.b, rank, shape.out}, {of.rows.shape, narrow});
  TensorId scaled = scale(block, {names.b, "scaled"}, update);
  if (habits.sums_in_type) {
    if (habits.converts) scaled = cast(block, {names.b, "in type"}, scaled, type);
    frame.local(scaled);
  }
  const TensorId sum = add(block, {names.sum, "sum"}, result, scaled);
  // result = result.to(torch_result_dtype)
  const bool settles = !layer.codes || (!habits.sums_in_type && habits.converts);
  return settles ? cast(block, {names.sum, "in type"}, sum, type) : sum;
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

TensorId projection(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                    const Rows& rows) {
  if (runs_in_float8(context, shape)) return float8_linear(block, context, shape, rows);
  const LinearModule* names = row_of(shape.name);
  if (names != nullptr && context.low_rank != nullptr &&
      factorises(*context.low_rank, context.names.*names->module)) {
    return factorised(block, *names, {shape, Expr(context.low_rank->rank)}, rows);
  }
  const LinearModule* const layer = names;
  if (context.adapter == nullptr) names = nullptr;
  if (names != nullptr && trains_whole(*context.adapter, context.names.*names->module)) {
    Projection2d whole = shape;
    whole.whole = true;
    return linear(block, whole, rows);
  }
  const bool codes = is_of_codes(context, shape, layer);
  const TensorId result =
      codes ? quantized_linear(block, context, shape, rows) : linear(block, shape, rows);
  if (names == nullptr || !adapts(*context.adapter, context.names.*names->module)) return result;
  return adapted(block, context, {*names, shape, codes}, {rows, result});
}

}  // namespace memest
