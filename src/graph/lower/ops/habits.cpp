#include "graph/lower/ops/habits.hpp"

#include <algorithm>
#include <array>

namespace memest {
namespace {

constexpr std::array kHabits = {
    Habits{.router = RouterWriting::in_fp32},
    // LlamaRMSNorm casts before its gain, apply_rotary_pos_emb rotates whole heads, eager
    // attention's softmax is in fp32: the struct's defaults.
    Habits{.model_type = "llama"},
    Habits{.model_type = "mistral"},
    // CLIPEncoderLayer is called with hidden states alone; CLIPAttention projects all three first.
    Habits{.model_type = "clip_vision_model",
           .passes_positions = false,
           .projections = ProjectionOrder::views_last},
    // SiglipVisionEmbeddings answers patch_embeds.flatten(2).transpose(1, 2), and sums keep that
    // order.
    Habits{
        .model_type = "siglip_vision_model", .passes_positions = false, .stream_transposed = true},
    // Qwen2Model.forward always makes the mask "full_attention", another where has_sliding_layers.
    Habits{.model_type = "qwen2", .masks_by_type = true},
    // Qwen2VLTextModel passes no position_ids to its layers or its mask. The towers' rotation is
    // in fp32, of tables in fp32.
    Habits{.model_type = "qwen2_vl_text",
           .rotates_in_grids = true,
           .passes_positions = false,
           .projections = ProjectionOrder::views_last,
           .masks_by_type = true,
           .finds_packed = false},
    Habits{.model_type = "qwen2_5_vl_text",
           .rotates_in_grids = true,
           .passes_positions = false,
           .projections = ProjectionOrder::views_last,
           .masks_by_type = true,
           .finds_packed = false},
    Habits{.model_type = "qwen2_vl_vision",
           .joined_replaces = true,
           .tables_in_fp32 = true,
           .cosines = "patch cos",
           .sines = "patch sin",
           .rotates_in_grids = true,
           .qkv_split = QkvSplit::unbound,
           .passes_positions = false,
           .rotation = RotationType::whole_in_fp32},
    // query_states = self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
    Habits{
        .model_type = "qwen3", .projections = ProjectionOrder::norm_by_norm, .masks_by_type = true},
    Habits{.model_type = "smollm3", .masks_by_type = true},
    Habits{.model_type = "granite"},
    // PhiAttention: query_rot and query_pass are names of its forward, joined by torch.cat after
    // apply_rotary_pos_emb. PhiDecoderLayer names attn_outputs and feed_forward_hidden_states;
    // PhiModel: inputs_embeds = self.embed_dropout(inputs_embeds).
    Habits{.model_type = "phi",
           .rotates_by_cat = true,
           .locals = LayerLocals::first_norm,
           .renames_embedding = true,
           .names_channels = true},
    // StableLmDecoderLayer: mlp_output = self.dropout(mlp_output), none after attention, and
    // residual + self_attn_output + mlp_output.
    Habits{.model_type = "stablelm",
           .rotates_by_cat = true,
           .locals = LayerLocals::first_norm,
           .drops_attention_output = false,
           .joins_residual_first = true,
           .names_channels = true,
           .projections = ProjectionOrder::views_last},
    // Starcoder2Attention and Starcoder2MLP drop their own output (residual_dropout).
    Habits{.model_type = "starcoder2", .drops_inside = true},
    // query_key_value(x).view(b, s, a, 3·d).transpose(1, 2), then chunk(3, dim=-1). One by one:
    // attn_output = attn_output + hidden_states takes the branch's name.
    Habits{.model_type = "gpt_neox",
           .rotates_by_cat = true,
           .joined_replaces = true,
           .norms_between_branches = true,
           .qkv_split = QkvSplit::transposed,
           .names_qkv = true,
           .locals = LayerLocals::branches,
           .sum_replaces_attention = true},
    // c_attn is split after unsqueeze(1) with multi_query, else seen by heads, transposed and
    // split; GPTBigCodeAttention and GPTBigCodeMLP drop inside.
    Habits{.model_type = "gpt_bigcode",
           .qkv_split = QkvSplit::columns_or_transposed,
           .masks_before_positions = true,
           .hides_positions = true,
           .locals = LayerLocals::sublayers,
           .drops_inside = true},
    // eager_attention_forward calls softmax without a dtype: bf16 scores have bf16 probabilities.
    // Conv1D.forward is torch.addmm(bias, x, weight).
    Habits{.model_type = "gpt2",
           .softmax_in_type = true,
           .bias_call = BiasCall::first_argument,
           .locals = LayerLocals::sublayers,
           .drops_inside = true},
    // alibi.baddbmm(batch1, batch2): ALiBi is broadcast into the product. fused_qkv[..., 0, :]
    // selects; dropout_add lies in attention and MLP, which get the residual.
    Habits{.model_type = "bloom",
           .eager_only = true,
           .scores = ScoreWriting::onto_bias,
           .alibi = AlibiWriting::of_fp32_mask,
           .qkv_split = QkvSplit::selected,
           .names_qkv = true,
           .passes_positions = false,
           .locals = LayerLocals::norms,
           .sums_inside = SumsInside::everywhere},
    // OPTDecoder.forward counts positions along a mask of ones (cumsum(attention_mask) ·
    // attention_mask − 1) and makes causal_mask before embed_positions. OPTAttention: query_states
    // = q_proj(x) · scaling.
    Habits{.model_type = "opt",
           .masks_before_positions = true,
           .positions_from_mask = true,
           .feeds_inline = true,
           .scales_queries = true},
    // create_causal_mask(allow_is_causal_skip=False). FalconAttention: attention_scores /=
    // sqrt(head_dim), softmax(dtype=hidden_states.dtype), and without ALiBi dropout_p=0.0;
    // FalconDecoderLayer: mlp_output += attention_output, then one dropout_add.
    Habits{.model_type = "falcon",
           .softmax_in_type = true,
           .masks_always = true,
           .scores = ScoreWriting::in_place,
           .alibi = AlibiWriting::of_int64_mask,
           .bias_call = BiasCall::own_op,
           .qkv_split = QkvSplit::selected,
           .names_qkv = true,
           .rotates_unused = true,
           .locals = LayerLocals::all,
           .drops_attention_as_scores = true,
           .joins_in_place = true,
           .drops_joined_branches = true,
           .drops_attention = false},
    // MptAttention: mixed_qkv.chunk(3, dim=2), (q · k) · softmax_scale + position_bias, masked_fill
    // by a boolean mask. Only MptMLP is handed the residual.
    Habits{.model_type = "mpt",
           .eager_only = true,
           .scores = ScoreWriting::filled,
           .alibi = AlibiWriting::of_positions,
           .qkv_split = QkvSplit::columns_in_order,
           .passes_positions = false,
           .locals = LayerLocals::norms,
           .sums_inside = SumsInside::feed_forward},
    // Glm's apply_rotary_pos_emb: cos[..., : d // 2].repeat_interleave(2, dim=-1) in each layer,
    // and q_embed = torch.cat([q_embed, q_pass]) under the rotated channels' name.
    Habits{.model_type = "glm",
           .rotates_by_cat = true,
           .joined_replaces = true,
           .tables_by_layer = true},
    Habits{.model_type = "glm4",
           .rotates_by_cat = true,
           .joined_replaces = true,
           .tables_by_layer = true},
    // Ernie4_5RotaryEmbedding "keeping it in full precision"; (q.float() * cos) +
    // (rotate_half(q).float() * sin).
    Habits{.model_type = "ernie4_5",
           .tables_in_fp32 = true,
           .tables_by_layer = true,
           .rotation = RotationType::factors_in_fp32},
    // NemotronLayerNorm1P: F.layer_norm with weight + 1.0.
    Habits{.model_type = "nemotron", .layer_norm = NormWriting::one_plus_fused},
    // Phi3Attention slices qkv[..., :query_pos] and so on; Phi3DecoderLayer: residual +
    // self.resid_attn_dropout(hidden_states). No class reads embd_pdrop.
    Habits{.model_type = "phi3",
           .rotates_by_cat = true,
           .joins_at_once = true,
           .qkv_split = QkvSplit::slices,
           .names_qkv = true,
           .drops_in_sum = true,
           .drops_embedding = false},
    // OlmoLayerNorm works in fp32; OlmoRotaryEmbedding returns cos and sin as they are.
    // OlmoAttention projects q, k and v (and clamps them) before it views any.
    Habits{.model_type = "olmo",
           .layer_norm = NormWriting::fp32,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last},
    // Olmo2RMSNorm: (self.weight * hidden_states).to(input_dtype).
    Habits{.model_type = "olmo2",
           .rms_norm = NormWriting::gain_then_cast,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last},
    Habits{.model_type = "olmo3",
           .rms_norm = NormWriting::gain_then_cast,
           .tables_in_fp32 = true,
           .projections = ProjectionOrder::views_last,
           .masks_by_type = true},
    // apply_rotary_pos_emb: q = q.float(), k = k.float(), back to dtype at the end.
    // CohereDecoderLayer: residual + hidden_states_attention + hidden_states_mlp.
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
    // GemmaRMSNorm; GemmaTextScaledWordEmbedding multiplies by a tensor.
    Habits{.model_type = "gemma", .rms_norm = NormWriting::one_plus_gain, .scale_is_tensor = true},
    Habits{.model_type = "gemma2",
           .rms_norm = NormWriting::one_plus_gain,
           .scale_is_tensor = true,
           .masks_by_type = true},
    Habits{.model_type = "gemma3_text",
           .rms_norm = NormWriting::one_plus_gain,
           .scale_is_tensor = true,
           .masks_by_type = true},
    // softmax(router_logits.float()): the weights stay in fp32.
    Habits{.model_type = "mixtral", .router = RouterWriting::in_fp32},
    // router_top_value.to(router_logits.dtype). Qwen2MoeModel makes both masks whether a layer
    // slides or not.
    Habits{.model_type = "qwen2_moe",
           .masks_by_type = true,
           .makes_all_masks = true,
           .router = RouterWriting::in_type},
    Habits{.model_type = "qwen3_moe",
           .projections = ProjectionOrder::norm_by_norm,
           .router = RouterWriting::in_type},
    Habits{.model_type = "olmoe",
           .projections = ProjectionOrder::views_last,
           .router = RouterWriting::in_type},
    // torch.cat([attn_weights, sinks]), minus its largest, softmax(dtype=combined_logits.dtype).
    // GptOssRotaryEmbedding makes d / 2 cosines; GptOssModel gives its masks no position_ids, and
    // so looks for no packed sequences. GptOssExperts._apply_gate clamps, and takes gate_up[...,
    // ::2].
    Habits{.model_type = "gpt_oss",
           .rms_norm = NormWriting::gain_then_cast,
           .softmax_in_type = true,
           .eager_only = true,
           .scores = ScoreWriting::with_sinks,
           .masks_by_type = true,
           .makes_all_masks = true,
           .router = RouterWriting::of_choice,
           .rotates_halves = true,
           .finds_packed = false,
           .clamps_experts = true},
    // apply_rotary_emb: torch.view_as_complex(xq.float().reshape(..., -1, 2)).
    Habits{.model_type = "deepseek_v2",
           .router = RouterWriting::of_groups,
           .latents = LatentWriting::complex_pairs},
    // DeepseekV3TopkRouter: F.linear of both in fp32, sigmoid, and e_score_correction_bias for the
    // choice alone.
    Habits{.model_type = "deepseek_v3",
           .router = RouterWriting::of_sigmoid,
           .latents = LatentWriting::pairs_in_halves},
};

}  // namespace

Habits written_out(const Habits& family) {
  return {.rms_norm = NormWriting::fused,
          // F.layer_norm in nanoGPT's LayerNorm, nn.RMSNorm in torchtitan's TransformerBlock.
          .layer_norm = NormWriting::fused,
          .drops_inside = true,
          .projections = family.projections};
}

Habits as_formulas(const Habits& family) {
  return {.rms_norm = NormWriting::textbook,
          .layer_norm = NormWriting::textbook,
          .projections = family.projections};
}

const Habits* habits_of(std::string_view model_type) {
  const auto* found = std::find_if(kHabits.begin(), kHabits.end(), [&](const Habits& habits) {
    return habits.model_type == model_type;
  });
  return found == kHabits.end() ? nullptr : found;
}

}  // namespace memest
