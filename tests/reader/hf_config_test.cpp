// What a wrong config.json is told: every mistake at its place, all in one run.
#include "memest/reader/hf_config.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "memest/diag/environment.hpp"
#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

Checked<ModelSpec> read(const std::string& text, ConfigPart part = ConfigPart::whole) {
  const Checked<Value> tree =
      parse_json(std::make_shared<const SourceText>(SourceText{"config.json", text}));
  REQUIRE(tree.ok());
  return read_hf_config(tree.value(), "model", part);
}

/// `line:column message` of every diagnostic.
std::vector<std::string> faults(const std::string& text) {
  std::vector<std::string> lines;
  const Checked<ModelSpec> result = read(text);
  for (const Diagnostic& diagnostic : result.diagnostics()) {
    lines.push_back(std::to_string(diagnostic.span.line) + ":" +
                    std::to_string(diagnostic.span.column) + " " + diagnostic.message);
  }
  return lines;
}

using Faults = std::vector<std::string>;

}  // namespace

TEST_CASE("every wrong value of a config is told, each at its place") {
  CHECK(faults("{\"model_type\": \"llama\",\n"
               " \"hidden_size\": -64,\n"
               " \"num_hidden_layers\": 0,\n"
               " \"vocab_size\": \"32000\",\n"
               " \"intermediate_size\": 1.5,\n"
               " \"attention_bias\": 1,\n"
               " \"num_attention_heads\": [4],\n"
               " \"hidden_act\": \"sliu\"}") ==
        Faults{"2:17 'hidden_size' must be positive, not -64",
               "4:16 'vocab_size' must be a whole number, not \"32000\"",
               "7:25 'num_attention_heads' must be a whole number, not a list",
               "6:20 'attention_bias' must be true or false, not 1",
               "3:23 'num_hidden_layers' must be positive, not 0", "8:16 unknown activation 'sliu'",
               "5:23 'intermediate_size' must be a whole number, not 1.5"});
}

/// Why a training of the config has no graph, or nothing.
std::string refusal_of(const std::string& config) {
  const Checked<ModelSpec> model = read(config);
  REQUIRE(model.ok());
  LoweringPolicy policy;
  policy.seq_len = 128;
  const auto graph = lower(model.value(), policy);
  const auto* why = std::get_if<Unavailable>(&graph);
  return why == nullptr ? "" : why->sentence;
}

TEST_CASE("a key that changes the program is refused where it is on, and parameters are counted") {
  struct Case {
    std::string key;
    std::string on;
    std::string off;
  };
  const auto of = [](const std::string& type, const std::string& rest) {
    return R"({"model_type": ")" + type + "\", " + rest + "}";
  };
  const std::vector<Case> cases = {
      {"reorder_and_upcast_attn", of("gpt2", R"("reorder_and_upcast_attn": true)"),
       of("gpt2", R"("reorder_and_upcast_attn": false)")},
      {"apply_residual_connection_post_layernorm",
       of("bloom", R"("apply_residual_connection_post_layernorm": true)"),
       of("bloom", R"("apply_residual_connection_post_layernorm": false)")},
      {"slow_but_exact", of("bloom", R"("slow_but_exact": true)"), of("bloom", R"("n_head": 8)")},
      {"clip_qkv", of("mpt", R"("attn_config": {"clip_qkv": 8})"),
       of("mpt", R"("attn_config": {"clip_qkv": null})")},
      {"clip_qkv", of("olmo", R"("clip_qkv": 8.0)"), of("olmo", R"("clip_qkv": null)")},
      {"layerdrop", of("opt", R"("layerdrop": 0.1)"), of("opt", R"("layerdrop": 0.0)")},
      {"final_logit_softcapping", of("gemma3_text", R"("final_logit_softcapping": 30.0)"),
       of("gemma3_text", R"("final_logit_softcapping": null)")},
  };
  for (const Case& one : cases) {
    INFO(one.on);
    CHECK(refusal_of(one.on) == "memory and time of a model with '" + one.key +
                                    "' are not available yet; parameter counts are");
    CHECK(refusal_of(one.off).empty());
    CHECK(count_parameters(read(one.on).value()).total > 0);
  }
}

TEST_CASE("numbers beyond every model are refused before they overflow") {
  CHECK(faults(R"({"model_type": "llama", "hidden_size": 4000000000})") ==
        Faults{"1:40 'hidden_size' is beyond every model: 4000000000"});
  CHECK(faults(R"({"model_type": "llama", "num_hidden_layers": 20000})").size() == 1);
  CHECK(faults(R"({"model_type": "dinov2", "mlp_ratio": 1e300})").size() == 1);
  CHECK(faults(R"({"model_type": "mamba", "expand": -2})").size() == 1);
  CHECK(faults(R"({"model_type": "vit", "id2label": 3})").size() == 1);
}

