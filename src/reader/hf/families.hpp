// The model types that are known, one row each: adding a family is adding a row.
#pragma once

#include <span>
#include <string_view>

#include "memest/spec/model.hpp"
#include "reader/hf/config_reader.hpp"

namespace memest::hf {

/// A family's reader makes this: the architecture, and the family whose conventions it follows.
struct ReadModel {
  Family family = Family::decoder;
  std::variant<DecoderSpec, LayerList, Inventory> architecture;
};

struct ModelType {
  std::string_view name;
  ReadModel (*read)(ConfigReader& config);
};

std::span<const ModelType> llama_like_types();
std::span<const ModelType> mixture_types();
std::span<const ModelType> gpt_types();
std::span<const ModelType> latent_types();
std::span<const ModelType> encoder_types();
std::span<const ModelType> modern_encoder_types();
std::span<const ModelType> encoder_decoder_types();
std::span<const ModelType> vision_types();
std::span<const ModelType> tower_types();
std::span<const ModelType> mamba_types();

}  // namespace memest::hf
