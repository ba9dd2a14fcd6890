#include "reader/hf/inventory_config.hpp"

#include <algorithm>
#include <utility>

#include "reader/hf/decoder_config.hpp"

namespace memest::hf {

const HeadRow& choose_head(ConfigReader& config, std::span<const HeadRow> rows) {
  const std::string architecture = read_architecture(config);
  if (architecture.empty()) return rows.front();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const HeadRow& candidate) {
    return architecture.ends_with(candidate.suffix);
  });
  if (row != rows.end()) return *row;
  std::string known;
  for (const HeadRow& candidate : rows) {
    known += (known.empty() ? "..." : ", ...") + std::string(candidate.suffix);
  }
  config.error({"architectures"}, "unknown class '" + architecture + "'", "known are " + known);
  return rows.front();
}

void check_heads(ConfigReader& config, Keys keys, std::int64_t hidden, std::int64_t heads) {
  whole_head_dim(config, keys, hidden, heads);
}

void write_layers(InventoryBuilder& inventory, const std::string& prefix, const LayerNames& names,
                  const LayerSizes& sizes) {
  const auto [hidden, ffn, layers] = sizes;
  const Projection square{hidden, hidden, true};
  for (const std::string_view name : {names.q, names.k, names.v, names.output}) {
    inventory.projection(prefix + std::string(name), square, layers);
  }
  inventory.layer_norm(prefix + std::string(names.first_norm), hidden, layers);
  inventory.projection(prefix + std::string(names.up), {ffn, hidden, true}, layers);
  inventory.projection(prefix + std::string(names.down), {hidden, ffn, true}, layers);
  inventory.layer_norm(prefix + std::string(names.second_norm), hidden, layers);
}

void write_other(InventoryBuilder& inventory, std::string name, std::vector<std::int64_t> shape,
                 std::int64_t count) {
  inventory.add(ParameterTensor{.name = std::move(name),
                                .shape = std::move(shape),
                                .role = ParameterRole::other,
                                .count = count});
}

void write_kernel(InventoryBuilder& inventory, const std::string& name,
                  std::vector<std::int64_t> shape, std::int64_t count) {
  inventory.add(
      ParameterTensor{.name = name + ".weight", .shape = std::move(shape), .count = count});
}

void write_bias(InventoryBuilder& inventory, const std::string& name, std::int64_t size,
                std::int64_t count) {
  inventory.add(ParameterTensor{
      .name = name + ".bias", .shape = {size}, .role = ParameterRole::bias, .count = count});
}

void write_token_table(InventoryBuilder& inventory, const std::string& name,
                       std::vector<std::int64_t> shape, bool output_head) {
  inventory.add(ParameterTensor{.name = name + ".weight",
                                .shape = std::move(shape),
                                .role = ParameterRole::embedding,
                                .output_head = output_head});
}

}  // namespace memest::hf