TEST_CASE("values that contradict each other are told") {
  CHECK(faults(R"({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 8})") ==
        Faults{"1:68 8 heads do not divide the hidden size 100"});
  CHECK(faults(R"({"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 3})") ==
        Faults{"1:74 3 key-value heads do not divide 8 heads"});
  CHECK(faults(R"({"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 16})")
            .size() == 1);
  CHECK(faults(R"({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5})") ==
        Faults{"1:74 a token cannot use 5 of 4 experts"});
  CHECK(
      faults(
          R"({"model_type": "gemma2", "num_hidden_layers": 3, "layer_types": ["full_attention"]})") ==
      Faults{"1:65 'layer_types' names 1 layers of 3"});
  CHECK(
      faults(R"({"model_type": "qwen2", "num_attention_heads": 14, "hidden_size": 896})").size() ==
      1);  // the class's default of 32 key-value heads does not divide 14
  CHECK(faults(R"({"model_type": "resnet", "depths": [1, 2], "hidden_sizes": [64]})").size() == 1);
}

TEST_CASE("an unknown model type names its nearest") {
  const Checked<ModelSpec> result = read(R"({"model_type": "lama"})");
  REQUIRE_FALSE(result.ok());
  const Diagnostic& fault = result.diagnostics().front();
  CHECK(fault.message == "unknown model_type 'lama'");
  CHECK(fault.hint.starts_with("did you mean 'llama'? known are albert, bart, bert, "));
  CHECK(fault.span.column == 16);
}

TEST_CASE("a class whose head is not known is refused, never counted without it") {
  CHECK(faults(R"({"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"]})") ==
        Faults{"1:41 unknown head of a decoder: 'GPT2DoubleHeadsModel'"});
  CHECK(faults(R"({"model_type": "bert", "architectures": ["BertForFun"]})") ==
        Faults{"1:41 unknown class 'BertForFun'"});
  CHECK(faults(R"({"model_type": "gpt2", "add_cross_attention": true})").size() == 1);
}

TEST_CASE("what is no config at all is told") {
  CHECK(faults("[]") == Faults{"1:1 a Hugging Face config is a mapping"});
  CHECK(faults("{}") == Faults{"1:1 the config has no 'model_type'"});
  CHECK_THROWS_AS(read_hf_config_file("/no/such/config.json"), EnvironmentError);
}

TEST_CASE("keys that decide nothing are passed over") {
  CHECK(faults(R"({"model_type": "llama", "eos_token_id": [1, 2], "torch_dtype": "bfloat16",
                   "quantization_config": {"bits": 4}, "auto_map": {"a": "b"}})")
            .empty());
}

TEST_CASE("a checkpoint of codes is read with its codes") {
  const auto quantized = [](const std::string& written) {
    const Checked<ModelSpec> model =
        read(R"({"model_type": "llama", "quantization_config": )" + written + "}");
    REQUIRE(model.ok());
    CHECK(model.diagnostics().empty());
    REQUIRE(model.value().quantized);
    return *model.value().quantized;
  };
  QuantizedWeights expected;
  expected.format = WeightFormat::nf4;
  expected.double_quant = true;
  CHECK(quantized(R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
                      "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
                      "llm_int8_skip_modules": null})") == expected);
  expected.storage = DType::bf16;
  CHECK(quantized(R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                      "bnb_4bit_use_double_quant": true,
                      "bnb_4bit_quant_storage": "bfloat16"})") == expected);
  // Before transformers wrote the method's name, and with BitsAndBytesConfig's usual values.
  expected = {};
  expected.format = WeightFormat::fp4;
  expected.double_quant = false;
  expected.skip_modules = {"lm_head", "o_proj"};
  CHECK(quantized(R"({"load_in_4bit": true, "llm_int8_skip_modules": ["lm_head", "o_proj"]})") ==
        expected);
  expected = {};
  expected.format = WeightFormat::int8;
  expected.double_quant = false;
  CHECK(quantized(R"({"load_in_8bit": true})") == expected);
  expected.threshold = 0;
  expected.skip_modules = {"lm_head", "o_proj"};
  CHECK(quantized(R"({"quant_method": "bitsandbytes", "load_in_8bit": true, "load_in_4bit": false,
                      "llm_int8_threshold": 0.0, "bnb_4bit_use_double_quant": false,
                      "llm_int8_skip_modules": ["lm_head", "o_proj"]})") == expected);
  expected = {};
  expected.format = WeightFormat::hqq2;
  expected.double_quant = false;
  expected.group_size = 16;
  CHECK(quantized(R"({"quant_method": "hqq", "skip_modules": ["lm_head"], "quant_config":
                      {"weight_quant_params": {"nbits": 2, "group_size": 16, "axis": 1}}})") ==
        expected);
}

