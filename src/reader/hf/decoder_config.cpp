#include "reader/hf/decoder_config.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace memest::hf {
namespace {

struct NamedActivation {
  std::string_view name;
  ActivationFunction function;
};

// transformers 5.17, activations.py, ACT2CLS
constexpr std::array kActivations = {
    NamedActivation{"gelu", ActivationFunction::gelu},
    // GELUActivation(use_gelu_python=True) is x · 0.5 · (1 + erf(x / sqrt(2))) op by op; it is read
    // as the one kernel, whose value it is.
    NamedActivation{"gelu_python", ActivationFunction::gelu},
    NamedActivation{"gelu_pytorch_tanh", ActivationFunction::gelu_tanh},
    // GELUTanh(use_gelu_tanh_python=True) and AccurateGELUActivation write NewGELU's ops in Python,
    // where gelu_pytorch_tanh is the one kernel gelu(approximate="tanh").
    NamedActivation{"gelu_python_tanh", ActivationFunction::gelu_new},
    NamedActivation{"gelu_new", ActivationFunction::gelu_new},
    NamedActivation{"gelu_fast", ActivationFunction::gelu_fast},
    NamedActivation{"gelu_accurate", ActivationFunction::gelu_new},
    NamedActivation{"quick_gelu", ActivationFunction::quick_gelu},
    NamedActivation{"relu", ActivationFunction::relu},
    NamedActivation{"relu2", ActivationFunction::relu2},
    NamedActivation{"silu", ActivationFunction::silu},
    NamedActivation{"swish", ActivationFunction::silu},
    NamedActivation{"sigmoid", ActivationFunction::sigmoid},
    NamedActivation{"tanh", ActivationFunction::tanh},
};

std::string number_text(std::int64_t number) { return std::to_string(number); }

}  // namespace

bool read_switch(ConfigReader& config, const Switch& value) {
  return value.key.empty() ? value.fallback : config.flag({value.key}, value.fallback);
}

std::int64_t whole_head_dim(ConfigReader& config, Keys keys, std::int64_t hidden,
                            std::int64_t heads) {
  if (config.ok() && hidden % heads != 0) {
    config.error(
        keys, number_text(heads) + " heads do not divide the hidden size " + number_text(hidden));
  }
  return std::max<std::int64_t>(hidden / heads, 1);
}

void check_grouping(ConfigReader& config, Keys keys, const SoftmaxAttention& attention) {
  if (!config.ok() || attention.heads % attention.kv_heads == 0) return;
  const bool written = config.find(keys) != nullptr;
  config.error(keys,
               number_text(attention.kv_heads) + " key-value heads do not divide " +
                   number_text(attention.heads) + " heads",
               written ? "" : "write '" + std::string(*keys.begin()) + "', whose default this is");
}

void read_heads(ConfigReader& config, std::int64_t hidden, const HeadKeys& keys,
                SoftmaxAttention& attention) {
  const Keys head_keys = {"num_attention_heads"};
  const Keys kv_keys = {"num_key_value_heads"};
  const HeadDefaults& defaults = keys.defaults;
  attention.heads = config.size(head_keys, defaults.heads);
  // num_key_value_heads: null is num_attention_heads in every config's __post_init__.
  const bool null_kv_heads = config.has(kv_keys) && config.find(kv_keys) == nullptr;
  attention.kv_heads = config.size(
      kv_keys, null_kv_heads || defaults.kv_heads == 0 ? attention.heads : defaults.kv_heads);
  check_grouping(config, kv_keys, attention);
  const Keys dim_keys = {"head_dim"};
  if (keys.head_dim_key && config.find(dim_keys) != nullptr) {
    attention.head_dim = config.size(dim_keys, 1);
  } else if (defaults.head_dim > 0 && !config.has(dim_keys)) {
    attention.head_dim = defaults.head_dim;
  } else {
    // getattr(config, "head_dim", hidden_size // num_attention_heads), as LlamaAttention takes it.
    attention.head_dim = whole_head_dim(config, head_keys, hidden, attention.heads);
  }
}

ActivationFunction read_activation(ConfigReader& config, Keys keys, std::string_view fallback) {
  const std::string name = config.word(keys, fallback);
  const auto* const row =
      std::find_if(kActivations.begin(), kActivations.end(),
                   [&](const NamedActivation& activation) { return activation.name == name; });
  if (row != kActivations.end()) return row->function;
  std::vector<std::string> known;
  for (const NamedActivation& activation : kActivations) known.emplace_back(activation.name);
  const std::string nearest = nearest_name(name, known);
  config.error(keys, "unknown activation '" + name + "'",
               nearest.empty() ? "" : "did you mean '" + nearest + "'?");
  return ActivationFunction::gelu;
}

