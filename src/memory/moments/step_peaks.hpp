// What the steps of one operation's backward have in memory beside what was there before.
#pragma once

#include <span>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

/// No value of the letters makes `formula` negative.
bool never_negative(const Expr& formula);

/// Bytes of a tensor that a backward of `block` makes.
Expr bytes_of(const Block& block, const BackwardTensor& made);

/// Of the tensors that `op` makes those that become parameters' gradients: they are counted in
/// elements, since a recipe may keep them in another type.
bool becomes_parameter_gradient(const Block& block, const Op& op, std::size_t made);

/// The local maxima of the bytes that `steps` of the op's backward make; those that another exceeds
/// anyway are left out. Below zero where kept tensors end on the way.
std::vector<Expr> peaks_of_steps(const Block& block, const Op& op, std::span<const Step> steps);

/// The same of the op's forward, where that has steps: its scratch, and below zero what of its
/// outputs is yet to come.
std::vector<Expr> peaks_of_course(const Block& block, const Op& op);

}  // namespace memest
