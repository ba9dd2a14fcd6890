// The parameters of nanotron's LlamaForTraining that one rank has, in the order in which its
// modules are made, with the tables of positions that each layer keeps.
#pragma once

#include "memest/graph/lower.hpp"

namespace memest {

Inventory parameters_of_nanotron(const DecoderSpec& decoder, const LoweringPolicy& policy);

}  // namespace memest
