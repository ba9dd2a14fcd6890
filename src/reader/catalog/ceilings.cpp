// Published ceilings: configs/ceilings.
#include <algorithm>

#include "memest/reader/catalog.hpp"
#include "reader/catalog/catalog_files.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr std::string_view kCeilings = "ceilings/published.yaml";

Ceiling ceiling_of(const Value& row) {
  const Value* rate = row.find("rate");
  const auto flops = as_quantity(rate, Dimension::flop_rate);
  const auto bytes = as_quantity(rate, Dimension::byte_rate);
  return {.gpu = text_at(row, "gpu"),
          .kernel = text_at(row, "kernel"),
          .rate = flops ? *flops : bytes.value_or(0),
          .conditions = text_at(row, "conditions"),
          .source = text_at(row, "source"),
          .license = text_at(row, "license")};
}

}  // namespace

std::vector<Ceiling> find_ceilings(const std::string& gpu_slug) {
  std::vector<Ceiling> all = entries_of(read_embedded(kCeilings), "ceilings", ceiling_of);
  std::erase_if(all, [&gpu_slug](const Ceiling& ceiling) { return ceiling.gpu != gpu_slug; });
  return all;
}

}  // namespace memest
