// Mamba: a decoder without attention, known by its parameters. transformers 5.17, models/mamba.
#include <array>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"

namespace memest::hf {
namespace {

constexpr std::array kMambaHeads = {
    HeadRow{"ForCausalLM", HeadPart::language_model},
    HeadRow{"LMHeadModel", HeadPart::language_model},
    HeadRow{"Model", HeadPart::none},
};

struct MambaSizes {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  std::int64_t state = 0;
  std::int64_t rank = 0;
  std::int64_t layers = 0;
};

MambaSizes read_mamba_sizes(ConfigReader& config) {
  MambaSizes sizes;
  sizes.hidden = config.size({"hidden_size"}, 768);
  sizes.inner = config.scaled_size({"expand"}, 2, sizes.hidden);
  sizes.state = config.size({"state_size"}, 16);
  const bool automatic = config.word({"time_step_rank"}, "auto") == "auto";
  // MambaConfig: ceil(hidden_size / 16). 768: 48.
  const std::int64_t rank = (sizes.hidden + 15) / 16;
  sizes.rank = automatic ? rank : config.size({"time_step_rank"}, rank);
  sizes.layers = read_layers(config, {"num_hidden_layers"}, 32);
  return sizes;
}

ReadModel read_mamba(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadPart part = choose_head(config, kMambaHeads).part;
  const auto [hidden, inner, state, rank, layers] = read_mamba_sizes(config);
  const std::int64_t vocab = config.size({"vocab_size"}, 50280);
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  const bool bias = config.flag({"use_bias"}, false);
  const bool heads = part == HeadPart::language_model;
  write_token_table(inventory, "embeddings", {vocab, hidden}, heads && tied);
  inventory.rms_norm("norm", hidden, layers);
  write_other(inventory, "mixer.A_log", {inner, state}, layers);
  write_other(inventory, "mixer.D", {inner}, layers);
  // Depthwise: groups = intermediate_size, so a kernel is one channel deep.
  write_kernel(inventory, "mixer.conv1d", {inner, 1, config.size({"conv_kernel"}, 4)}, layers);
  if (config.flag({"use_conv_bias"}, true)) write_bias(inventory, "mixer.conv1d", inner, layers);
  // The state and its gate in one product.
  inventory.projection("mixer.in_proj", {2 * inner, hidden, bias}, layers);
  // One product makes dt, B and C at once: rank + 2 · state outputs.
  inventory.projection("mixer.x_proj", {rank + 2 * state, inner}, layers);
  inventory.projection("mixer.dt_proj", {inner, rank, true}, layers);
  inventory.projection("mixer.out_proj", {hidden, inner, bias}, layers);
  inventory.rms_norm("norm_f", hidden);
  if (heads && !tied) inventory.projection("lm_head", {vocab, hidden});
  return {Family::decoder, std::move(inventory).take()};
}

constexpr std::array kMambaTypes = {ModelType{"mamba", read_mamba}};

}  // namespace

std::span<const ModelType> mamba_types() { return kMambaTypes; }

}  // namespace memest::hf
