// Products, attention and convolutions of a recorded step, as laws price them.
#pragma once

#include <optional>

#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

MatmulShape product_shape(const RecordedProduct& product);

/// A contraction that an operator's own kernels compute.
struct Contraction {
  KernelShape shape;
  Flops flops;  ///< as torch's FlopCounterMode counts
};

/// Fused attention; nothing of other operators.
std::optional<Contraction> attention_of(const RecordedOperator& op);
/// A convolution, or the products of its backward; nothing of other operators.
std::optional<Contraction> convolution_of(const RecordedOperator& op);
/// Products of groups of rows, each by a weight of its own (torch._grouped_mm).
std::optional<Contraction> grouped_product_of(const RecordedOperator& op);

/// 2·m·n·k of each. Throws OverflowError.
Flops exact_flops(const MatmulShape& shape);

}  // namespace memest
