#include "memest/spec/inventory.hpp"

#include <algorithm>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

bool same_row(const ParameterTensor& left, const ParameterTensor& right) {
  return left.name == right.name && left.shape == right.shape && left.role == right.role &&
         left.active_numerator == right.active_numerator &&
         left.active_denominator == right.active_denominator &&
         left.output_head == right.output_head && left.trainable == right.trainable;
}

bool same_row(const BufferTensor& left, const BufferTensor& right) {
  return left.name == right.name && left.shape == right.shape && left.dtype == right.dtype;
}

template <class Tensor>
void add_to(std::vector<Tensor>& rows, Tensor tensor) {
  if (tensor.count == 0) return;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Tensor& other) { return same_row(other, tensor); });
  if (row == rows.end()) {
    rows.push_back(std::move(tensor));
  } else {
    row->count = checked_add(row->count, tensor.count);
  }
}

}  // namespace

void InventoryBuilder::add(ParameterTensor tensor) {
  add_to(inventory_.parameters, std::move(tensor));
}

void InventoryBuilder::add(BufferTensor tensor) { add_to(inventory_.buffers, std::move(tensor)); }

void InventoryBuilder::projection(const std::string& name, const Projection& shape,
                                  std::int64_t count) {
  add(ParameterTensor{.name = name + ".weight", .shape = {shape.out, shape.in}, .count = count});
  if (!shape.bias) return;
  add(ParameterTensor{
      .name = name + ".bias", .shape = {shape.out}, .role = ParameterRole::bias, .count = count});
}

void InventoryBuilder::layer_norm(const std::string& name, std::int64_t size, std::int64_t count) {
  rms_norm(name, size, count);
  add(ParameterTensor{
      .name = name + ".bias", .shape = {size}, .role = ParameterRole::norm, .count = count});
}

void InventoryBuilder::rms_norm(const std::string& name, std::int64_t size, std::int64_t count) {
  add(ParameterTensor{
      .name = name + ".weight", .shape = {size}, .role = ParameterRole::norm, .count = count});
}

void InventoryBuilder::embedding(const std::string& name, std::int64_t rows, std::int64_t size) {
  add(ParameterTensor{
      .name = name + ".weight", .shape = {rows, size}, .role = ParameterRole::embedding});
}

Inventory InventoryBuilder::take() && { return std::move(inventory_); }

}  // namespace memest
