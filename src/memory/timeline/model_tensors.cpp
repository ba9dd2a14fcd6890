#include "model_tensors.hpp"

#include <cstddef>
#include <numeric>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements = checked_multiply(elements, size);
  return elements;
}

/// Rows that stand more than once and follow each other are layers: all rows of the first, all of
/// the second. A row may stand several times in each (one gain a head).
template <class Row>
std::vector<TensorPlace> one_by_one(const std::vector<Row>& rows) {
  std::vector<TensorPlace> places;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    std::int64_t layers = rows[begin].count;
    if (layers > 1) {
      for (; end < rows.size() && rows[end].count > 1; ++end) {
        layers = std::gcd(layers, rows[end].count);
      }
    }
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::int64_t copies = rows[row].count / layers;
        for (std::int64_t i = 0; i < copies; ++i) {
          places.push_back(
              {static_cast<std::uint32_t>(row), layer * copies + i, elements_of(rows[row].shape)});
        }
      }
    }
    begin = end;
  }
  return places;
}

}  // namespace

std::vector<TensorPlace> parameters_one_by_one(const Inventory& inventory) {
  return one_by_one(inventory.parameters);
}

std::vector<TensorPlace> buffers_one_by_one(const Inventory& inventory) {
  return one_by_one(inventory.buffers);
}

}  // namespace memest
