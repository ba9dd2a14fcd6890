// Sizes of Megatron's GPT models, with the defaults of its argument list.
#include <algorithm>
#include <string>

#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

/// `size` up to the next multiple; as it is where either is out of a spec's bounds.
std::int64_t rounded_up(std::int64_t size, std::int64_t multiple) {
  if (multiple < 1 || size < 1 || size > kMaxCount || multiple > kMaxCount) return size;
  return (size + multiple - 1) / multiple * multiple;
}

/// Vocabularies of tokenizers whose files are always the same: gpt2-vocab.json, Llama 2's model.
struct TokenizerSize {
  std::string_view type;
  std::int64_t size;
};
constexpr TokenizerSize kTokenizers[] = {{"GPT2BPETokenizer", 50'257}, {"Llama2Tokenizer", 32'000}};

/// Its name, where YAML names it: `{_target_: torch.nn.functional.silu}` or a word.
std::string activation_function(const MegatronFile& megatron) {
  if (!megatron.is_yaml() || !megatron.has("activation_func")) return {};
  const Value* written = megatron.file.find(megatron.key("activation_func"));
  const Value* target = written->find("_target_");
  return target == nullptr ? written->text : target->text;
}

/// How many of the first layers are dense, of `([0]*3+[1]*58)`: nothing where dense and mixed
/// layers follow in another order.
std::optional<std::int64_t> dense_layers_of(std::string_view pattern) {
  std::int64_t dense = 0;
  bool mixed = false;
  while (true) {
    const std::size_t open = pattern.find('[');
    const std::size_t close = pattern.find(']', open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    const std::string_view kind = pattern.substr(open + 1, close - open - 1);
    if (kind != "0" && kind != "1") return std::nullopt;
    pattern.remove_prefix(close + 1);
    std::int64_t times = 1;
    if (pattern.starts_with("*")) {
      const std::size_t end = std::min(pattern.find_first_of("+) ", 1), pattern.size());
      times = integer_of(pattern.substr(1, end - 1)).value_or(0);
    }
    if (times < 1 || times > kMaxLayers || (kind == "0" && mixed)) return std::nullopt;
    mixed = mixed || kind == "1";
    dense += kind == "0" ? times : 0;
  }
  return mixed ? std::optional(dense) : std::nullopt;
}

void write_dense_layers(const MegatronFile& megatron) {
  if (!megatron.has("moe_layer_freq")) return;
  const std::string_view key = megatron.key("moe_layer_freq");
  const Value* written = megatron.file.find(key);
  std::string pattern = written->text;
  for (const Value& item : written->items) pattern += "[" + item.text + "]";
  if (pattern == "1") return megatron.file.drop(key, "every layer has experts");
  const auto dense = dense_layers_of(pattern);
  if (!dense) {
    return megatron.file.refuse(key, "a dense layer between those with experts",
                                "dense layers may come first alone: ([0]*3+[1]*58)");
  }
  megatron.file.write("model.moe.dense_layers", std::to_string(*dense), {key});
}

void write_shared_experts(const MegatronFile& megatron, std::int64_t expert) {
  const auto shared = megatron.count("moe_shared_expert_intermediate_size");
  if (!shared || *shared < 1) return;
  const std::string_view key = megatron.key("moe_shared_expert_intermediate_size");
  if (expert < 1 || *shared % expert != 0) {
    return megatron.file.refuse(key, "a shared expert that is no multiple of an expert's size");
  }
  megatron.file.write("model.moe.shared_experts", std::to_string(*shared / expert), {key});
  if (megatron.flag("moe_shared_expert_gate", false)) {
    megatron.file.write("model.moe.shared_gate", "true", {megatron.key("moe_shared_expert_gate")});
  }
}

}  // namespace

