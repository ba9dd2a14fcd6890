// Bytes that the steps of one operation's backward take beside what was there before.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

/// No value of the letters makes `formula` negative.
bool never_negative(const Expr& formula);

/// Bytes of a tensor that a backward of `block` makes.
Expr bytes_of_made(const Block& block, const BackwardTensor& made);

/// Whether tensor `made` of those that `op` makes becomes a parameter's gradient: these are counted
/// in elements, since a recipe may keep them in another type.
bool becomes_parameter_gradient(const Block& block, const Op& op, std::size_t made);

/// A local maximum of what an op's backward has made.
struct StepPeak {
  Expr bytes;  ///< beside parameters' gradients; below zero where kept tensors end on the way
  std::vector<std::size_t> gradients;  ///< of parameters, made by now: among what the op makes
};

/// Those of `steps` of the op's backward that no other exceeds anyway.
std::vector<StepPeak> peaks_of_steps(const Block& block, const Op& op, std::span<const Step> steps);

/// The local maxima of the bytes that the op's forward makes, where that has steps: its scratch,
/// and below zero what of its outputs is yet to come; without what a selective checkpoint kept if
/// it `takes_kept`.
std::vector<Expr> peaks_of_course(const Block& block, const Op& op, bool takes_kept);

}  // namespace memest