TEST_CASE("weights quantised by a method that is not followed count whole, with a warning") {
  for (const char* config :
       {R"({"quant_method": "gptq", "bits": 4})", R"({"quant_method": "fp8"})",
        R"({"load_in_8bit": true, "llm_int8_has_fp16_weight": true})",
        R"({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"axis": 0}}})"}) {
    INFO(config);
    const Checked<ModelSpec> model =
        read(std::string(R"({"model_type": "llama", "quantization_config": )") + config + "}");
    REQUIRE(model.ok());
    CHECK_FALSE(model.value().quantized);
    REQUIRE(model.diagnostics().size() == 1);
    CHECK(model.diagnostics().front().severity == Severity::warning);
    CHECK_THAT(model.diagnostics().front().message, ContainsSubstring("they count whole"));
  }
}

TEST_CASE("a multimodal config is refused, never answered for its text model alone") {
  for (
      const char* config :
      {R"({"model_type": "qwen3_vl", "text_config": {"hidden_size": 96, "head_dim": 16}})",
       R"({"model_type": "internvl", "text_config": {"model_type": "qwen2"}, "vision_config": {}})",
       R"({"model_type": "qwen2", "vision_config": {"depth": 32}})",
       R"({"model_type": "llama", "mm_vision_tower": "openai/clip-vit-large-patch14-336"})"}) {
    INFO(config);
    const Checked<ModelSpec> model = read(config);
    REQUIRE_FALSE(model.ok());
    REQUIRE(model.diagnostics().size() == 1);
    CHECK(model.diagnostics().front().unavailable);
    CHECK_THAT(model.diagnostics().front().message, ContainsSubstring("the multimodal '"));
  }
  CHECK(read(R"({"model_type": "llama", "vision_config": null})").ok());
  // A tower that the config leaves out has the defaults of transformers.
  const auto model = read(R"({"model_type": "qwen2_5_vl", "text_config": {"head_dim": 16}})");
  REQUIRE(model.ok());
  CHECK(model.value().vision.has_value());
}

TEST_CASE("the text model of a multimodal config is the one of its own config") {
  const auto same = [](const char* multimodal, const char* alone) {
    const Checked<ModelSpec> part = read(multimodal, ConfigPart::text);
    REQUIRE(part.ok());
    CHECK(part.diagnostics().empty());
    const Checked<ModelSpec> whole = read(alone);
    REQUIRE(whole.ok());
    CHECK(part.value().model_type == whole.value().model_type);
    CHECK(std::get<DecoderSpec>(part.value().architecture) ==
          std::get<DecoderSpec>(whole.value().architecture));
  };
  same(R"({"model_type": "gemma3", "text_config": {"hidden_size": 96, "head_dim": 16}})",
       R"({"model_type": "gemma3_text", "hidden_size": 96, "head_dim": 16})");
  same(R"({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064},
           "vision_config": {"hidden_size": 1024}})",
       R"({"model_type": "llama", "vocab_size": 32064})");
  same(R"({"model_type": "qwen2", "hidden_size": 512, "vision_config": {"depth": 32}})",
       R"({"model_type": "qwen2", "hidden_size": 512})");
}

TEST_CASE("asking for the text model of a model without towers is told") {
  const Checked<ModelSpec> model = read(R"({"model_type": "gpt2"})", ConfigPart::text);
  REQUIRE(model.ok());
  REQUIRE(model.diagnostics().size() == 1);
  CHECK(model.diagnostics().front().severity == Severity::warning);
  CHECK(count_parameters(model.value()).total == 124'439'808);
}

TEST_CASE("a file is read by its path or its folder") {
  const std::string folder = std::string(MEMEST_TRUTH) + "/configs/gpt2";
  for (const std::string& path : {folder, folder + "/config.json"}) {
    const Checked<ModelSpec> model = read_hf_config_file(path);
    REQUIRE(model.ok());
    CHECK(model.value().name == "gpt2");
    CHECK(count_parameters(model.value()).total == 124'439'808);
  }
}

}  // namespace memest
