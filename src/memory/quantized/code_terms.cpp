#include "memory/quantized/code_terms.hpp"

#include <algorithm>
#include <string>

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"
#include "memory/quantized/code_placement.hpp"
#include "memory/quantized/coded_shares.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

std::string rule_of(const QuantizedWeights& quantized) {
  const WeightFormatRow& format = row_of(quantized.format);
  const std::string codes = std::to_string(format.bits) + " bits an element";
  const std::string group = " a group of " + std::to_string(quantized.group_size);
  if (format.format == WeightFormat::int8) return codes + ", 4 B a channel of its result";
  if (format.of_hqq()) return codes + ", a scale and a zero point" + group;
  if (format.of_torchao()) {
    return codes + ", 1 B" + group + ", a number a block of 256 of those, 17 numbers a tensor";
  }
  if (!quantized.double_quant) return codes + ", 4 B" + group + ", 64 B a tensor";
  return codes + ", 1 B" + group + ", 4 B a block of 256 of those, 1,092 B a tensor, and 1,024 B";
}

const char* source_of(const WeightFormatRow& format) {
  if (format.of_hqq()) return "HQQ 0.2.8: HQQLinear's W_q and meta";
  if (format.of_torchao()) return "torchao 0.13: NF4Tensor";
  if (format.format == WeightFormat::int8) return "bitsandbytes 0.50: Int8Params' CB and SCB";
  return "bitsandbytes 0.50: Params4bit and QuantState";
}

}  // namespace

bool casts_bias(const QuantizedWeights& quantized, const Inventory& inventory,
                const ParameterTensor& tensor) {
  if (quantized.format == WeightFormat::int8 || tensor.role != ParameterRole::bias) return false;
  return std::ranges::any_of(inventory.parameters, [&](const ParameterTensor& other) {
    return other.quantized && module_of(other.name) == module_of(tensor.name);
  });
}

std::int64_t bytes_without_codes(const Job& job, const Inventory& inventory) {
  const Recipe& recipe = job.forward()->recipe;
  const std::int64_t whole = size_of(recipe.weights);
  std::int64_t bytes = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    const std::int64_t each = tensor.quantized ? whole
                              : casts_bias(*job.model.quantized, inventory, tensor)
                                  ? whole - size_of(recipe.compute)
                                  : 0;
    const std::int64_t elements = checked_multiply(elements_of(tensor), tensor.count);
    bytes = checked_add(bytes, checked_multiply(elements, each));
  }
  return bytes;
}

LedgerTerm code_term(const Job& job, const Inventory& inventory) {
  const QuantizedWeights& quantized = *job.model.quantized;
  std::int64_t bytes = bytes_of_process(quantized);
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.quantized) continue;
    bytes = checked_add(bytes, checked_multiply(stored_bytes_of_rank(job, tensor), tensor.count));
  }
  const WeightFormatRow& format = row_of(quantized.format);
  return {"quantised weights (" + std::string(format.word) + ")", TermGroup::weights, Expr(bytes),
          source_of(format), rule_of(quantized)};
}

}  // namespace memest
