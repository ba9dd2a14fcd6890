// The parameters that an adapter adds to a model's.
#pragma once

#include "memest/spec/adapter.hpp"
#include "memest/spec/model.hpp"

namespace memest {

struct Adaptation {
  const LoraAdapter& adapter;
  bool stored_in_out = false;  ///< matrices are [in, out]
};

/// `inventory` frozen, with the adapter's matrices behind every target's own, as peft registers
/// them.
Inventory with_adapter(const Inventory& inventory, const Adaptation& how);

}  // namespace memest
