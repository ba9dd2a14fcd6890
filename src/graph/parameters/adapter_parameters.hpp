// The parameters that an adapter adds to a model's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "memest/spec/adapter.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Queries, keys and values of one module, each of which may be a target by a name of its own
/// (litgpt's LoRAQKVLinear).
struct JointTargets {
  std::string_view module;
  struct Part {
    std::string_view name;
    std::int64_t width = 0;
  };
  std::array<Part, 3> parts;
};

struct Adaptation {
  const Adapter& adapter;
  bool stored_in_out = false;  ///< matrices are [in, out]
  std::optional<JointTargets> joint = {};
};

/// `inventory` frozen, with the adapter's matrices behind every target's own, as peft registers
/// them: those of a target that no gradient came to get none either.
Inventory with_adapter(const Inventory& inventory, const Adaptation& how);

/// `inventory` frozen, and behind it what peft trains of a prompt whose tokens have `hidden_size`
/// channels.
Inventory with_prompt(const Inventory& inventory, const Adapter& prompt, std::int64_t hidden_size);

struct ParallelAdaptation {
  const Adapter& adapter;
  std::int64_t ranks = 1;  ///< tensor-parallel ones, one of which `inventory` is of
};

/// `inventory` of Megatron's model frozen, its layers wrapped by Megatron-Bridge (LoRALinear,
/// ParallelLinearAdapter).
Inventory with_parallel_adapter(const Inventory& inventory, const ParallelAdaptation& how);

}  // namespace memest
