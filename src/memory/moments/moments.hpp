// Bytes alive while one operation of a block runs, forward and backward, as formulas: the rules of
// eager PyTorch's autograd applied to a block of the graph.
//
//   forward   an output lives while a later operation of the block reads it; what autograd saves
//             stays; the operation's scratch is there while it runs.
//   backward  in reverse order: what this and earlier operations saved, the gradients on their way,
//             and the operation's scratch are alive together.
#pragma once

#include <string_view>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// How the block is run.
enum class BlockPass {
  keep_all,        ///< everything that autograd saves stays
  keep_input_too,  ///< the same after a checkpoint, which keeps nothing for the block that follows
  keep_parts_out,  ///< parts of the block come back in its backward, each of which holds its
                   ///< inputs, its answer and that one's gradient
  keep_parts_out_too,  ///< the same after a checkpoint, as keep_input_too
  keep_nothing,     ///< a checkpoint's first forward: only autocast's copies stay; the input is the
                    ///< caller's
  keep_answer,      ///< without gradients: only autocast's copies and what the model answers stay
  keep_selected,    ///< a selective checkpoint's first forward: what its list names stays too
  recompute,        ///< a checkpoint's second forward and its backward: the input is the caller's
  recompute_held,   ///< the same, and the checkpoint holds its answer and that one's gradient
  recompute_whole,  ///< the same, run to its end
  recompute_selected,       ///< and what the list names is taken, not made
  recompute_selected_early  ///< the same, not run to its end
};

/// One operation at work. Shared tables and parameters are not counted.
struct Moment {
  std::string_view op;
  Expr saved;  ///< bytes of the block that autograd keeps, those of this operation included
  Expr live;   ///< bytes beside: locals or gradients under way, and scratch
  Expr gradient_elements;      ///< backward: parameters of the block whose gradient exists by now
  Expr new_gradient_elements;  ///< backward: those of this operation
  std::size_t at = 0;          ///< the operation's place in its block
};

struct BlockMoments {
  std::vector<Moment> forward;
  std::vector<Moment> backward;  ///< in the order in which they run: the last operation first
  Moment begin;                  ///< before the forward
  Moment before_backward;        ///< before the backward
  Moment end;                    ///< behind it
  Moment behind_experts;         ///< behind the backward of what is exchanged between expert ranks
  /// Under way while a checkpoint's forward is recomputed: the backward has begun, up to the first
  /// operation that reads what was kept.
  Expr gradients_when_run_again;
};

/// `parts`: those that a pass leaves out.
BlockMoments moments_of(const Block& block, BlockPass pass, const SelectiveRecompute& parts = {});

/// Bytes of the block's input.
Expr input_bytes(const Block& block);

}  // namespace memest
