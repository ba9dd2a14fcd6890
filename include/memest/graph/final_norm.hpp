// The norm behind the last layer, as accelerate looks for it before FSDP2 shards a model.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace memest {

/// accelerate 1.15, _find_final_norm looks among the children of the model's `base_model_prefix`,
/// which peft's model hands on: `model` of it is the whole causal model, and no norm is its child.
/// `transformer` and `gpt_neox` are the base model, whose norm has another `name`.
constexpr bool finds_norm_beside_peft(std::string_view name) {
  constexpr std::array<std::string_view, 3> kFound = {"ln_f", "norm_f", "final_layer_norm"};
  return std::ranges::find(kFound, name) != kFound.end();
}

}  // namespace memest
