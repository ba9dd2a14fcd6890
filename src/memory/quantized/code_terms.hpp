// Bytes of weights that are kept as codes.
#pragma once

#include <cstdint>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Bytes that the parameters would take more in the type of the others: of the weights that codes
/// stand for, and of the biases of such layers, which lie in the type of the products.
std::int64_t bytes_without_codes(const Job& job, const Inventory& inventory);

/// Every tensor that stands for those weights, which the job's model has.
LedgerTerm code_term(const Job& job, const Inventory& inventory);

/// Whether `tensor` is the bias of a layer whose weight is kept as codes, which its first forward
/// casts to the type of the product; that of LLM.int8() does not.
bool casts_bias(const QuantizedWeights& quantized, const Inventory& inventory,
                const ParameterTensor& tensor);

}  // namespace memest
