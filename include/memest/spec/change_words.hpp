// A program's own words for techniques that save memory: what its user writes to have them.
#pragma once

#include <string_view>

namespace memest {

struct Implementation;

/// Lines of a script, arguments or entries of a file; empty where the program has no word for it.
/// "{b}" stands for the sequences of a micro-batch, "{m}" for the micro-steps of a step, "{k}" for
/// layers, "{optimizer}" for the beginning of the optimizer's call.
struct ChangeWords {
  std::string_view recompute_full = {};
  std::string_view recompute_selective = {};
  std::string_view recompute_modules = {};       ///< of the {modules} of a layer
  std::string_view recompute_first = {};         ///< of the first {k} layers
  std::string_view recompute_every_second = {};  ///< `recompute: {every: 2}`
  std::string_view save_on_cpu = {};             ///< of saved tensors, into page-locked memory
  std::string_view micro_batch = {};
  std::string_view fused_optimizer = {};
  std::string_view adamw_8bit = {};
  std::string_view sdpa = {};
  std::string_view liger = {};
  std::string_view compile = {};
  std::string_view bf16 = {};  ///< weights, gradients and states
  std::string_view lora = {};
  std::string_view qlora = {};
  std::string_view qlora_of_fp32 = {};  ///< what is not quantised in fp32, under autocast
  std::string_view zero1 = {};
  std::string_view zero2 = {};
  std::string_view zero2_offload = {};  ///< of the optimizer
  std::string_view zero3 = {};
  std::string_view fsdp2 = {};
  std::string_view fsdp2_offload = {};
  std::string_view sharded_states = {};  ///< Megatron's distributed optimizer
};

/// The words of an implementation's loop where it has some, else its framework's.
const ChangeWords& change_words_of(const Implementation& implementation);

}  // namespace memest
