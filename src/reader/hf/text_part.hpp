// The text model inside a multimodal config.
#pragma once

#include <string_view>

#include "reader/text/value.hpp"

namespace memest::hf {

inline constexpr std::string_view kTextSection = "text_config";

/// Where the text model of a config stands that has towers for images or sound beside it.
struct TextPart {
  std::string_view towers = {};      ///< the section that says so; empty where there are none
  std::string_view model_type = {};  ///< of the text model
  const Value* section = nullptr;    ///< null: its keys stand among the config's own

  [[nodiscard]] bool is_part() const { return !towers.empty(); }
};

/// A model that is counted with its towers (CLIP) has no part.
TextPart text_part_of(const Value& config);

}  // namespace memest::hf
