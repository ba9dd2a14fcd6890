// Which linear layers torchao's converter replaces, and which jobs with them are not followed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/lower/float8/float8_linear.hpp"
#include "graph/lower/float8/float8_parallel.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "memest/graph/float8_weights.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// _scaled_mm takes operands whose rows and columns are multiples of this (cuBLASLt).
constexpr std::int64_t kMultiple = 16;

/// A linear layer of a decoder, and its module in the state dict.
struct Float8Module {
  std::string_view projection;
  std::string_view DecoderNames::*module;
};
constexpr std::array kModules = {Float8Module{"q_proj", &DecoderNames::q},
                                 Float8Module{"k_proj", &DecoderNames::k},
                                 Float8Module{"v_proj", &DecoderNames::v},
                                 Float8Module{"qkv_proj", &DecoderNames::qkv},
                                 Float8Module{"o_proj", &DecoderNames::attention_output},
                                 Float8Module{"gate_proj", &DecoderNames::gate},
                                 Float8Module{"up_proj", &DecoderNames::up},
                                 Float8Module{"gate_up_proj", &DecoderNames::gate_up},
                                 Float8Module{"down_proj", &DecoderNames::down},
                                 Float8Module{kHeadProjection, &DecoderNames::head}};

/// Whose runs were recorded; torchtitan's models under its own name.
constexpr std::array<std::string_view, 6> kFamilies = {"llama", "mistral", "qwen2",
                                                       "qwen3", "phi3",    kTorchtitan};

std::string_view family_of(const DecoderContext& context) {
  return stored_type(context.habits.model_type, context.policy.implementation);
}

/// A module's name in the state dict, without the layer before it.
std::string_view name_of(const DecoderContext& context, const Float8Module& linear) {
  return names_of(family_of(context)).*linear.module;
}

bool is_in(std::string_view part, std::string_view name) {
  return name.find(part) != std::string_view::npos;
}

/// _auto_filter_for_tensorwise and _auto_filter_for_rowwise: too small to gain (N rows, K columns).
bool is_small(Float8Recipe recipe, std::int64_t n, std::int64_t k) {
  if (recipe == Float8Recipe::tensorwise) return k <= 4096 && n <= 1024;
  return n <= 2048 || k <= 1024 || (n <= 4096 && k <= 2048);
}

/// torchtitan's linears, as a rank has them.
std::vector<Projection2d> linears_of(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  const auto* dense = std::get_if<DenseFeedForward>(&context.decoder.kinds.front().feed_forward);
  const Expr size = dense != nullptr ? context.feed_forward_size(dense->size) : Expr();
  return {{"q_proj", dims.h, dims.a * dims.d}, {"k_proj", dims.h, dims.k * dims.d},
          {"o_proj", dims.a * dims.d, dims.h}, {"gate_proj", dims.h, size},
          {"down_proj", size, dims.h},         {kHeadProjection, dims.h, dims.v}};
}

/// Why layers that are compiled cannot be followed in float8; none where they can.
std::optional<Unavailable> compiled_refusal(const DecoderContext& context) {
  if (!context.compiles_layers()) return std::nullopt;
  const auto refuses = [](std::string_view where) {
    return Unavailable{"torch.compile beside float8 linears is not available yet " +
                       std::string(where)};
  };
  if (context.program.region_checkpoint != RegionCheckpoint::inside) {
    return refuses("in another program than torchtitan");
  }
  if (context.policy.float8->recipe == Float8Recipe::rowwise_with_gw_hp) {
    return refuses("with the recipe rowwise_with_gw_hp");
  }
  if (context.policy.autocast || context.policy.weights != DType::bf16) {
    return refuses("under autocast, or with weights that are not gathered in bf16");
  }
  return std::nullopt;
}

/// Why float8 linears cannot be followed as they are divided over ranks; none where they can.
std::optional<Unavailable> layout_refusal(const DecoderContext& context) {
  const auto refuses = [](const std::string& sentence) { return Unavailable{sentence}; };
  const LoweringPolicy& policy = context.policy;
  const bool cuts_sequences = policy.context > 1 && !context.compiles_layers();
  if (cuts_sequences || !policy.parts.empty()) {
    return refuses("float8 linears beside context or pipeline parallelism are not available yet");
  }
  if (policy.tensor == 1) return std::nullopt;
  if (!context.shards_tensors()) {
    return refuses("float8 linears beside tensor parallelism are available under torchtitan only");
  }
  if (policy.context > 1) {
    return refuses("float8 linears beside tensor and context parallelism are not available yet");
  }
  if (context.compiles_layers()) {
    return refuses(
        "torch.compile beside float8 linears and tensor parallelism is not available yet");
  }
  Bindings sizes;
  bind_sizes(context, sizes);
  for (const Projection2d& linear : linears_of(context)) {
    if (!runs_in_float8(context, linear)) {
      // Float8ColwiseParallel._apply raises for a module of another class.
      if (!gathers_activations_in_fp8(context) || linear.name == kHeadProjection) continue;
      return refuses(
          "torchtitan's float8 styles of tensor parallelism (before 0.2) take layers "
          "whose linears are all in float8: " +
          std::string(linear.name) + " is not");
    }
    for (const Expr& side : {linear.in, linear.out}) {
      const std::int64_t part = narrow_to_int64(side.evaluate(sizes));
      if (part % kMultiple == 0) continue;
      return refuses("float8 products take multiples of 16: a tensor-parallel rank's part of " +
                     std::string(linear.name) + " has a side of " + std::to_string(part));
    }
  }
  return std::nullopt;
}

