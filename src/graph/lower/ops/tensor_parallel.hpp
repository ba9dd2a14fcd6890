// The operations that torchtitan's tensor parallelism adds to a decoder. Where no tensors are
// sharded the collectives answer what they are given.
#pragma once

#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The whole sequence from its shards, as a DTensor.
TensorId gathered(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                  TensorId x);
/// As above, where the same gradient of the whole comes back on every rank.
TensorId gathered_alike(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                        TensorId x);
/// Gives `op`, which makes `gathered` of this rank's `shard`, its backward: the gradient is written
/// out shard by shard, and summed to the rank's own.
void scatter_gradient(const BlockBuilder& block, Op& op, TensorId gathered, TensorId shard);
/// Partial sums of the whole sequence, summed to this rank's shard of it.
TensorId scattered(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   TensorId x);
/// `x` itself, whose gradient is summed over the ranks.
TensorId summed_back(BlockBuilder& block, std::string_view name, TensorId x);
/// The two halves of scattered(): `x` written out shard by shard, a local of `frame` as `x` is, and
/// the sum's own shard of that, whose backward is left to be written.
TensorId cut_for_ranks(BlockBuilder& block, Frame& frame, std::string_view name, TensorId x);
[[nodiscard]] Op scattering(BlockBuilder& block, const DecoderContext& context,
                            std::string_view name, TensorId cut);
/// Logits of the whole vocabulary where the loss does not read shards of them.
TensorId gathered_logits(BlockBuilder& block, const DecoderContext& context, TensorId x);

/// Rows of a table of which this rank has a shard, zeros elsewhere. The gradient is the whole
/// table's.
TensorId look_up_in_shard(BlockBuilder& block, const DecoderContext& context, const LookUp& part);

/// Cross-entropy over shards of the vocabulary: log-softmax, and the likelihood of the targets.
TensorId log_softmax_of_shards(BlockBuilder& block, const DecoderContext& context, TensorId scores);
TensorId likelihood_of_shards(BlockBuilder& block, const DecoderContext& context, TensorId scores,
                              TensorId targets);
/// Both, compiled, from the logits as they are.
TensorId compiled_loss_of_shards(BlockBuilder& block, const DecoderContext& context,
                                 TensorId logits, TensorId targets);

}  // namespace memest
