// An adapter that is trained instead of the model: peft's LoRA, or Megatron-Bridge's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest {

/// Beside the matrix of every target two trained ones: out = W·x + (α/r)·B·A·dropout(x), with A of
/// [rank, in] and B of [out, rank]. Everything else is frozen but whole modules, which keep their
/// type.
struct LoraAdapter {
  std::int64_t rank = 0;
  std::vector<std::string> targets;        ///< modules, by the end of their names: "q_proj"
  std::vector<std::string> whole_modules;  ///< trained in full, as copies beside the originals
  double dropout = 0;                      ///< on the adapter's input
  DType dtype = DType::fp32;               ///< of A and B
  bool parallel = false;  ///< Megatron-Bridge's, whose targets are layers of Megatron's model
};

/// Whether `module` ("self_attn.q_proj") is what `target` ("q_proj") names, as peft compares them.
constexpr bool is_named(std::string_view module, std::string_view target) {
  return module == target || (module.size() > target.size() && module.ends_with(target) &&
                              module[module.size() - target.size() - 1] == '.');
}

/// Whether any target of `adapter` names `module`.
bool adapts(const LoraAdapter& adapter, std::string_view module);
/// Whether `adapter` trains `module` in full.
bool trains_whole(const LoraAdapter& adapter, std::string_view module);

}  // namespace memest
