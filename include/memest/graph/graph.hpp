// A model lowered for one implementation: blocks of operations with repeat counts, so that 126
// equal layers cost one. Memory is read off it three ways, FLOPs and time a fourth and fifth;
// nothing else knows what a layer does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/graph/op.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/spec/implementation.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// A part of a layer that may be captured as a CUDA graph: the block's ops from `begin` up to, not
/// with, `end`.
struct CapturedPart {
  GraphScope scope = GraphScope::attn;
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const CapturedPart&, const CapturedPart&) = default;
};

struct Block {
  std::string name;  ///< "embedding", "layer", "layer (sliding window)", "head", "loss"
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  /// The block's input as the previous block left it, kept by a checkpoint of the block.
  TensorId input = 0;
  /// The tensor that the next block takes as its input.
  TensorId output = 0;
  bool checkpointable = false;                    ///< a transformer layer: recompute applies to it
  bool compiled = false;                          ///< one region of torch.compile
  std::vector<CapturedPart> captured_parts = {};  ///< of Megatron's layers

  /// Elements of the block's own parameters; a tied weight belongs to the block that has it first.
  [[nodiscard]] Expr parameters() const;
  /// As above, of those that are trained.
  [[nodiscard]] Expr trained_parameters() const;
  /// Bytes of the distinct storages that the block's ops save, parameters excluded, shared ones
  /// included only if `shared`.
  [[nodiscard]] Expr saved_bytes(bool shared) const;
  /// As saved_bytes(), where `parts` are recomputed; tensors that enter them stay.
  [[nodiscard]] Expr saved_bytes_beside(const SelectiveRecompute& parts) const;
  /// As saved_bytes(), where selective recompute drops what the attention core makes; tensors that
  /// enter the core stay.
  [[nodiscard]] Expr saved_bytes_without_attention_core() const;
  /// Bytes that autocast's copies of the block's parameters take among saved_bytes.
  [[nodiscard]] Expr saved_cast_bytes() const;
  /// Bytes that a selective checkpoint keeps beside the input: what the ops of its list make.
  [[nodiscard]] Expr selectively_kept_bytes() const;
  /// The storages that it keeps of one op.
  [[nodiscard]] std::vector<TensorId> kept_by_list(const Op& op) const;
  /// FLOPs of one pass of the block.
  [[nodiscard]] Expr forward_flops() const;
  [[nodiscard]] Expr backward_flops() const;

  friend bool operator==(const Block&, const Block&) = default;
};

struct BlockRun {
  std::size_t block = 0;  ///< index into Graph::blocks
  std::int64_t repeat = 1;

  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

/// The forward of one token a sequence behind a key-value cache, from the pass on whose cache holds
/// `first` tokens: masks and kernels are others as it grows. S is bound to `first` + 1 and up.
struct DecodePass {
  std::int64_t first = 0;
  std::vector<BlockRun> order;

  friend bool operator==(const DecodePass&, const DecodePass&) = default;
};

struct Graph {
  std::vector<Block> blocks;
  std::vector<BlockRun> order;  ///< forward order
  /// Stages of one pipeline rank: where in `order` each begins. The first block of a stage is
  /// given its input by another rank. Empty: the whole model.
  std::vector<std::size_t> stages = {};
  std::vector<DecodePass> decoding = {};  ///< what generate() runs behind `order`, by `first`
  /// Layers of `order` that use another's weights; absent: each has its own.
  std::optional<SharedLayers> shared_layers = {};
  std::vector<BlockRun> teacher = {};  ///< a distillation's, whose forward runs before the loss
  Inventory teacher_parameters = {};
  /// One region of torch.compile answers loss and logits: its backward is one node.
  bool is_one_region = false;
  bool trains = true;               ///< ends with a loss; otherwise the last block answers logits
  std::int64_t virtual_tokens = 0;  ///< of s, those of a trained prompt
  Inventory parameters;             ///< every parameter and buffer tensor
  Bindings
      sizes;  ///< the model's symbols: h, a, k, d, f, v, L, ...; b and s as the policy has them

  /// The runs that execute in one go: a pipeline rank's stages, or the whole model as one.
  [[nodiscard]] std::vector<std::span<const BlockRun>> stage_runs() const;
  /// Checkpointable blocks of a stage, or of the forward order.
  [[nodiscard]] std::int64_t layers(std::span<const BlockRun> runs) const;
  [[nodiscard]] std::int64_t layers() const { return layers(order); }

  /// Bytes that autograd keeps in one forward, parameters excluded, each shared tensor once.
  [[nodiscard]] Expr saved_bytes() const;
  /// As above, for every block of the forward order, a run's blocks one by one: bytes that each is
  /// the first to keep.
  [[nodiscard]] std::vector<Expr> saved_bytes_by_block() const;
  /// saved_bytes() less what each block keeps by itself, as often as it runs.
  [[nodiscard]] Expr saved_in_common() const;
  /// The shared tensors among saved_bytes(); without `layers` those of the other blocks alone.
  [[nodiscard]] Expr shared_saved_bytes(bool layers) const;
  /// FLOPs of one forward and of one backward without recompute.
  [[nodiscard]] Expr forward_flops() const;
  [[nodiscard]] Expr backward_flops() const;
};

/// Sets b and s, and the roundings of s that kernels use (s8, s32, s64, s128).
void bind_tokens(Bindings& bindings, std::int64_t micro_batch, std::int64_t seq_len);

/// Among how many ranks a sequence is divided.
std::int64_t context_ranks(const Bindings& bindings);

/// Why there is no value, in one sentence for the user.
struct Unavailable {
  std::string sentence;
};

}  // namespace memest
