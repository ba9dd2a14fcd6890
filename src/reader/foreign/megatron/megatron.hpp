// Megatron's keys, which stand in command lines of Megatron-LM and in YAML of Megatron-Bridge under
// two names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reader/foreign/dialect.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"

namespace memest::megatron {

// Values that Megatron calls otherwise.
inline constexpr WordPair kNorms[] = {{"LayerNorm", "layernorm"}, {"RMSNorm", "rmsnorm"}};
inline constexpr WordPair kPositions[] = {{"learned_absolute", "learned"},
                                          {"rope", "rope"},
                                          {"yarn", "rope"},
                                          {"alibi", "alibi"},
                                          {"none", "none"}};
inline constexpr WordPair kOptimizers[] = {{"adam", "adamw"}};
inline constexpr WordPair kExchanges[] = {{"p2p", "ring"}, {"a2a", "all-to-all"}};

/// combined_1f1b.py: a forward runs beside another micro-batch's backward, and a pipeline keeps one
/// micro-batch more.
inline constexpr std::string_view kOverlappedExchange =
    "an exchange of experts beside another micro-batch's products";

/// A file by the names that megatron-core's configs have for its keys: "num_layers".
class MegatronFile {
 public:
  explicit MegatronFile(ForeignImport& file);

  ForeignImport& file;

  /// The key of the file: "--num-layers" or "model.num_layers".
  [[nodiscard]] std::string_view key(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view name) const;
  [[nodiscard]] std::int64_t count(std::string_view name, std::int64_t fallback) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback = {}) const;
  /// Whether the switch is on; a command line may have the switch that turns it off.
  [[nodiscard]] bool flag(std::string_view name, bool fallback) const;
  [[nodiscard]] bool is_yaml() const { return yaml_; }

 private:
  bool yaml_;
};

// Derivations of both dialects.
void write_sizes(ForeignImport& file);
void write_vocabulary(ForeignImport& file);
void write_experts(ForeignImport& file);
void write_layer_kinds(ForeignImport& file);
void write_types(ForeignImport& file);
void write_states(ForeignImport& file);
/// Products in 8 and 4 bits.
void write_quantized(ForeignImport& file);
/// Whether mixed_precision names a precision with such products, beside weights in bf16.
bool is_quantized_precision(const std::string& name);
void write_checkpoints(ForeignImport& file);
void write_offload(ForeignImport& file);
void write_cuda_graphs(ForeignImport& file);
/// The dispatcher that carries tokens to the experts.
void write_dispatcher(ForeignImport& file);
void write_layers_of(ForeignImport& file);
/// Whether the file asks for layers of Megatron-LM before megatron-core, which it then writes with
/// what was fused of them and who runs them.
bool writes_legacy_layers(const MegatronFile& megatron);
/// Who shards the states: the distributed optimizer, or Megatron-FSDP.
void write_shares(ForeignImport& file);
void write_stages(ForeignImport& file);
void write_gpus(ForeignImport& file);

}  // namespace memest::megatron
