// Which of a block's storages autograd keeps while each of its operations runs, by how the block is
// run.
#pragma once

#include <cstddef>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memory/moments/moments.hpp"
#include "memory/moments/parts_left_out.hpp"
#include "memory/moments/tensor_set.hpp"

namespace memest {

class SavedStorages {
 public:
  struct Saved {
    TensorSet storages;
    Expr bytes;
  };

  /// `block` outlives this.
  SavedStorages(const Block& block, BlockPass pass, const SelectiveRecompute& parts);

  /// While operation `op` runs, forward or backward.
  [[nodiscard]] const Saved& at(std::size_t op) const { return saved_[op]; }
  /// Storages of the outputs that a selective checkpoint has kept, of the operations from `at` on.
  [[nodiscard]] TensorSet pending(std::size_t at) const;
  /// The parts of the block that the pass leaves out.
  [[nodiscard]] const std::vector<PartLeftOut>& parts() const { return parts_; }

  /// A selective checkpoint's second forward, which takes what the first has kept.
  [[nodiscard]] bool takes_selected() const {
    return pass_ == BlockPass::recompute_selected || pass_ == BlockPass::recompute_selected_early;
  }
  /// A checkpoint's second forward.
  [[nodiscard]] bool is_recomputed() const { return pass_ >= BlockPass::recompute; }
  /// A checkpoint's second forward ends with the last operation that saves something.
  [[nodiscard]] std::size_t forward_end() const;
  /// Autograd saves what an operation reads before it runs, and what it makes after: where the last
  /// operation that saves keeps no output, the early stop (_StopRecomputationError) is before it.
  [[nodiscard]] bool stops_before(std::size_t at) const;

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return block_.tensors[id]; }
  [[nodiscard]] TensorId storage(TensorId id) const { return tensor(id).storage; }
  /// Whether the block's own memory holds this storage: not a parameter, not made outside the
  /// block, not kept by the block before, not the input that a checkpoint keeps.
  [[nodiscard]] bool counts(TensorId id) const { return counted_.contains(id); }
  [[nodiscard]] const Expr& bytes_of_tensor(TensorId id) const { return bytes_[id]; }
  [[nodiscard]] Expr bytes(const TensorSet& storages) const;

 private:
  [[nodiscard]] bool stops_early() const;
  [[nodiscard]] bool holds(TensorId id) const;
  [[nodiscard]] bool is_by_caller(TensorId made) const;
  void keep_selected(std::size_t begin, std::size_t end, TensorSet& kept) const;
  void keep_held(const Op& op, TensorSet& kept) const;
  void keep_of(std::size_t op, std::size_t at, TensorSet& kept) const;
  [[nodiscard]] bool differs_from_before(std::size_t at) const;
  [[nodiscard]] bool is_thrown_away(TensorId made, std::size_t at) const;
  [[nodiscard]] TensorSet saved_until(std::size_t at) const;
  void keep_saved();

  const Block& block_;
  BlockPass pass_;
  std::vector<PartLeftOut> parts_;
  /// A selective checkpoint compiled with its block computes again what stands behind, before.
  std::size_t cut_ = 0;
  std::vector<Expr> bytes_;   ///< of every tensor
  TensorSet counted_;         ///< tensors of storages that count
  std::vector<Saved> saved_;  ///< while each operation runs
};

}  // namespace memest