void write_sizes(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (megatron.is_yaml() && !megatron.has("hidden_size")) {
    file.note("the model's sizes stand in the recipe that this file overrides",
              "name the model beside it: memest estimate llama-3-8b FILE");
  }
  const std::int64_t hidden = megatron.count("hidden_size", 0);
  const bool grouped = megatron.is_yaml() || megatron.flag("group_query_attention", false);
  if (grouped && megatron.has("num_query_groups")) {
    const std::string_view key = megatron.key("num_query_groups");
    file.write("model.kv_heads", file.text(key), {key});
  } else if (grouped && !megatron.is_yaml()) {
    file.write("model.kv_heads", "1", {megatron.key("group_query_attention")});
  }
  const bool gated = megatron.flag("swiglu", false);
  if (megatron.has("ffn_hidden_size")) {
    const std::string_view key = megatron.key("ffn_hidden_size");
    file.write("model.ffn_size", file.text(key), {key});
  } else if (gated && !megatron.is_yaml() && hidden > 0 && hidden < kMaxCount) {
    // arguments.py: int((4 * hidden_size * 2 / 3) / 64) * 64; 4096: 10922 / 64 = 170, 10880.
    file.write("model.ffn_size", std::to_string(8 * hidden / 3 / 64 * 64),
               {megatron.key("swiglu")});
  }
  const std::string function = activation_function(megatron);
  if (gated) {
    const bool gelu = function.find("gelu") != std::string::npos;
    file.write("model.activation", gelu ? "geglu" : "swiglu", {megatron.key("swiglu")});
  } else if (function.find("relu2") != std::string::npos ||
             function.find("squared_relu") != std::string::npos) {
    file.write("model.activation", "relu2", {megatron.key("activation_func")});
  } else if (!megatron.is_yaml() && megatron.flag("squared_relu", false)) {
    file.write("model.activation", "relu2", {megatron.key("squared_relu")});
  } else {
    file.write("model.activation", "gelu", {megatron.key("swiglu")});
  }
  const bool tied = megatron.flag("share_embeddings_and_output_weights", true);
  file.write("model.tied_embeddings", tied ? "true" : "false",
             {megatron.key("share_embeddings_and_output_weights")});
  const bool bias = megatron.flag("add_bias_linear", true);
  file.write("model.bias", bias ? "true" : "false", {megatron.key("add_bias_linear")});
}

void write_vocabulary(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (megatron.is_yaml() && !megatron.has("hidden_size")) return;
  for (const std::string_view padded : {"padded_vocab_size", "pad_vocab_size_to"}) {
    if (megatron.is_yaml() || !megatron.has(padded)) continue;
    const std::string_view key = megatron.key(padded);
    return file.write("model.vocab_size", file.text(key), {key});
  }
  const std::string type = megatron.text("tokenizer_type");
  const auto* const known = std::ranges::find(kTokenizers, type, &TokenizerSize::type);
  const bool by_tokenizer = !megatron.has("vocab_size") && megatron.has("tokenizer_vocab_size");
  std::string_view from = megatron.key(by_tokenizer ? "tokenizer_vocab_size" : "vocab_size");
  std::optional<std::int64_t> size = from.empty() ? std::nullopt : file.count(from);
  // NullTokenizer has a token more: the end of a document.
  if (size && *size < kMaxCount && type == "NullTokenizer" && !megatron.is_yaml()) ++*size;
  const bool default_type = type.empty() && file.find("--merge-file") != nullptr;
  if (!size && (known != std::end(kTokenizers) || default_type)) {
    size = known == std::end(kTokenizers) ? kTokenizers[0].size : known->size;
    from = default_type ? std::string_view("--merge-file") : megatron.key("tokenizer_type");
  }
  if (!size) {
    const std::string_view said = file.written({"--tokenizer-model", "tokenizer.tokenizer_model",
                                                "--tokenizer-type", "tokenizer.tokenizer_type"});
    return file.pass_over(said,
                          "the size of its vocabulary stands in no file: --set model.vocab_size=N");
  }
  const bool pads = !megatron.is_yaml() || megatron.flag("should_pad_vocab", false);
  // tokenizer.py: _vocab_size_with_padding: to a multiple of the divisor and the tensor ranks.
  const auto bounded = [&megatron](std::string_view name, std::int64_t fallback) {
    return std::clamp<std::int64_t>(megatron.count(name, fallback), 1, kMaxCount);
  };
  const std::int64_t multiple =
      bounded("make_vocab_size_divisible_by", 128) * bounded("tensor_model_parallel_size", 1);
  const std::int64_t padded = pads ? rounded_up(*size, multiple) : *size;
  file.write("model.vocab_size", std::to_string(padded),
             {from, megatron.key("make_vocab_size_divisible_by"), megatron.key("tokenizer_type")});
}

