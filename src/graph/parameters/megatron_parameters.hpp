// The parameters of Megatron-core's GPTModel on one rank, in the order of Module.parameters().
#pragma once

#include "memest/graph/lower.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// The parameters of the stages of `policy`, cut over its tensor-parallel ranks; `decoder` is one
/// that lower_gpt_model() takes. Throws OverflowError.
Inventory parameters_of_megatron(const DecoderSpec& decoder, const LoweringPolicy& policy);

}  // namespace memest
