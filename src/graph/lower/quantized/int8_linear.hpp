// LLM.int8(): bitsandbytes' Linear8bitLt in place of torch.nn.Linear, whose int8 weight is
// multiplied as it is.
#pragma once

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// `shape`'s product with a weight that is kept as int8.
TensorId int8_linear(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                     const Rows& rows);

}  // namespace memest