void write_experts(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (!megatron.has("num_moe_experts")) return;
  const std::string_view key = megatron.key("num_moe_experts");
  file.write("model.moe.experts", file.text(key), {key});
  file.write("model.moe.top_k", megatron.text("moe_router_topk", "2"),
             {megatron.key("moe_router_topk"), key});
  std::int64_t expert = megatron.count("moe_ffn_hidden_size", 0);
  if (expert > 0) {
    const std::string_view size = megatron.key("moe_ffn_hidden_size");
    file.write("model.moe.expert_ffn_size", file.text(size), {size});
  } else {
    expert = megatron.count("ffn_hidden_size", 0);
  }
  write_shared_experts(megatron, expert);
  write_dense_layers(megatron);
  const bool sigmoid = megatron.text("moe_router_score_function", "softmax") == "sigmoid";
  const bool biased = megatron.flag("moe_router_enable_expert_bias", false);
  const std::string_view score = megatron.key("moe_router_score_function");
  if (sigmoid && biased) {
    file.write("model.moe.score_bias", "true",
               {score, megatron.key("moe_router_enable_expert_bias")});
  } else if (sigmoid) {
    file.refuse(score, "a router of sigmoid scores without a bias of each expert");
  } else if (biased) {
    file.pass_over(megatron.key("moe_router_enable_expert_bias"),
                   "a bias belongs to sigmoid scores");
  }
  if (!megatron.has("moe_expert_capacity_factor")) return;
  const std::string_view capacity = megatron.key("moe_expert_capacity_factor");
  if (!megatron.flag("moe_pad_expert_input_to_capacity", false)) {
    return file.pass_over(capacity, "experts that are not padded take what the routing sends");
  }
  file.write("model.moe.capacity_factor", file.text(capacity),
             {capacity, megatron.key("moe_pad_expert_input_to_capacity")});
}

void write_layer_kinds(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (megatron.count("mtp_num_layers", 0) > 0) {
    const std::string_view predictions = megatron.key("mtp_num_layers");
    file.write("model.mtp_num_layers", file.text(predictions), {predictions});
  }
  // Both masks are kept where either probability is above zero; a spec has one probability.
  const std::string hidden = megatron.text("hidden_dropout", "0.1");
  const std::string attention = megatron.text("attention_dropout", "0.1");
  const bool one = (number_of(hidden).value_or(0) > 0) == (number_of(attention).value_or(0) > 0);
  const std::string_view key = megatron.key("hidden_dropout");
  if (!one) {
    file.refuse(key, "dropout of the hidden states without that of attention, or the other way");
  } else {
    file.write("model.dropout", hidden, {key, megatron.key("attention_dropout")});
  }
  const bool norms = megatron.flag("qk_layernorm", false);
  if (!megatron.flag("multi_latent_attention", false)) {
    if (norms) file.write("model.qk_norm", "true", {megatron.key("qk_layernorm")});
    if (!megatron.has("kv_channels")) return;
    const std::string_view channels = megatron.key("kv_channels");
    return file.write("model.head_dim", file.text(channels), {channels});
  }
  if (norms) file.drop(megatron.key("qk_layernorm"), "the norms of latent attention");
  const std::string_view latent = megatron.key("multi_latent_attention");
  const auto size = [&](std::string_view own, std::string_view name, std::string_view fallback) {
    const std::string text = megatron.text(name, fallback);
    file.write("model.mla." + std::string(own), text, {megatron.key(name), latent});
  };
  // arguments.py: --q-lora-rank None projects directly, --kv-lora-rank is 32; MLATransformerConfig
  // has 512 for both.
  size("q_lora_rank", "q_lora_rank", megatron.is_yaml() ? "512" : "0");
  size("kv_lora_rank", "kv_lora_rank", megatron.is_yaml() ? "512" : "32");
  size("qk_nope_head_dim", "qk_head_dim", "128");
  size("qk_rope_head_dim", "qk_pos_emb_head_dim", "64");
  size("v_head_dim", "v_head_dim", "128");
}

}  // namespace memest::megatron
