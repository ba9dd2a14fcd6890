// A GPU's file as a GpuSpec.
#include <array>
#include <string_view>

#include "reader/catalog/catalog_files.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

Provenance provenance_of(const Value& fact) {
  static constexpr std::array kProvenances = {
      Provenance::measured, Provenance::public_,   Provenance::datasheet, Provenance::computed,
      Provenance::disputed, Provenance::estimated, Provenance::unverified};
  const std::string tag = text_at(fact, "tag");
  for (const Provenance provenance : kProvenances) {
    if (name_of(provenance) == tag) return provenance;
  }
  unreachable("a tag that the file's check accepts");
}

template <class T>
std::optional<Fact<T>> fact_of(const Value* fact, std::optional<T> value) {
  if (fact == nullptr || !value) return {};
  return Fact<T>{*value, provenance_of(*fact), text_at(*fact, "source"), text_at(*fact, "note")};
}

const Value* value_of(const Value* fact) { return fact == nullptr ? nullptr : fact->find("value"); }

std::optional<Fact<Bytes>> bytes_at(const Value& facts, std::string_view key) {
  const Value* fact = facts.find(key);
  return fact_of(fact, as_bytes(value_of(fact)));
}

std::optional<Fact<std::int64_t>> count_fact_at(const Value& facts, std::string_view key) {
  const Value* fact = facts.find(key);
  return fact_of(fact, as_count(value_of(fact)));
}

template <class Rate>
std::optional<Fact<Rate>> rate_at(const Value& facts, std::string_view key, Dimension dimension) {
  const Value* fact = facts.find(key);
  const std::optional<double> value = as_quantity(value_of(fact), dimension);
  return fact_of(fact, value ? std::optional(Rate(*value)) : std::nullopt);
}

}  // namespace

GpuSpec gpu_of_file(const Value& file) {
  const Value& facts = *file.find("facts");
  GpuSpec gpu;
  gpu.slug = text_at(file, "slug");
  gpu.name = text_at(file, "name");
  gpu.vendor = text_at(file, "vendor");
  gpu.architecture = text_at(file, "architecture");
  gpu.target = as_target(file.find("compute_capability")).value_or(GpuTarget{});
  if (const Value* aliases = file.find("aliases")) {
    for (const Value& alias : aliases->items) gpu.aliases.push_back(alias.text);
  }
  if (const Value* sources = file.find("sources")) {
    for (const Member& source : sources->members) gpu.sources[source.key] = source.value.text;
  }
  gpu.capacity = bytes_at(facts, "capacity").value_or(Fact<Bytes>{});
  gpu.nominal_memory = bytes_at(facts, "memory");
  gpu.l2_cache = bytes_at(facts, "l2");
  gpu.context = bytes_at(facts, "context");
  gpu.host_memory = bytes_at(facts, "host_memory");
  if (const Value* context = facts.find("context")) {
    const std::optional<Bytes> low = as_bytes(context->find("low"));
    const std::optional<Bytes> high = as_bytes(context->find("high"));
    if (low && high) gpu.context_range = BytesRange{*low, *high};
  }
  gpu.memory_bandwidth = rate_at<BytesPerSecond>(facts, "memory_bandwidth", Dimension::byte_rate);
  gpu.link_bandwidth = rate_at<BytesPerSecond>(facts, "link_bandwidth", Dimension::byte_rate);
  gpu.host_link = rate_at<BytesPerSecond>(facts, "host_link", Dimension::byte_rate);
  for (const DType type :
       {DType::fp32, DType::bf16, DType::fp16, DType::fp8, DType::fp4, DType::int8}) {
    const auto peak = rate_at<FlopsPerSecond>(facts, name_of(type), Dimension::flop_rate);
    if (peak) gpu.peak.emplace(type, *peak);
  }
  gpu.tf32_peak = rate_at<FlopsPerSecond>(facts, "tf32", Dimension::flop_rate);
  gpu.link_domain = count_fact_at(facts, "link_domain");
  gpu.multiprocessors = count_fact_at(facts, "sms");
  gpu.pcie_generation = count_fact_at(facts, "pcie_generation");
  gpu.boost_clock = rate_at<Hertz>(facts, "boost_clock", Dimension::clock);
  gpu.power = rate_at<Watts>(facts, "power", Dimension::power);
  return gpu;
}

}  // namespace memest