/// Why the output head cannot be followed in float8; none where it can, or is left out.
std::optional<Unavailable> head_refusal(const DecoderContext& context) {
  if (!runs_in_float8(context, {kHeadProjection, context.dims.embedding, context.dims.v})) {
    return std::nullopt;
  }
  // Float8Linear.from_float wraps the head's weight in a parameter of its own: the tie is undone.
  if (context.policy.float8->all_gather && context.decoder.tied_embeddings) {
    return Unavailable{
        "a float8 head that is tied to the embedding and gathered in fp8 is not available yet"};
  }
  if (context.policy.end != ForwardEnd::cross_entropy) {
    return Unavailable{"a sum of logits behind a float8 head is not available yet"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> float8_refusal(const DecoderContext& context) {
  if (!context.policy.float8) return std::nullopt;
  const Float8Linears& float8 = *context.policy.float8;
  const auto refuses = [](const std::string& sentence) { return Unavailable{sentence}; };
  if (std::ranges::find(kFamilies, family_of(context)) == kFamilies.end()) {
    std::string known;
    for (const std::string_view one : kFamilies)
      known += (known.empty() ? "" : ", ") + std::string(one);
    return refuses("float8 linears are available in models of model_type " + known);
  }
  if (context.has_rope_cache()) {
    return refuses("float8 linears in torchtitan's Qwen3 are not available yet");
  }
  const bool dense = std::ranges::all_of(context.decoder.kinds, [](const LayerKind& kind) {
    return std::holds_alternative<DenseFeedForward>(kind.feed_forward);
  });
  if (!dense) return refuses("float8 linears beside experts are not available yet");
  if (context.adapter != nullptr) {
    return refuses("float8 linears beside an adapter are not available yet");
  }
  if (auto refused = compiled_refusal(context)) return refused;
  if (context.liger().any()) {
    return refuses("Liger's kernels beside float8 linears are not available yet");
  }
  if (auto refused = layout_refusal(context)) return refused;
  if (context.caches()) {
    return refuses("a key-value cache beside float8 linears is not available yet");
  }
  const bool rows = float8.recipe != Float8Recipe::tensorwise;
  // _scaled_mm_cuda (ATen/native/cuda/ScaledBlas.cpp): with a scale a tensor, and by rows.
  if (context.policy.capability < (rows ? kHopper : kAda)) {
    return refuses(rows ? "float8 products with scales by rows run from compute capability 9.0 on"
                        : "float8 products run from compute capability 8.9 on");
  }
  const std::int64_t tokens = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  if (tokens % kMultiple != 0) {
    return refuses("float8 products sum over the tokens of a micro-batch, a multiple of 16: not " +
                   std::to_string(tokens));
  }
  for (const std::string& filter : float8.filter_fqns) {
    const bool known = filter == kAutoFilterSmallKn ||
                       std::ranges::any_of(kModules, [&](const Float8Module& linear) {
                         return is_in(filter, name_of(context, linear));
                       });
    if (!known) return refuses("no linear layer's name contains '" + filter + "'");
  }
  return head_refusal(context);
}

bool runs_in_float8(const DecoderContext& context, const Projection2d& shape) {
  const std::optional<Float8Linears>& float8 = context.policy.float8;
  if (!float8) return false;
  const auto* const row = std::ranges::find(kModules, shape.name, &Float8Module::projection);
  if (row == kModules.end()) return false;
  Bindings sizes;
  bind_sizes(context, sizes);
  // The modules are converted before they are divided over the ranks.
  sizes.set(Symbol::tensor, 1);
  const auto size_of_side = [&](const Expr& side) { return narrow_to_int64(side.evaluate(sizes)); };
  const std::int64_t n = size_of_side(shape.out);
  const std::int64_t k = size_of_side(shape.in);
  if (n % kMultiple != 0 || k % kMultiple != 0) return false;
  return std::ranges::none_of(float8->filter_fqns, [&](const std::string& filter) {
    if (filter == kAutoFilterSmallKn) return is_small(float8->recipe, n, k);
    return is_in(filter, name_of(context, *row));
  });
}

std::vector<bool> gathered_in_fp8(const Graph& graph, const ModelSpec& model,
                                  const Implementation& implementation) {
  std::vector<bool> gathered(graph.parameters.parameters.size());
  const DecoderNames& names = names_of(stored_type(model.model_type, implementation));
  for (const Block& block : graph.blocks) {
    for (const Tensor& tensor : block.tensors) {
      if (tensor.role != Role::parameter || tensor.dtype != DType::fp8) continue;
      const std::string_view module =
          names.*std::ranges::find(kModules, tensor.op, &Float8Module::projection)->module;
      for (std::size_t row = 0; row < gathered.size(); ++row) {
        const std::string& name = graph.parameters.parameters[row].name;
        gathered[row] = gathered[row] || name == std::string(module) + ".weight";
      }
    }
  }

  return gathered;
}

}  // namespace memest
