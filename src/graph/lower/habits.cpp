#include "habits.hpp"

#include <algorithm>
#include <array>

namespace memest {
namespace {

constexpr std::array kHabits = {
    Habits{},
    Habits{.model_type = "llama"},
    Habits{.model_type = "mistral"},
    Habits{.model_type = "qwen2", .masks_by_type = true},
    Habits{
        .model_type = "qwen3", .projections = ProjectionOrder::norm_by_norm, .masks_by_type = true},
    Habits{.model_type = "smollm3", .masks_by_type = true},
    Habits{.model_type = "granite"},
    Habits{.model_type = "phi", .locals = LayerLocals::first_norm, .names_channels = true},
    Habits{.model_type = "stablelm",
           .locals = LayerLocals::first_norm,
           .drops_attention_output = false,
           .names_channels = true,
           .projections = ProjectionOrder::views_last},
    Habits{.model_type = "starcoder2", .drops_inside = true},
    Habits{.model_type = "gpt_neox",
           .joined_replaces = true,
           .norms_between_branches = true,
           .transposes_before_split = true,
           .locals = LayerLocals::branches},
    Habits{.model_type = "gpt_bigcode",
           .masks_before_positions = true,
           .locals = LayerLocals::sublayers,
           .drops_inside = true},
    Habits{.model_type = "gpt2",
           .softmax_in_type = true,
           .bias_call = BiasCall::first_argument,
           .splits_before_heads = true,
           .locals = LayerLocals::sublayers,
           .drops_inside = true},
    Habits{.model_type = "bloom", .eager_only = true},
    Habits{.model_type = "opt",
           .masks_before_positions = true,
           .positions_from_mask = true,
           .feeds_inline = true,
           .scales_queries = true},
    Habits{.model_type = "falcon",
           .softmax_in_type = true,
           .masks_always = true,
           .bias_call = BiasCall::own_op,
           .splits_by_index = true,
           .rotates_unused = true,
           .drops_joined_branches = true,
           .drops_attention = false},
    Habits{.model_type = "mpt",
           .eager_only = true,
           .masks_by_fill = true,
           .splits_before_heads = true,
           .locals = LayerLocals::sublayers},
    Habits{.model_type = "glm", .joined_replaces = true, .tables_by_layer = true},
    Habits{.model_type = "glm4", .joined_replaces = true, .tables_by_layer = true},
    Habits{.model_type = "ernie4_5",
           .tables_in_fp32 = true,
           .tables_by_layer = true,
           .rotation = RotationType::factors_in_fp32},
    Habits{.model_type = "nemotron", .layer_norm = NormWriting::one_plus_fused},
    Habits{
        .model_type = "phi3", .rotates_by_cat = true, .slices_qkv = true, .drops_embedding = false},
    Habits{.model_type = "olmo",
           .layer_norm = NormWriting::fp32,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last},
    Habits{.model_type = "olmo2",
           .rms_norm = NormWriting::gain_then_cast,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last},
    Habits{.model_type = "olmo3",
           .rms_norm = NormWriting::gain_then_cast,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last,
           .masks_by_type = true},
    Habits{.model_type = "cohere",
           .layer_norm = NormWriting::python_layer,
           .locals = LayerLocals::first_norm,
           .joins_residual_first = true,
           .rotation = RotationType::whole_in_fp32},
    Habits{.model_type = "cohere2",
           .layer_norm = NormWriting::python_layer,
           .locals = LayerLocals::first_norm,
           .joins_residual_first = true,
           .rotation = RotationType::whole_in_fp32,
           .masks_by_type = true},
    Habits{.model_type = "gemma", .rms_norm = NormWriting::one_plus_gain, .scale_is_tensor = true},
    Habits{.model_type = "gemma2",
           .rms_norm = NormWriting::one_plus_gain,
           .scale_is_tensor = true,
           .masks_by_type = true},
    Habits{.model_type = "gemma3_text",
           .rms_norm = NormWriting::one_plus_gain,
           .scale_is_tensor = true,
           .masks_by_type = true},
};

}  // namespace

const Habits* habits_of(std::string_view model_type) {
  const auto* found = std::find_if(kHabits.begin(), kHabits.end(), [&](const Habits& habits) {
    return habits.model_type == model_type;
  });
  return found == kHabits.end() ? nullptr : found;
}

}  // namespace memest
