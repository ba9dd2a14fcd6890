// Keys that the decoder families share: heads, positions, windows, layer kinds, experts, the
// head on top.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "memest/spec/decoder.hpp"
#include "reader/hf/config_reader.hpp"

namespace memest::hf {

/// A yes or no of the class: a key with its default, or a constant where `key` is empty.
struct Switch {
  std::string_view key = {};
  bool fallback = false;
};
bool read_switch(ConfigReader& config, const Switch& value);

/// Defaults of the head keys.
struct HeadDefaults {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;  ///< 0: hidden_size / heads
};

/// Heads under transformers' usual keys; `head_dim_key` false: the class ignores a head_dim that is
/// written.
struct HeadKeys {
  HeadDefaults defaults;
  bool head_dim_key = true;
};
void read_heads(ConfigReader& config, std::int64_t hidden, const HeadKeys& keys,
                SoftmaxAttention& attention);

/// hidden / heads, an error where it is not whole. `keys` are those of the number of heads.
std::int64_t whole_head_dim(ConfigReader& config, Keys keys, std::int64_t hidden,
                            std::int64_t heads);
/// An error where kv_heads does not divide heads.
void check_grouping(ConfigReader& config, Keys keys, const SoftmaxAttention& attention);

/// The activation called `keys` in the file.
ActivationFunction read_activation(ConfigReader& config, Keys keys, std::string_view fallback);

/// How much of a head rotates.
struct RotaryRule {
  double default_factor = 1.0;
  /// The class applies a factor with unscaled frequencies too; otherwise only rope_type other than
  /// "default" does.
  bool partial = false;
};
RotaryPosition read_rotary(ConfigReader& config, std::int64_t head_dim, const RotaryRule& rule);

/// Number of layers, at least 1 and at most kMostLayers.
std::int64_t read_layers(ConfigReader& config, Keys keys, std::int64_t fallback);

/// Writes `layers`, one entry a layer, as kinds and runs.
void set_layers(DecoderSpec& decoder, const std::vector<LayerKind>& layers);

/// `layer_types` as written, checked: for each layer whether its attention slides. Empty where the
/// key is missing.
std::vector<bool> read_layer_types(ConfigReader& config, std::int64_t layers);

/// The keys of a mixture of experts and their defaults.
struct MoeKeys {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::string_view size_key = "intermediate_size";
  std::int64_t size = 0;
  bool biases = false;  ///< of experts and router
  std::int64_t shared_size =
      0;  ///< default of shared_expert_intermediate_size; 0: the class has no shared expert
  bool dense_layers = false;  ///< decoder_sparse_step and mlp_only_layers choose dense layers
  Switch weights_over_sum = {};
};
MixtureOfExperts read_experts(ConfigReader& config, const MoeKeys& keys,
                              ActivationFunction activation);
/// For each layer whether it is dense.
std::vector<bool> read_dense_layers(ConfigReader& config, const MoeKeys& keys, std::int64_t layers);

/// Sets head, labels, head_bias and tied_embeddings: the class that `architectures` names, the
/// language model without it.
void read_decoder_head(ConfigReader& config, bool tied_by_default, DecoderSpec& decoder);

/// Number of labels of a classification head: id2label, else num_labels, else the class's own.
std::int64_t read_labels(ConfigReader& config, std::int64_t fallback = 2);

/// The first name of `architectures`; empty where there is none.
std::string read_architecture(ConfigReader& config);

}  // namespace memest::hf
