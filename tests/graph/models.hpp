// Models that the tests lower, built by hand.
#pragma once

#include "memest/graph/lower.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Llama-3-8B.
ModelSpec llama();
/// A GPT block by the book: layer norms, GELU, biases, `dropout` everywhere but in the
/// feed-forward.
ModelSpec gpt(double dropout);
/// GPT-2 small of transformers, with its dropout.
ModelSpec gpt2();
/// Gemma-2-2B, without its sliding window.
ModelSpec gemma2();
/// nanoGPT's GPT-2 small: no biases, no dropout.
ModelSpec nanogpt();

/// bf16 at 1 × 2048 tokens on a GPU of capability 9.0.
LoweringPolicy policy_for(Framework framework, AttentionKernel attention);
/// That of an H100 whose loss is taken by chunks.
LoweringPolicy chunked_policy(Framework framework, std::int64_t micro_batch, std::int64_t seq_len);
/// llama() with so many heads of keys and values.
ModelSpec llama_of(std::int64_t kv_heads);

/// The graph; the test fails where there is none.
Graph lowered(const ModelSpec& model, const LoweringPolicy& policy);
/// The first transformer layer.
Block layer(const Graph& graph);

}  // namespace memest