RotaryPosition read_rotary(ConfigReader& config, std::int64_t head_dim, const RotaryRule& rule) {
  const Value* const scaling = config.find({"rope_scaling"});
  // RotaryEmbeddingConfigMixin.convert_rope_params_to_dict: rope_scaling or rope_parameters.
  const bool scaled = scaling != nullptr && !scaling->members.empty();
  ConfigReader rope = config.section(scaled ? "rope_scaling" : "rope_parameters");
  const std::string type = rope.word({"rope_type", "type"}, "default");
  double factor = 1.0;
  // Llama's compute_default_rope_parameters takes the whole head; the scaled kinds
  // (_compute_yarn_parameters and others) multiply by partial_rotary_factor in every model.
  if (rule.partial || type != "default") {
    const double outside =
        config.number({"partial_rotary_factor", "rotary_pct"}, rule.default_factor);
    factor = rope.number({"partial_rotary_factor"}, outside);
  }
  if (!(factor > 0 && factor <= 1)) {
    config.error({"partial_rotary_factor", "rotary_pct"},
                 "the rotating part of a head must lie between 0 and 1");
    factor = 1.0;
  }
  // Python's int(head_dim * factor)
  const auto rotary_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * factor);
  return {.rotary_dim = rotary_dim};
}

std::int64_t read_layers(ConfigReader& config, Keys keys, std::int64_t fallback) {
  const std::int64_t layers = config.size(keys, fallback);
  if (layers <= kMostLayers) return layers;
  config.error(keys, number_text(layers) + " layers are beyond every model");
  return fallback;
}

void set_layers(DecoderSpec& decoder, const std::vector<LayerKind>& layers) {
  for (const LayerKind& layer : layers) {
    const auto known = std::find(decoder.kinds.begin(), decoder.kinds.end(), layer);
    const auto kind = static_cast<std::size_t>(known - decoder.kinds.begin());
    if (known == decoder.kinds.end()) decoder.kinds.push_back(layer);
    if (!decoder.order.empty() && decoder.order.back().kind == kind) {
      ++decoder.order.back().repeat;
    } else {
      decoder.order.push_back({kind, 1});
    }
  }
}

std::vector<bool> read_layer_types(ConfigReader& config, std::int64_t layers) {
  const Keys keys = {"layer_types"};
  const std::vector<std::string> types = config.words(keys);
  if (types.empty()) return {};
  if (static_cast<std::int64_t>(types.size()) != layers) {
    config.error(keys, "'layer_types' names " +
                           number_text(static_cast<std::int64_t>(types.size())) + " layers of " +
                           number_text(layers));
    return {};
  }
  std::vector<bool> sliding;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.error(keys, "unknown layer type '" + type + "'",
                   "known here: full_attention, sliding_attention");
      return {};
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

MixtureOfExperts read_experts(ConfigReader& config, const MoeKeys& keys,
                              ActivationFunction activation) {
  const Keys top_k_keys = {"num_experts_per_tok", "num_experts_per_token"};
  MixtureOfExperts moe;
  moe.experts = config.size({"num_local_experts", "num_experts", "n_routed_experts"}, keys.experts);
  moe.top_k = config.size(top_k_keys, keys.top_k);
  if (config.ok() && moe.top_k > moe.experts) {
    config.error(top_k_keys, "a token cannot use " + number_text(moe.top_k) + " of " +
                                 number_text(moe.experts) + " experts");
  }
  moe.expert_size = config.size({keys.size_key}, keys.size);
  moe.activation = activation;
  moe.expert_bias = keys.biases;
  moe.router_bias = keys.biases;
  moe.weights_over_sum = read_switch(config, keys.weights_over_sum);
  // MixtralSparseMoeBlock.forward: hidden_states *= uniform_(1 - noise, 1 + noise), only above 0.
  moe.router_noise = config.number({"router_jitter_noise"}, 0) > 0;
  // MixtralForCausalLM.forward: `if output_router_logits` it adds load_balancing_loss_func.
  moe.balance_loss = config.flag({"output_router_logits"}, false);
  if (keys.shared_size > 0) {
    // Qwen2MoeSparseMoeBlock: sigmoid(shared_expert_gate(x)) · shared_expert(x).
    moe.shared_size = config.size({"shared_expert_intermediate_size"}, keys.shared_size);
    moe.shared_gate = true;
  }
  return moe;
}

std::vector<bool> read_dense_layers(ConfigReader& config, const MoeKeys& keys,
                                    std::int64_t layers) {
  std::vector<bool> dense(static_cast<std::size_t>(layers), false);
  if (!keys.dense_layers) return dense;
  const std::int64_t step = config.size({"decoder_sparse_step"}, 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    // Qwen2MoeDecoderLayer: experts where layer_idx not in mlp_only_layers and (layer_idx + 1) %
    // decoder_sparse_step == 0.
    dense[static_cast<std::size_t>(layer)] = (layer + 1) % step != 0;
  }
  for (const std::int64_t layer : config.sizes({"mlp_only_layers"}, {})) {
    if (layer < layers) dense[static_cast<std::size_t>(layer)] = true;
  }
  return dense;
}

}  // namespace memest::hf
