// A decoder-only transformer becomes blocks: embedding, one block a kind of layer, head, loss.
#pragma once

#include <optional>
#include <variant>

#include "graph/lower/ops/decoder_program.hpp"
#include "memest/graph/lower.hpp"

namespace memest {

/// `model` is a decoder as `program` stores it.
std::variant<Graph, Unavailable> lower_decoder(const ModelSpec& model, const LoweringPolicy& policy,
                                               const DecoderProgram& program);

struct DecoderContext;

/// The loss of LossKernel::chunked, from the logits.
Block chunked_loss_block(const DecoderContext& context);

/// Appends the blocks of the whole model.
void write_model(const DecoderContext& context, Graph& graph);

/// Appends generate()'s passes of one token a sequence, each as long as it is the same, or says why
/// there are none.
std::optional<Unavailable> append_decoding(const ModelSpec& model, const DecoderContext& context,
                                           Graph& graph);

}  // namespace memest
