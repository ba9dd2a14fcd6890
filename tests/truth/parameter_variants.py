"""The configs of parameters.jsonl: for each model type its defaults, then what changes parameters or buffers."""

DECODERS = set()
VARIANTS = []


def decoder(model_type, *variants):
    DECODERS.add(model_type)
    add(model_type, *variants)


def add(model_type, *variants):
    VARIANTS.extend({"model_type": model_type, **variant} for variant in variants)


SMALL = {"vocab_size": 1000, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 6}
GROUPED = {**SMALL, "num_key_value_heads": 2}
FULL = {**SMALL, "num_key_value_heads": 6}
LABELS = {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}

decoder(
    "llama",
    {},
    {"num_hidden_layers": 2},
    SMALL,
    {**GROUPED, "tie_word_embeddings": True},
    {**SMALL, "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True},
    {**GROUPED, "head_dim": 24},
    {**GROUPED, "head_dim": None, "num_key_value_heads": None},
    {**SMALL, "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "torch_dtype": "bfloat16", "transformers_version": "4.43.0"},
    {**SMALL, "rope_scaling": {"type": "linear", "factor": 2.0}, "pretraining_tp": 1},
    {**SMALL, "partial_rotary_factor": 0.5},
    {**SMALL, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    {**SMALL, "architectures": ["LlamaModel"]},
    {**SMALL, **LABELS, "architectures": ["LlamaForSequenceClassification"]},
    {**SMALL, "architectures": ["LlamaForSequenceClassification"], "num_labels": 5},
    {**SMALL, **LABELS, "architectures": ["LlamaForTokenClassification"]},
    {**SMALL, **LABELS, "architectures": ["LlamaForQuestionAnswering"]},
    {**SMALL, "architectures": ["LlamaForSequenceClassification"], "tie_word_embeddings": True},
)
decoder(
    "mistral",
    {},
    GROUPED,
    {**GROUPED, "head_dim": 40, "sliding_window": None},
    {**GROUPED, "tie_word_embeddings": True},
    {**GROUPED, **LABELS, "architectures": ["MistralForSequenceClassification"]},
)
decoder(
    "qwen2",
    {},
    {**GROUPED, "use_sliding_window": True, "max_window_layers": 1, "sliding_window": 64},
    {**GROUPED, "tie_word_embeddings": True},
    {**GROUPED, "head_dim": 32},
    {**GROUPED, "num_key_value_heads": None},
    {**GROUPED, "architectures": ["Qwen2Model"]},
)
decoder(
    "qwen3",
    {},
    GROUPED,
    {**GROUPED, "attention_bias": True, "head_dim": 20},
    {**GROUPED, "tie_word_embeddings": True, "use_sliding_window": True, "max_window_layers": 2},
    {**GROUPED, **LABELS, "architectures": ["Qwen3ForSequenceClassification"]},
)
decoder(
    "phi",
    {},
    SMALL,
    {**GROUPED, "qk_layernorm": True},
    {**SMALL, "partial_rotary_factor": 0.4, "tie_word_embeddings": True},
    {**SMALL, "hidden_act": "gelu", "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}},
)
decoder(
    "phi3",
    {},
    {**GROUPED, "pad_token_id": 0},
    {**GROUPED, "pad_token_id": 0, "tie_word_embeddings": True, "sliding_window": 2047},
    {**SMALL, "pad_token_id": 0, "partial_rotary_factor": 0.75},
    {**SMALL, "pad_token_id": 0, "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 8},
     "original_max_position_embeddings": 4096, "max_position_embeddings": 131072},
)
decoder("gemma", {}, GROUPED, {**GROUPED, "head_dim": 32, "attention_bias": True}, {**FULL, "tie_word_embeddings": False})
decoder(
    "gemma2",
    {},
    GROUPED,
    {**GROUPED, "head_dim": 32, "attention_bias": True, "tie_word_embeddings": False},
    {**GROUPED, "attn_logit_softcapping": None, "final_logit_softcapping": None, "sliding_window": 128},
)
decoder(
    "gemma3_text",
    {},
    GROUPED,
    {**GROUPED, "head_dim": 32, "attention_bias": True, "tie_word_embeddings": False},
    {**GROUPED, "sliding_window_pattern": 2, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0, "rope_scaling": None},
    {**GROUPED, "layer_types": ["full_attention"] * 3},
)
decoder("olmo", {}, GROUPED, {**SMALL, "attention_bias": True, "tie_word_embeddings": True})
decoder("olmo2", {}, GROUPED, {**SMALL, "attention_bias": True, "tie_word_embeddings": True})
decoder("olmo3", {}, GROUPED, {**SMALL, "layer_types": ["sliding_attention", "full_attention", "full_attention"]})
decoder(
    "stablelm",
    {},
    {**FULL, "use_qkv_bias": True},
    {**GROUPED, "qk_layernorm": True, "tie_word_embeddings": True},
    {**FULL, "use_parallel_residual": True, "partial_rotary_factor": 0.5},
)
decoder("starcoder2", {}, GROUPED, {**GROUPED, "use_bias": False}, {**GROUPED, "tie_word_embeddings": False, "sliding_window": 4096})
decoder(
    "cohere",
    {},
    GROUPED,
    {**GROUPED, "use_qk_norm": True, "attention_bias": True},
    {**SMALL, "tie_word_embeddings": False},
)
decoder("cohere2", {}, GROUPED, {**GROUPED, "attention_bias": True, "head_dim": 64, "sliding_window_pattern": 3})
decoder("granite", {}, {**GROUPED, "attention_bias": True}, {**SMALL, "mlp_bias": True, "tie_word_embeddings": True})
decoder("smollm3", {"pad_token_id": 0}, {**GROUPED, "pad_token_id": 0, "attention_bias": True},
        {**GROUPED, "pad_token_id": 0, "mlp_bias": True, "no_rope_layers": [1, 0, 1], "tie_word_embeddings": False})
decoder("glm", {}, {**GROUPED, "pad_token_id": 0}, {**GROUPED, "pad_token_id": 0, "attention_bias": False, "head_dim": 16})
decoder("glm4", {}, {**GROUPED, "pad_token_id": 0}, {**GROUPED, "pad_token_id": 0, "attention_bias": False, "partial_rotary_factor": 1.0})
decoder("ernie4_5", {}, GROUPED, {**GROUPED, "use_bias": True, "tie_word_embeddings": False}, {**GROUPED, "head_dim": None})
decoder("nemotron", {"num_key_value_heads": 8}, GROUPED, {**GROUPED, "attention_bias": True, "mlp_bias": True, "head_dim": 24})
decoder(
    "gpt2",
    {},
    {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128, "vocab_size": 500},
    {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 100, "tie_word_embeddings": False, "n_ctx": 1024},
    {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 77},
    {"n_embd": 64, "n_head": 4, "n_layer": 2, **LABELS, "architectures": ["GPT2ForSequenceClassification"]},
    {"n_embd": 64, "n_head": 4, "n_layer": 2, **LABELS, "architectures": ["GPT2ForTokenClassification"]},
    {"n_embd": 64, "n_head": 4, "n_layer": 2, "architectures": ["GPT2Model"]},
    {"n_embd": 64, "n_head": 4, "n_layer": 2, "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu"},
)
decoder("gpt_bigcode", {}, {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128, "multi_query": False},
        {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_inner": 90, "tie_word_embeddings": False})
decoder("gpt_neo", {}, {"hidden_size": 64, "num_heads": 4, "num_layers": 3, "attention_types": [[["global", "local", "global"], 1]],
                        "max_position_embeddings": 100, "intermediate_size": 99})
decoder("gptj", {}, {"n_embd": 64, "n_head": 4, "n_layer": 3, "rotary_dim": 8, "n_positions": 50},
        {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 80, "tie_word_embeddings": True, "rotary_dim": 16})
decoder("codegen", {}, {"n_embd": 64, "n_head": 4, "n_layer": 3, "rotary_dim": 8, "n_positions": 50})
decoder(
    "gpt_neox",
    {},
    SMALL,
    {**SMALL, "use_parallel_residual": False, "rotary_pct": 1.0, "rotary_emb_base": 10000},
    {**SMALL, "attention_bias": False, "tie_word_embeddings": True},
    {**SMALL, **LABELS, "architectures": ["GPTNeoXForSequenceClassification"]},
    {**SMALL, "architectures": ["GPTNeoXModel"]},
)
decoder(
    "opt",
    {},
    {"vocab_size": 1000, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "ffn_dim": 200, "word_embed_proj_dim": 96},
    {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "word_embed_proj_dim": 48, "do_layer_norm_before": False},
    {"hidden_size": 96, "num_attention_heads": 6, "enable_bias": False, "layer_norm_elementwise_affine": False},
    {"hidden_size": 96, "num_attention_heads": 6, "_remove_final_layer_norm": True, "tie_word_embeddings": False},
    {"hidden_size": 96, "num_attention_heads": 6, "word_embed_proj_dim": 48, "architectures": ["OPTForSequenceClassification"]},
    {"hidden_size": 96, "num_attention_heads": 6, "architectures": ["OPTModel"]},
)
decoder("bloom", {}, {"hidden_size": 96, "n_layer": 3, "n_head": 6}, {"n_embed": 128, "num_hidden_layers": 3, "num_attention_heads": 4},
        {"hidden_size": 96, "n_head": 6, "tie_word_embeddings": False}, {"hidden_size": 96, "n_head": 6, "architectures": ["BloomForSequenceClassification"]})
decoder("mpt", {}, {"d_model": 64, "n_heads": 4, "n_layers": 3, "vocab_size": 900, "expansion_ratio": 2},
        {"d_model": 64, "n_heads": 4, "n_layers": 2, "tie_word_embeddings": False, "attn_config": {"alibi": True, "attn_pdrop": 0}})
FALCON = {"vocab_size": 1000, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6}
decoder(
    "falcon",
    {},
    FALCON,
    {**FALCON, "multi_query": False, "bias": True, "alibi": True, "parallel_attn": False},
    {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": False},
    {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 3, "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 300},
    {**FALCON, "tie_word_embeddings": False, "num_ln_in_parallel_attn": 2},
    {**FALCON, **LABELS, "architectures": ["FalconForTokenClassification"]},
)
decoder("mixtral", {}, {**GROUPED, "num_local_experts": 4}, {**GROUPED, "num_experts_per_tok": 1, "head_dim": 32, "tie_word_embeddings": True})
decoder(
    "qwen2_moe",
    {},
    {**GROUPED, "num_experts": 5, "moe_intermediate_size": 30, "shared_expert_intermediate_size": 70},
    {**GROUPED, "num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    {**GROUPED, "qkv_bias": False, "mlp_only_layers": [0, 2], "use_sliding_window": True},
)
decoder(
    "qwen3_moe",
    {},
    {**GROUPED, "num_experts": 16, "head_dim": 32, "moe_intermediate_size": 30},
    {**GROUPED, "num_hidden_layers": 5, "decoder_sparse_step": 3, "attention_bias": True},
    {**GROUPED, "num_local_experts": 9, "mlp_only_layers": [2], "tie_word_embeddings": True},
)
DEEP = {"vocab_size": 1000, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
decoder(
    "deepseek_v2",
    {"num_experts_per_tok": 6},
    {**DEEP, "n_routed_experts": 8, "q_lora_rank": None, "first_k_dense_replace": 1},
    {**DEEP, "q_lora_rank": 32, "kv_lora_rank": 24, "attention_bias": True, "n_shared_experts": 1},
    {**DEEP, "qk_nope_head_dim": 20, "qk_rope_head_dim": 12, "v_head_dim": 28, "mlp_bias": True, "first_k_dense_replace": 2},
)
decoder(
    "deepseek_v3",
    {},
    {**DEEP, "n_routed_experts": 16, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1},
    {**DEEP, "q_lora_rank": None, "attention_bias": True, "tie_word_embeddings": True},
    {**DEEP, "n_shared_experts": 3, "qk_rope_head_dim": 16, "num_nextn_predict_layers": 1,
     "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
                      "original_max_position_embeddings": 4096}},
)
decoder("gpt_oss", {}, {**GROUPED, "num_local_experts": 4}, {**GROUPED, "attention_bias": False, "head_dim": 16, "tie_word_embeddings": True,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"]})
decoder("phimoe", {}, {**GROUPED, "attention_bias": True, "lm_head_bias": True}, {**GROUPED, "num_local_experts": 3, "tie_word_embeddings": True})
decoder("olmoe", {}, {**SMALL, "num_experts": 6, "num_experts_per_tok": 2}, {**GROUPED, "attention_bias": True})
decoder("granitemoe", {}, {**GROUPED, "num_local_experts": 5, "attention_bias": True, "tie_word_embeddings": True})

BERT = {"vocab_size": 300, "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 40}


def heads(model_type, prefix, config, names):
    add(model_type, *({**config, **LABELS, "architectures": [prefix + name]} for name in names))


CLASSIFIERS = ["Model", "ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice"]
for model_type, prefix, more in (
    ("bert", "Bert", ["ForPreTraining", "LMHeadModel", "ForNextSentencePrediction", "ForQuestionAnswering"]),
    ("roberta", "Roberta", ["ForCausalLM", "ForQuestionAnswering"]),
    ("xlm-roberta", "XLMRoberta", []),
    ("electra", "Electra", ["ForPreTraining"]),
    ("mpnet", "MPNet", []),
    ("albert", "Albert", ["ForPreTraining", "ForQuestionAnswering"]),
    ("deberta-v2", "DebertaV2", ["ForQuestionAnswering"]),
):
    add(model_type, {}, BERT, {**BERT, "tie_word_embeddings": False})
    heads(model_type, prefix, BERT, CLASSIFIERS + more)
add("bert", {**BERT, "type_vocab_size": 3, "architectures": ["BertForSequenceClassification"]})
add("electra", {**BERT, "embedding_size": 48})
add("albert", {**BERT, "embedding_size": 16, "num_hidden_groups": 2, "inner_group_num": 3})
add(
    "deberta-v2",
    {**BERT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8, "norm_rel_ebd": "layer_norm",
     "position_biased_input": False, "share_att_key": True, "max_relative_positions": -1},
    {**BERT, "relative_attention": True, "pos_att_type": ["c2p"], "conv_kernel_size": 3, "type_vocab_size": 2},
)
DISTIL = {"vocab_size": 300, "dim": 48, "hidden_dim": 100, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 40}
add("distilbert", {}, DISTIL, {**DISTIL, "tie_word_embeddings": False})
heads("distilbert", "DistilBert", DISTIL, CLASSIFIERS)
MODERN = {"vocab_size": 300, "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 5, "num_attention_heads": 4,
          "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
add("modernbert", {}, MODERN, {**MODERN, "tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True, "norm_bias": True},
    {**MODERN, "decoder_bias": False, "classifier_bias": True, "global_attn_every_n_layers": 1})
heads("modernbert", "ModernBert", MODERN, CLASSIFIERS)
T5 = {"vocab_size": 300, "d_model": 48, "d_kv": 10, "d_ff": 100, "num_layers": 3, "num_heads": 5}
add("t5", {}, T5, {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 2, "tie_word_embeddings": False},
    {**T5, "architectures": ["T5Model"]}, {**T5, "architectures": ["T5EncoderModel"]})
add("mt5", {}, T5, {**T5, "feed_forward_proj": "relu"})
BART = {"vocab_size": 300, "d_model": 48, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 6, "encoder_ffn_dim": 100, "decoder_ffn_dim": 90, "max_position_embeddings": 40,
        "pad_token_id": 1, "decoder_start_token_id": 2, "eos_token_id": 2}
add("bart", {}, BART, {**BART, "tie_word_embeddings": False}, {**BART, "architectures": ["BartModel"]},
    {**BART, "architectures": ["BartForSequenceClassification"]}, {**BART, **LABELS, "architectures": ["BartForQuestionAnswering"]})
add("mbart", {}, BART, {**BART, "architectures": ["MBartForSequenceClassification"]})
add("pegasus", {}, BART)
add("marian", {}, BART, {**BART, "architectures": ["MarianModel"]})
add("whisper", {}, {**BART, "num_mel_bins": 20, "max_source_positions": 30, "max_target_positions": 20, "tie_word_embeddings": False},
    {**BART, "architectures": ["WhisperModel"]})
VIT = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 100, "image_size": 32, "patch_size": 8}
for model_type, prefix in (("vit", "ViT"), ("deit", "DeiT")):
    add(model_type, {}, {**VIT, **LABELS}, {**VIT, "qkv_bias": False, "num_channels": 1, "image_size": [32, 64]},
        {**VIT, "architectures": [prefix + "Model"]})
add("dinov2", {}, {**VIT, **LABELS, "mlp_ratio": 3}, {**VIT, "use_swiglu_ffn": True, "use_mask_token": False, "qkv_bias": False},
    {**VIT, "architectures": ["Dinov2Model"]})
add("resnet", {}, {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 1], **LABELS},
    {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"},
    {"embedding_size": 32, "hidden_sizes": [32, 64], "depths": [2, 2], "downsample_in_first_stage": True, "architectures": ["ResNetModel"]})
add("convnext", {}, {"hidden_sizes": [16, 32], "depths": [1, 2], "num_stages": 2, **LABELS, "patch_size": 2}, {"architectures": ["ConvNextModel"]})
TOWER = {"hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4}
add("clip", {}, {"text_config": {**TOWER, "vocab_size": 300, "max_position_embeddings": 20},
                 "vision_config": {**TOWER, "image_size": 32, "patch_size": 8, "hidden_size": 64}, "projection_dim": 40})
add("siglip", {}, {"text_config": {**TOWER, "vocab_size": 300, "max_position_embeddings": 20, "projection_size": 30},
                   "vision_config": {**TOWER, "image_size": 32, "patch_size": 8, "hidden_size": 64}})
add("mamba", {}, {"hidden_size": 40, "num_hidden_layers": 3, "vocab_size": 200, "expand": 3, "state_size": 5, "use_bias": True},
    {"hidden_size": 40, "time_step_rank": 7, "use_conv_bias": False, "tie_word_embeddings": False, "conv_kernel": 3},
    {"hidden_size": 40, "architectures": ["MambaModel"]})
add("swin", {}, {"embed_dim": 24, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4, "image_size": 64, **LABELS},
    {"embed_dim": 24, "depths": [1, 2, 1], "num_heads": [2, 4, 8], "mlp_ratio": 2.5, "qkv_bias": False, "use_absolute_embeddings": True},
    {"architectures": ["SwinModel"]})
