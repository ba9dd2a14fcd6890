#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/units/int128.hpp"

namespace memest {

TensorId litgpt_token_rows(BlockBuilder& block, const DecoderContext& context, TensorId tokens) {
  const Dimensions& dims = context.dims;
  const Shape shape = {dims.v, dims.h};
  const Place place{"embedding", "weight"};
  const bool stable = context.quantized != nullptr;
  LookUp part{tokens,
              stable ? block.unstepped_parameter(place, shape) : block.parameter(place, shape)};
  part.count = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  part.table_rows = context.decoder.vocab_size;
  const TensorId rows = look_up(block, "embedding", part);
  if (!stable) return rows;
  // bitsandbytes/nn/modules.py, StableEmbedding.forward: self.norm(emb).to(self.weight.dtype).
  NormKernelPart norm{"embedding_norm"};
  norm.gain = block.unstepped_parameter({norm.name, "weight"}, {dims.h});
  norm.bias = block.unstepped_parameter({norm.name, "bias"}, {dims.h});
  return normalize(block, norm, rows);
}

}  // namespace memest
