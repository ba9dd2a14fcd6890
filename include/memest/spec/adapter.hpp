// An adapter that is trained instead of the model: one of peft's, or Megatron-Bridge's LoRA, or a
// prompt that peft puts before every sequence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest {

/// The formula of an adapted layer, of the matrix W that answers W·x without.
enum class AdapterKind : std::uint8_t {
  lora,  ///< out = W·x + (α/r)·B·A·dropout(x), with A of [rank, in] and B of [out, rank]
  dora,  ///< as lora, but each row of W + (α/r)·B·A has the length that a trained vector says
  ia3,   ///< out = l ⊙ W·x, or W·(l ⊙ x)
  vera,  ///< out = W·x + b ⊙ B·(d ⊙ A·dropout(x)), with A and B frozen, one pair for all targets
  prompt_tuning,  ///< no layer: the embeddings of `virtual_tokens` stand before a sequence's own
  p_tuning        ///< as prompt_tuning, but of what three linear layers make of them
};
/// "lora", "dora", "ia3", "vera", "prompt_tuning", "p_tuning".
std::string_view name_of(AdapterKind kind);

/// Everything is frozen but what the adapter adds, and whole modules, which keep their type.
struct Adapter {
  AdapterKind kind = AdapterKind::lora;
  std::int64_t rank = 0;                        ///< of all but ia3
  std::vector<std::string> targets = {};        ///< modules, by the end of their names: "q_proj"
  std::vector<std::string> scaled_inputs = {};  ///< targets of ia3 whose input is scaled
  std::vector<std::string> whole_modules = {};  ///< trained in full, as copies beside the originals
  double dropout = 0;                           ///< on the adapter's input
  DType dtype = DType::fp32;                    ///< of what the adapter adds
  bool widened = false;                         ///< peft has widened it from 16 bits
  bool recast = false;    ///< the loop casts to `dtype` what peft has widened to fp32
  bool parallel = false;  ///< Megatron-Bridge's, whose targets are layers of Megatron's model
  std::int64_t virtual_tokens = 0;       ///< of a prompt
  std::int64_t encoder_hidden_size = 0;  ///< of p_tuning's layers; 0: the model's

  [[nodiscard]] bool is_prompt() const { return virtual_tokens > 0; }
};

/// Whether `module` ("self_attn.q_proj") is what `target` ("q_proj") names, as peft compares them.
constexpr bool is_named(std::string_view module, std::string_view target) {
  return module == target || (module.size() > target.size() && module.ends_with(target) &&
                              module[module.size() - target.size() - 1] == '.');
}

/// Whether any target of `adapter` names `module`.
bool adapts(const Adapter& adapter, std::string_view module);
/// Whether it scales the input of `module`, a target of it.
bool scales_input(const Adapter& adapter, std::string_view module);
/// Whether `adapter` trains `module` in full.
bool trains_whole(const Adapter& adapter, std::string_view module);

}  // namespace memest
