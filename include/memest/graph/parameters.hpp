// The parameters of a model: every tensor with its shape, and the counts that people quote.
#pragma once

#include <cstdint>

#include "memest/spec/job.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

struct ParameterCounts {
  std::int64_t total = 0;  ///< every parameter once; tied embeddings once
  std::int64_t trainable = 0;
  std::int64_t active = 0;  ///< what one token uses: top-K of the experts
  std::int64_t matmul = 0;  ///< weights of contractions; the output head counts, tied or not, the
                            ///< input embedding does not
  std::int64_t active_matmul = 0;  ///< the same, of the experts the active ones only
  std::int64_t embedding = 0;      ///< the input embedding table
  std::int64_t tensors = 0;        ///< number of parameter tensors
  std::int64_t largest = 0;        ///< elements of the largest tensor
  Bytes buffers;                   ///< rotary tables, masks, statistics, in their own types
};

/// Every parameter and buffer of `model`, named and placed as the classes of `implementation` do it
/// (nanoGPT has its own, all others' are those of transformers). tensors_in_order() lists them one
/// by one. Throws OverflowError.
Inventory parameters_of(const ModelSpec& model, const Implementation& implementation = {});

/// `model` as the class of `implementation` has it, whatever was read: queries, keys and values
/// from one product, an output head of its own.
ModelSpec as_programmed(ModelSpec model, const Implementation& implementation);

/// Bytes of the buffers, each in its type.
Bytes buffer_bytes(const Inventory& inventory);

/// Counts over parameters_of(). Throws OverflowError.
ParameterCounts count_parameters(const ModelSpec& model, const Implementation& implementation = {});
/// As above, of the job's model as its implementation has it.
ParameterCounts count_parameters(const Job& job);

}  // namespace memest
