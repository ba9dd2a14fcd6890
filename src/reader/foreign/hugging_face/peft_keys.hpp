// The keys of peft's adapter_config.json, of 0.21.
#pragma once

#include <string_view>

#include "reader/foreign/dialect.hpp"

namespace memest::hugging_face {

inline constexpr std::string_view kPeftDecidingKeys[] = {"peft.peft_type",
                                                         "peft.r",
                                                         "peft.target_modules",
                                                         "peft.lora_dropout",
                                                         "peft.vera_dropout",
                                                         "peft.use_dora",
                                                         "peft.feedforward_modules",
                                                         "peft.modules_to_save",
                                                         "peft.num_virtual_tokens",
                                                         "peft.encoder_hidden_size",
                                                         "peft.encoder_reparameterization_type"};
inline constexpr auto kPeftDeciding = all_derived(kPeftDecidingKeys);
inline constexpr KeyRow kPeftRows[] = {
    refused_key("peft.bias", "none", "trained biases beside an adapter"),
    refused_key("peft.lora_bias", "false", "biases of an adapter"),
    refused_key("peft.layers_to_transform", "", "an adapter of some layers"),
    refused_key("peft.layer_replication", "", "layers that an adapter repeats"),
    refused_key("peft.target_parameters", "", "an adapter of a parameter that is no module's"),
    refused_key("peft.trainable_token_indices", "", "single tokens that are trained"),
    refused_key("peft.exclude_modules", "", "modules that are left out by name"),
    refused_key("peft.use_qalora", "false", "QALoRA"),
    refused_key("peft.arrow_config", "", "Arrow"),
    refused_key("peft.velora_config", "", "VeLoRA"),
    refused_key("peft.kasa_config", "", "KaSA"),
    refused_key("peft.monteclora_config", "", "MonteCLoRA"),
    refused_key("peft.use_bdlora", "", "BD-LoRA"),
    refused_key("peft.alora_invocation_tokens", "", "aLoRA"),
    refused_key("peft.num_transformer_submodules", "1",
                "prompts of an encoder and a decoder, two of them"),
    not_followed("peft.rank_pattern.*", "", "every target has the rank 'r'"),
    not_followed("peft.prompt_tuning_init", "RANDOM",
                 "what is looked up once before training is not counted"),
};
inline constexpr std::string_view kPeftRunKeys[] = {
    "peft.task_type",           "peft.base_model_name_or_path",
    "peft.inference_mode",      "peft.revision",
    "peft.auto_mapping",        "peft.peft_version",
    "peft.lora_alpha",          "peft.alpha_pattern.*",
    "peft.use_rslora",          "peft.init_lora_weights",
    "peft.init_ia3_weights",    "peft.init_weights",
    "peft.fan_in_fan_out",      "peft.layers_pattern",
    "peft.loftq_config.*",      "peft.eva_config.*",
    "peft.corda_config.*",      "peft.lora_ga_config.*",
    "peft.megatron_config.*",   "peft.megatron_core",
    "peft.qalora_group_size",   "peft.d_initial",
    "peft.projection_prng_key", "peft.save_projection",
    "peft.num_layers",          "peft.num_attention_heads",
    "peft.token_dim",           "peft.prompt_tuning_init_text",
    "peft.tokenizer_kwargs.*",  "peft.encoder_dropout",
    "peft.encoder_num_layers",  "peft.tokenizer_name_or_path",
    "peft.ensure_weight_tying"};
inline constexpr auto kPeftRun =
    all_no_effect(kPeftRunKeys, "neither sizes nor kinds of what is trained");

}  // namespace memest::hugging_face
