// peft_model.py, PeftModelForCausalLM.forward and get_prompt; tuners/prompt_tuning/model.py and
// tuners/p_tuning/model.py.
#include "graph/lower/adapters/prompt.hpp"

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// nn.Linear of the prompt's encoder.
TensorId trained_linear(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const TensorId weight = block.trained_parameter({shape.name, "weight"}, {shape.out, shape.in});
  const TensorId bias = block.trained_parameter({shape.name, "bias"}, {shape.out});
  return product_with(block, shape, {weight, bias}, rows);
}

/// PromptEncoder.mlp_head.
TensorId encoded(BlockBuilder& block, const DecoderContext& context, const Rows& rows) {
  const Expr& h = context.dims.h;
  const std::int64_t given = context.adapter->encoder_hidden_size;
  const Expr inner = given > 0 ? Expr(given) : h;
  const auto relu = [&block](std::string_view name, TensorId x) {
    return activation(block, {name, ActivationFunction::relu}, x);
  };
  Frame forward(block);
  forward.local(rows.x);
  TensorId x = trained_linear(block, {"mlp_head.0", h, inner, true}, rows);
  x = relu("mlp_head.1", x);
  x = trained_linear(block, {"mlp_head.2", inner, inner, true}, {rows.shape, x});
  x = relu("mlp_head.3", x);
  return trained_linear(block, {"mlp_head.4", inner, h, true}, {rows.shape, x});
}

/// get_prompt(batch_size): the first row's tokens, written out for every sequence.
TensorId prompt_of_batch(BlockBuilder& block, const DecoderContext& context) {
  const Adapter& prompt = *context.adapter;
  const Dimensions& dims = context.dims;
  const Expr n(prompt.virtual_tokens);
  Frame function(block);
  const TensorId tokens = function.local(
      compute(block, OpKind::copy, {}, {{"prompt", "tokens"}, {dims.b, n}, DType::int64}));
  const TensorId first = block.alias({"prompt", "first tokens"}, tokens, {Expr(1), n});
  const TensorId table =
      block.trained_parameter({"prompt_encoder.default.embedding", "weight"}, {n, dims.h});
  TensorId x = look_up(block, "prompt_embedding",
                       {first, table, prompt.virtual_tokens, prompt.virtual_tokens});
  if (prompt.kind == AdapterKind::p_tuning) x = encoded(block, context, {{Expr(1), n}, x});
  // RepeatBackward0 sums where there is more than one.
  if (context.policy.micro_batch == 1) {
    return copy(block, {"prompt_repeat"}, x, {dims.b, n, dims.h});
  }
  const Repeats repeats{{dims.b, n, dims.h}, Expr(1), dims.b, n * dims.h};
  return repeated_copy(block, "prompt_repeat", x, repeats);
}

}  // namespace

TensorId prompted(BlockBuilder& block, const DecoderContext& context, TensorId tokens,
                  TensorId embeddings) {
  const Dimensions& dims = context.dims;
  const Expr n(context.virtual_tokens());
  const TensorId before =
      compute(block, OpKind::copy, {}, {{"prompt", "labels"}, {dims.b, n}, DType::int64});
  const TensorId labels = compute(block, OpKind::concatenate, {before, tokens},
                                  {{"prompt", "all labels"}, dims.rows(), DType::int64});
  block.outlive(before, kPromptLocals[0]);
  block.outlive(labels, kPromptLocals[1]);
  const TensorId prompt = cast(block, {"prompt", "in type"}, prompt_of_batch(block, context),
                               block.dtype_of(embeddings));
  block.outlive(prompt, kPromptLocals[2]);
  const bool one = context.policy.micro_batch == 1;
  const Reach reach = one ? Reach::directly : Reach::through_view;
  const TensorId x = concatenate(block, {"prompt", "embeddings"}, {{prompt, embeddings}, {}, reach},
                                 {dims.b, dims.s, dims.h});
  block.outlive(x, kPromptLocals[3]);
  return x;
}

}  // namespace memest
