#include "graph/parameters/parameter_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// karpathy/nanoGPT, model.py, and what is written by hand after it: GPT-2 of torch.nn.Linear.
constexpr DecoderNames gpt2_of_linears(std::string_view model_type, std::string_view layer_order) {
  return {.model_type = model_type,
          .embedding = "wte",
          .position = "wpe",
          .q = "attn.q_proj",
          .k = "attn.k_proj",
          .v = "attn.v_proj",
          .qkv = "attn.c_attn",
          .attention_output = "attn.c_proj",
          .up = "mlp.c_fc",
          .down = "mlp.c_proj",
          .first_norm = "ln_1",
          .second_norm = "ln_2",
          .final_norm = "ln_f",
          .model_order = "wte wpe layers ln_f lm_head",
          .layer_order = layer_order};
}

// transformers 5.17, models/*/modeling_*.py
// The order of modules is that of __init__, which is the order of model.parameters(): DDP fills its
// buckets by it and an optimizer steps by it. Names differ in the state dict, orders in memory.
constexpr std::array kFamilyNames = {
    DecoderNames{.model_type = "gpt2",
                 .embedding = "wte",
                 .position = "wpe",
                 .qkv = "attn.c_attn",
                 .attention_output = "attn.c_proj",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .first_norm = "ln_1",
                 .second_norm = "ln_2",
                 .final_norm = "ln_f",
                 .model_order = "wte wpe layers ln_f lm_head",
                 .layer_order = "ln_1 attn ln_2 mlp",
                 .stored_in_out = true},
    DecoderNames{.model_type = "gpt_bigcode",
                 .embedding = "wte",
                 .position = "wpe",
                 .qkv = "attn.c_attn",
                 .attention_output = "attn.c_proj",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .first_norm = "ln_1",
                 .second_norm = "ln_2",
                 .final_norm = "ln_f",
                 // GPTBigCodeModel.bias: a boolean mask of max_positions², a buffer of the model.
                 .model_order = "wte wpe layers ln_f bias lm_head",
                 .layer_order = "ln_1 attn ln_2 mlp"},
    gpt2_of_linears(kNanogpt, "ln_1 attn ln_2 mlp"),
    gpt2_of_linears(kByHand, "ln_1 ln_2 attn mlp"),
    DecoderNames{
        .model_type = "gpt_neo",
        .embedding = "wte",
        .position = "wpe",
        .q = "attn.attention.q_proj",
        .k = "attn.attention.k_proj",
        .v = "attn.attention.v_proj",
        .attention_output = "attn.attention.out_proj",
        .up = "mlp.c_fc",
        .down = "mlp.c_proj",
        .first_norm = "ln_1",
        .second_norm = "ln_2",
        .final_norm = "ln_f",
        .model_order = "wte wpe layers ln_f lm_head",
        .layer_order =
            "ln_1 attn.attention.k_proj attn.attention.v_proj attn.attention.q_proj attn ln_2 mlp"},
    // torchtitan/models/qwen3/model/model.py makes the norms of queries and keys before wq;
    // llama3's has none.
    DecoderNames{.model_type = kTorchtitan,
                 .embedding = "tok_embeddings",
                 .q = "attention.wq",
                 .k = "attention.wk",
                 .v = "attention.wv",
                 .attention_output = "attention.wo",
                 .q_norm = "attention.q_norm",
                 .k_norm = "attention.k_norm",
                 .gate = "feed_forward.w1",
                 .up = "feed_forward.w3",
                 .down = "feed_forward.w2",
                 .router = "moe.router.gate",
                 .expert_gate = "moe.experts.w1",
                 .expert_up = "moe.experts.w3",
                 .expert_down = "moe.experts.w2",
                 .first_norm = "attention_norm",
                 .second_norm = "ffn_norm",
                 .head = "output",
                 .model_order = "tok_embeddings layers norm output",
                 .layer_order = "attention.q_norm attention.k_norm attention feed_forward.w1 "
                                "feed_forward.w2 feed_forward.w3 moe.experts.w1 moe.experts.w2 "
                                "moe.experts.w3 moe.router.gate attention_norm ffn_norm",
                 .rotary_modules = false},
    // torchtune/modules: MultiHeadAttention, FeedForward, TransformerDecoder.
    DecoderNames{.model_type = kTorchtune,
                 .embedding = "tok_embeddings",
                 .q = "attn.q_proj",
                 .k = "attn.k_proj",
                 .v = "attn.v_proj",
                 .attention_output = "attn.output_proj",
                 .gate = "mlp.w1",
                 .up = "mlp.w3",
                 .down = "mlp.w2",
                 .first_norm = "sa_norm",
                 .second_norm = "mlp_norm",
                 .head = "output",
                 .model_order = "tok_embeddings layers norm output",
                 .layer_order = "attn mlp.w1 mlp.w2 mlp.w3 sa_norm mlp_norm",
                 .rotary_modules = false},
    // litgpt/model.py: GPT, Block, CausalSelfAttention, LLaMAMLP. Its LoRA has queries, keys and
    // values for targets, which are no modules; GptNeoxMLP's fc is called fc_2 here.
    DecoderNames{.model_type = kLitgpt,
                 .embedding = "wte",
                 .q = "attn.query",
                 .k = "attn.key",
                 .v = "attn.value",
                 .qkv = "attn.qkv",
                 .attention_output = "attn.proj",
                 .gate = "mlp.fc_1",
                 .up = "mlp.fc_2",
                 .down = "mlp.proj",
                 .first_norm = "norm_1",
                 .second_norm = "norm_2",
                 .parallel_first_norm = "norm_1",
                 .parallel_second_norm = "norm_2",
                 .final_norm = "ln_f",
                 .model_order = "lm_head wte layers ln_f",
                 .layer_order = "norm_1 attn norm_2 mlp",
                 .rotary_modules = false},
    // GPTJAttention.__init__ makes k_proj, v_proj, q_proj; so do GPTNeoSelfAttention and
    // OPTAttention.
    DecoderNames{.model_type = "gptj",
                 .embedding = "wte",
                 .q = "attn.q_proj",
                 .k = "attn.k_proj",
                 .v = "attn.v_proj",
                 .attention_output = "attn.out_proj",
                 .up = "mlp.fc_in",
                 .down = "mlp.fc_out",
                 .first_norm = "ln_1",
                 .final_norm = "ln_f",
                 .model_order = "wte layers ln_f lm_head",
                 .layer_order = "ln_1 attn.k_proj attn.v_proj attn.q_proj attn mlp"},
    DecoderNames{.model_type = "codegen",
                 .embedding = "wte",
                 .qkv = "attn.qkv_proj",
                 .attention_output = "attn.out_proj",
                 .up = "mlp.fc_in",
                 .down = "mlp.fc_out",
                 .first_norm = "ln_1",
                 .final_norm = "ln_f",
                 .model_order = "wte layers ln_f lm_head",
                 .layer_order = "ln_1 attn mlp"},
    DecoderNames{.model_type = "mpt",
                 .embedding = "wte",
                 .qkv = "attn.Wqkv",
                 .attention_output = "attn.out_proj",
                 .up = "ffn.up_proj",
                 .down = "ffn.down_proj",
                 .first_norm = "norm_1",
                 .second_norm = "norm_2",
                 .final_norm = "norm_f",
                 .model_order = "wte layers norm_f lm_head",
                 .layer_order = "norm_1 attn norm_2 ffn"},
    DecoderNames{.model_type = "gpt_neox",
                 .embedding = "embed_in",
                 .qkv = "attention.query_key_value",
                 .attention_output = "attention.dense",
                 .up = "mlp.dense_h_to_4h",
                 .down = "mlp.dense_4h_to_h",
                 .final_norm = "final_layer_norm",
                 .model_order = "embed_in layers final_layer_norm rotary_emb lm_head",
                 .layer_order = "input_layernorm post_attention_layernorm attention mlp"},
    // OPTDecoder makes its final norm before the layers.
    DecoderNames{
        .model_type = "opt",
        .attention_output = "self_attn.out_proj",
        .up = "fc1",
        .down = "fc2",
        .first_norm = "self_attn_layer_norm",
        .second_norm = "final_layer_norm",
        .final_norm = "final_layer_norm",
        .model_order =
            "embed_tokens embed_positions project_out project_in final_layer_norm layers lm_head",
        .layer_order = "self_attn.k_proj self_attn.v_proj self_attn.q_proj self_attn "
                       "self_attn_layer_norm fc1 fc2 final_layer_norm"},
    // FalconDecoderLayer: ln_attn and ln_mlp with num_ln_in_parallel_attn 2 (40B); else
    // input_layernorm, in sequential layers behind post_attention_layernorm.
    DecoderNames{.model_type = "falcon",
                 .embedding = "word_embeddings",
                 .qkv = "self_attention.query_key_value",
                 .attention_output = "self_attention.dense",
                 .up = "mlp.dense_h_to_4h",
                 .down = "mlp.dense_4h_to_h",
                 .parallel_first_norm = "ln_attn",
                 .parallel_second_norm = "ln_mlp",
                 .final_norm = "ln_f",
                 .model_order = "word_embeddings layers ln_f rotary_emb lm_head",
                 .layer_order =
                     "self_attention mlp ln_attn ln_mlp post_attention_layernorm input_layernorm"},
    DecoderNames{.model_type = "bloom",
                 .embedding = "word_embeddings",
                 .embedding_norm = "word_embeddings_layernorm",
                 .qkv = "self_attention.query_key_value",
                 .attention_output = "self_attention.dense",
                 .up = "mlp.dense_h_to_4h",
                 .down = "mlp.dense_4h_to_h",
                 .final_norm = "ln_f",
                 .model_order = "word_embeddings word_embeddings_layernorm layers ln_f lm_head",
                 .layer_order = "input_layernorm self_attention post_attention_layernorm mlp"},
    DecoderNames{.model_type = "phi",
                 .attention_output = "self_attn.dense",
                 .q_norm = "self_attn.q_layernorm",
                 .k_norm = "self_attn.k_layernorm",
                 .up = "mlp.fc1",
                 .down = "mlp.fc2",
                 .final_norm = "final_layernorm",
                 // PhiModel makes rotary_emb before its final norm.
                 .model_order = "embed_tokens layers rotary_emb final_layernorm lm_head"},
    DecoderNames{.model_type = "stablelm",
                 .q_norm = "self_attn.q_layernorm.norms",
                 .k_norm = "self_attn.k_layernorm.norms",
                 .one_tensor_a_head = true},
    DecoderNames{
        .model_type = "phi3",
        // Phi3Attention makes o_proj before qkv_proj.
        .layer_order = "self_attn.o_proj self_attn mlp input_layernorm post_attention_layernorm"},
    DecoderNames{
        .model_type = "qwen3_moe",
        // Qwen3MoeSparseMoeBlock makes the experts before their router.
        .layer_order = "self_attn mlp.experts mlp input_layernorm post_attention_layernorm"},
    // CLIPAttention, SiglipAttention, Qwen2VLVisionBlock, Qwen2_5_VLVisionBlock
    DecoderNames{.model_type = "clip_vision_model",
                 .attention_output = "self_attn.out_proj",
                 .up = "mlp.fc1",
                 .down = "mlp.fc2"},
    DecoderNames{.model_type = "siglip_vision_model",
                 .attention_output = "self_attn.out_proj",
                 .up = "mlp.fc1",
                 .down = "mlp.fc2"},
    DecoderNames{.model_type = "qwen2_vl_vision",
                 .qkv = "attn.qkv",
                 .attention_output = "attn.proj",
                 .up = "mlp.fc1",
                 .down = "mlp.fc2"},
    DecoderNames{
        .model_type = "qwen2_5_vl_vision", .qkv = "attn.qkv", .attention_output = "attn.proj"},
    DecoderNames{.model_type = "starcoder2", .up = "mlp.c_fc", .down = "mlp.c_proj"},
    // Glm4DecoderLayer's post_attention_layernorm is the norm before the feed-forward; the
    // branches' own are post_self_attn_layernorm and post_mlp_layernorm.
    DecoderNames{.model_type = "glm4",
                 .sandwich_second_norm = "post_attention_layernorm",
                 .attention_output_norm = "post_self_attn_layernorm",
                 .feed_forward_output_norm = "post_mlp_layernorm",
                 .layer_order = "self_attn mlp input_layernorm post_attention_layernorm "
                                "post_self_attn_layernorm post_mlp_layernorm"},
    DecoderNames{.model_type = "gpt_oss", .router = "mlp.router", .experts_in_out = true},
    DecoderNames{.model_type = "phimoe", .router = "mlp.router"},
    DecoderNames{
        .model_type = "granitemoe",
        .router = "block_sparse_moe.router",
        .experts = "block_sparse_moe.experts",
        .layer_order = "self_attn input_layernorm post_attention_layernorm block_sparse_moe"},
    DecoderNames{
        .model_type = "deepseek_v2",
        .shared_experts = "mlp.shared_experts",
        .layer_order = "self_attn mlp.experts mlp input_layernorm post_attention_layernorm"},
    DecoderNames{.model_type = "deepseek_v3",
                 .shared_experts = "mlp.shared_experts",
                 .layer_order =
                     "self_attn mlp.experts mlp.gate mlp input_layernorm post_attention_layernorm"},
};

constexpr DecoderNames kLlama{};

}  // namespace

std::size_t place_in_order(std::string_view name, std::string_view order) {
  for (std::size_t place = 0; !order.empty(); ++place) {
    const std::string_view module = order.substr(0, order.find(' '));
    order.remove_prefix(std::min(module.size() + 1, order.size()));
    const bool begins = name.substr(0, module.size()) == module;
    if (begins && (name.size() == module.size() || name[module.size()] == '.')) return place;
  }
  return kUnlisted;
}

std::string_view stored_type(std::string_view model_type, const Implementation& implementation) {
  const std::string_view of_loop = row_of(implementation.loop).model_type;
  const std::string_view of_framework = row_of(implementation.framework).model_type;
  if (!of_loop.empty()) return of_loop;
  return of_framework.empty() ? model_type : of_framework;
}

const DecoderNames& names_of(std::string_view model_type) {
  const auto* const row =
      std::find_if(kFamilyNames.begin(), kFamilyNames.end(),
                   [&](const DecoderNames& names) { return names.model_type == model_type; });
  return row == kFamilyNames.end() ? kLlama : *row;
}

}  // namespace memest
