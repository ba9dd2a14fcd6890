#include "graph/parameters/quantized_parameters.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {

Inventory with_codes(Inventory inventory, const QuantizedWeights& quantized) {
  for (ParameterTensor& tensor : inventory.parameters) {
    // replace_with_bnb_linear() replaces torch.nn.Linear and Conv1D; a tied head's weight is the
    // embedding's and stays.
    tensor.quantized = tensor.role == ParameterRole::matmul && tensor.shape.size() == 2 &&
                       quantizes(quantized, module_of(tensor.name));
  }
  return inventory;
}

std::optional<Unavailable> uneven_groups(const Inventory& inventory,
                                         const QuantizedWeights& quantized) {
  const CodesTogether together = codes_together(quantized);
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.quantized) continue;
    const std::int64_t elements = checked_multiply(tensor.shape[0], tensor.shape[1]);
    if (elements % checked_multiply(quantized.group_size, together.groups) == 0) continue;
    return Unavailable{std::string(together.library) + " cannot keep the " +
                       std::to_string(elements) + " weights of '" + tensor.name +
                       "' in groups of " + std::to_string(quantized.group_size) + " and " +
                       std::string(together.unit) + " of " + std::to_string(together.groups) +
                       std::string(together.of)};
  }
  return std::nullopt;
}

}  // namespace memest
