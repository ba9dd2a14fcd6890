// The parts of attention written out as products: operands by heads, products, softmax, and the
// joint of its heads. Selective recompute drops all of it.
#pragma once

#include <string_view>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {

/// [b, a, s, d].
Shape all_heads(const Dimensions& dims);

/// The form in which a tensor of the core is made.
struct TensorForm {
  Shape shape;
  DType dtype = DType::bf16;
};

/// `x` written out in another shape, or in another type; gradients of repeated heads are summed.
TensorId core_copy(BlockBuilder& block, Place place, TensorId x, TensorForm form);
/// Softmax of the scores in `dtype`; its result is kept.
TensorId core_softmax(BlockBuilder& block, TensorId scores, DType dtype);
/// Dropout inside the core, so that selective recompute drops its mask.
TensorId core_dropout(BlockBuilder& block, double probability, TensorId x);

TensorId scores_of(BlockBuilder& block, const Dimensions& dims, Heads q, Heads k);
TensorId values_of(BlockBuilder& block, const Dimensions& dims, TensorId probabilities, Heads v);

/// Whether a transposed view by heads shows one dimension of batches without a copy.
bool seen_as_batches(const DecoderContext& context);
/// The mixed values as [b, s, a·d]: a transposed copy. A product of batches reads a transposed
/// gradient of one sequence as it is, of several a copy; a cast hands it on transposed.
TensorId join(BlockBuilder& block, const DecoderContext& context, TensorId mixed, bool of_product);

}  // namespace memest
