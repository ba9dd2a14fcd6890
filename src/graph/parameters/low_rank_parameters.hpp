// The parameters of factorised linear layers.
#pragma once

#include <string_view>

#include "memest/spec/compression/low_rank.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Whether the linear module "mlp.up_proj" is one that `low_rank` names: "up_proj".
bool factorises(const LowRank& low_rank, std::string_view module);

/// `inventory` with [rank, in] ("up_proj.0.weight") and [out, rank] ("up_proj.1.weight", with the
/// bias) in place of each named matrix, whichever way that is stored (`stored_in_out`: as [in,
/// out]). Throws OverflowError.
Inventory with_low_rank(const Inventory& inventory, const LowRank& low_rank, bool stored_in_out);

}  // namespace memest
