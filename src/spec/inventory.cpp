#include "memest/spec/inventory.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

bool same_row(const ParameterTensor& left, const ParameterTensor& right) {
  return left.name == right.name && left.shape == right.shape && left.role == right.role &&
         left.active_numerator == right.active_numerator &&
         left.active_denominator == right.active_denominator &&
         left.output_head == right.output_head && left.trainable == right.trainable &&
         left.unread == right.unread && left.expert_parallel == right.expert_parallel &&
         left.te_linear == right.te_linear && left.copied == right.copied &&
         left.module == right.module;
}

bool same_row(const BufferTensor& left, const BufferTensor& right) {
  return left.name == right.name && left.shape == right.shape && left.dtype == right.dtype &&
         left.rotary_frequencies == right.rotary_frequencies;
}

}  // namespace

std::string_view module_of(std::string_view tensor) { return tensor.substr(0, tensor.rfind('.')); }

void InventoryBuilder::repeat(std::int64_t times) {
  inventory_.placement.push_back({.repeat = times, .steps = {}});
}

void InventoryBuilder::repeat_layer(std::int64_t times) {
  inventory_.placement.push_back({.repeat = times, .layers = true, .steps = {}});
}

template <class Tensor>
void InventoryBuilder::add_to(std::vector<Tensor>& rows, Tensor tensor) {
  if (tensor.count == 0) return;
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Tensor& other) { return same_row(other, tensor); });
  const auto row = static_cast<std::size_t>(found - rows.begin());
  if (!inventory_.placement.empty()) {
    PlacementRun& run = inventory_.placement.back();
    run.steps.push_back({std::is_same_v<Tensor, BufferTensor>, row, tensor.count});
    tensor.count = checked_multiply(tensor.count, run.repeat);
  }
  if (row == rows.size()) {
    rows.push_back(std::move(tensor));
  } else {
    rows[row].count = checked_add(rows[row].count, tensor.count);
  }
}

void InventoryBuilder::add(ParameterTensor tensor) {
  add_to(inventory_.parameters, std::move(tensor));
}

void InventoryBuilder::add(BufferTensor tensor) { add_to(inventory_.buffers, std::move(tensor)); }

void InventoryBuilder::projection(const std::string& name, const Projection& shape,
                                  std::int64_t count) {
  add(ParameterTensor{.name = name + ".weight",
                      .shape = {shape.out, shape.in},
                      .count = count,
                      .te_linear = shape.te_linear,
                      .module = shape.module});
  if (!shape.bias) return;
  add(ParameterTensor{.name = name + ".bias",
                      .shape = {shape.out},
                      .role = ParameterRole::bias,
                      .count = count,
                      .module = shape.module});
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

namespace {

/// Elements of the parameters, all copies of them, that `counts` says.
template <class Counts>
std::int64_t elements_of(const Inventory& inventory, const Counts& counts) {
  std::int64_t elements = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!counts(tensor)) continue;
    std::int64_t of_row = tensor.count;
    for (const std::int64_t size : tensor.shape) of_row = checked_multiply(of_row, size);
    elements = checked_add(elements, of_row);
  }
  return elements;
}

}  // namespace

std::int64_t te_linear_elements(const Inventory& inventory) {
  return elements_of(inventory, [](const ParameterTensor& tensor) { return tensor.te_linear; });
}

std::int64_t trained_te_elements(const Inventory& inventory) {
  return elements_of(inventory, [](const ParameterTensor& tensor) {
    return tensor.te_linear && tensor.trainable;
  });
}

std::int64_t coded_elements(const Inventory& inventory) {
  return elements_of(inventory, [](const ParameterTensor& tensor) { return tensor.quantized; });
}

Inventory sharded_by_rows(Inventory inventory, const Parallelism& parallelism) {
  for (ParameterTensor& row : inventory.parameters) {
    if (row.expert_parallel && parallelism.cuts_columns(row.shape.front() * parallelism.expert)) {
      row.shape[1] /= parallelism.expert_shard_ranks();
      continue;
    }
    const std::int64_t ranks =
        row.expert_parallel ? parallelism.expert_shard_ranks() : parallelism.shard_ranks();
    // FSDP2's Shard(0) chunks like torch.chunk: rank 0 has ⌈rows / ranks⌉, 10 rows over 4 ranks 3,
    // and the last ones fewer or none (_fsdp_param.py pads all to rank 0's size).
    if (!row.shape.empty()) row.shape.front() = (row.shape.front() + ranks - 1) / ranks;
  }
  return inventory;
}

std::vector<PlacedTensor> tensors_in_order(const Inventory& inventory) {
  std::vector<PlacedTensor> tensors;
  // Rows may return in a later run: their copies go on from where they were.
  std::vector<std::int64_t> placed[2] = {std::vector<std::int64_t>(inventory.parameters.size()),
                                         std::vector<std::int64_t>(inventory.buffers.size())};
  std::int64_t layers = 0;
  std::int64_t layer = 0;
  const auto place = [&](const PlacementStep& step) {
    std::int64_t& copy = placed[step.buffer ? 1 : 0][step.row];
    for (std::int64_t i = 0; i < step.count; ++i) {
      tensors.push_back({step.buffer, step.row, copy++, layer});
    }
  };
  for (const PlacementRun& run : inventory.placement) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      layer = run.layers ? ++layers : 0;
      std::for_each(run.steps.begin(), run.steps.end(), place);
    }
  }
  if (!inventory.placement.empty()) return tensors;
  for (std::size_t row = 0; row < inventory.parameters.size(); ++row) {
    place({false, row, inventory.parameters[row].count});
  }
  for (std::size_t row = 0; row < inventory.buffers.size(); ++row) {
    place({true, row, inventory.buffers[row].count});
  }
  return tensors;
}

}  // namespace memest
