// A model lowered for one implementation: blocks of operations with repeat counts, so that 126 equal layers cost one.
// Memory is read off it three ways, FLOPs and time a fourth and fifth; nothing else knows what a layer does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/graph/op.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

struct Block {
  std::string name;  ///< "embedding", "layer", "layer (sliding window)", "head", "loss"
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  /// The block's input as the previous block left it, kept by a checkpoint of the block.
  TensorId input = 0;
  bool checkpointable = false;  ///< a transformer layer: recompute applies to it

  /// Elements of the block's parameters.
  [[nodiscard]] Expr parameters() const;
  /// Bytes of the distinct storages that the block's ops save, parameters excluded, shared ones included only if `shared`.
  [[nodiscard]] Expr saved_bytes(bool shared) const;
  /// The same over the ops that selective recompute leaves in place.
  [[nodiscard]] Expr saved_bytes_without_attention_core() const;
};

struct BlockRun {
  std::size_t block = 0;  ///< index into Graph::blocks
  std::int64_t repeat = 1;
};

struct Graph {
  std::vector<Block> blocks;
  std::vector<BlockRun> order;    ///< forward order
  Inventory parameters;           ///< every parameter and buffer tensor
  Bindings sizes;                 ///< the model's symbols: h, a, k, d, f, v, L, ...; b and s as the job has them

  /// Bytes that autograd keeps in one forward, parameters excluded, each shared tensor once.
  [[nodiscard]] Expr saved_bytes() const;
};

/// Why there is no value, in one sentence for the user.
struct Unavailable {
  std::string sentence;
};

}  // namespace memest
