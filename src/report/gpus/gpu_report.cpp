#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/report/gpus/catalog_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

/// A fact of a GPU, ready for every format.
struct FactRow {
  std::string name;   ///< "memory_bandwidth"
  std::string text;   ///< "3.35 TB/s"
  double number = 0;  ///< in the base unit
  std::string unit;
  Provenance provenance = Provenance::unverified;
  std::string source;
  std::string note;
};

/// How a quantity is shown, and its base unit.
struct Shown {
  std::string text;
  double number;
  const char* unit;
};
Shown shown(Bytes value) { return {sized_text(value), value.as_double(), "B"}; }
Shown shown(BytesPerSecond value) { return {rate_text(value), value.value(), "B/s"}; }
Shown shown(FlopsPerSecond value) { return {rate_text(value), value.value(), "FLOP/s"}; }
Shown shown(Hertz value) {
  return {significant_text(value.value() / 1e6, 4) + " MHz", value.value(), "Hz"};
}
Shown shown(Watts value) { return {significant_text(value.value()) + " W", value.value(), "W"}; }
Shown shown(std::int64_t value) { return {std::to_string(value), static_cast<double>(value), ""}; }

/// "9.0", "gfx90a"; empty where the target is not known.
std::string target_text(const GpuTarget& target) {
  if (const auto* cuda = std::get_if<ComputeCapability>(&target)) {
    return fmt::format("{}.{}", cuda->major, cuda->minor);
  }
  const auto* gfx = std::get_if<GfxTarget>(&target);
  return gfx == nullptr ? "" : fmt::format("gfx{}{:x}{:x}", gfx->major, gfx->minor, gfx->stepping);
}

template <class T>
void add(std::vector<FactRow>& rows, std::string name, const std::optional<Fact<T>>& fact) {
  if (!fact) return;
  const Shown value = shown(fact->value);
  rows.push_back({std::move(name), value.text, value.number, value.unit, fact->provenance,
                  fact->source, fact->note});
}

std::vector<FactRow> facts_of(const GpuSpec& gpu) {
  std::vector<FactRow> rows;
  add(rows, "capacity", std::optional(gpu.capacity));
  add(rows, "memory", gpu.nominal_memory);
  add(rows, "memory_bandwidth", gpu.memory_bandwidth);
  for (const auto& [type, peak] : gpu.peak)
    add(rows, std::string(name_of(type)), std::optional(peak));
  add(rows, "tf32", gpu.tf32_peak);
  add(rows, "multiprocessors", gpu.multiprocessors);
  add(rows, "boost_clock", gpu.boost_clock);
  add(rows, "l2", gpu.l2_cache);
  add(rows, "link_bandwidth", gpu.link_bandwidth);
  add(rows, "link_domain", gpu.link_domain);
  add(rows, "host_link", gpu.host_link);
  add(rows, "pcie_generation", gpu.pcie_generation);
  add(rows, "power", gpu.power);
  add(rows, "context", gpu.context);
  add(rows, "host_memory", gpu.host_memory);
  return rows;
}

const Price* price_of(const GpuSpec& gpu, const std::vector<Price>& prices) {
  const auto found = std::find_if(prices.begin(), prices.end(), [&](const Price& price) {
    return price.gpu == gpu.slug && price.is_default;
  });
  return found == prices.end() ? nullptr : &*found;
}

std::string peak_text(const GpuSpec& gpu) {
  // By what training uses: Volta and Turing have no rate of bf16.
  for (const DType type : {DType::bf16, DType::fp16, DType::fp32}) {
    const auto peak = gpu.peak.find(type);
    if (peak != gpu.peak.end()) {
      return fmt::format("{} {}", name_of(type), rate_text(peak->second.value));
    }
  }
  return "";
}

template <class T>
std::string text_or_empty(const std::optional<Fact<T>>& fact) {
  return fact ? shown(fact->value).text : "";
}

Json json_of(const GpuSpec& gpu, const std::vector<Price>& prices) {
  Json json{{"slug", gpu.slug},
            {"name", gpu.name},
            {"vendor", gpu.vendor},
            {"architecture", gpu.architecture},
            {"compute_capability", target_text(gpu.target)},
            {"aliases", gpu.aliases},
            {"sources", gpu.sources},
            {"facts", Json::object()},
            {"prices", Json::array()}};
  for (const FactRow& fact : facts_of(gpu)) {
    Json entry{{"value", fact.number},
               {"unit", fact.unit},
               {"tag", name_of(fact.provenance)},
               {"source", fact.source},
               {"note", fact.note}};
    // Bytes of a GPU are whole and far below 2^53, so the double holds them exactly.
    if (fact.unit == "B") entry["value"] = static_cast<std::int64_t>(fact.number);
    json["facts"][fact.name] = std::move(entry);
  }
  for (const Price& price : prices) {
    if (price.gpu != gpu.slug) continue;
    json["prices"].push_back({{"usd_per_gpu_hour", price.price.value()},
                              {"provider", price.provider},
                              {"source", price.source},
                              {"date", price.date},
                              {"default", price.is_default}});
  }
  return json;
}

Table records_of(const std::vector<GpuSpec>& gpus) {
  Table table{{{"gpu"}, {"fact"}, {"value"}, {"unit"}, {"tag"}, {"source"}, {"note"}}, {}};
  for (const GpuSpec& gpu : gpus) {
    for (const FactRow& fact : facts_of(gpu)) {
      table.rows.push_back({{gpu.slug, fact.name, exact_text(fact.number), fact.unit,
                             std::string(name_of(fact.provenance)), fact.source, fact.note},
                            "",
                            {}});
    }
  }
  return table;
}

/// The legend of the letters of the facts' sources.
Table source_table(const GpuSpec& gpu) {
  Table table{{{"source"}, {"is"}}, {}};
  for (const auto& [letters, source] : gpu.sources) {
    table.rows.push_back({{letters, source}, "", {}});
  }
  return table;
}

Table price_table(const GpuSpec& gpu, const std::vector<Price>& prices) {
  Table table{{{"USD a GPU-hour", Align::right}, {"provider"}, {"date"}, {"source"}}, {}};
  for (const Price& price : prices) {
    if (price.gpu != gpu.slug) continue;
    table.rows.push_back(
        {{significant_text(price.price.value()), price.provider, price.date, price.source},
         price.is_default ? "▸" : "",
         {}});
  }
  return table;
}

Json json_of(const std::vector<GpuSpec>& gpus, const std::vector<Price>& prices) {
  Json json = new_answer();
  json["gpus"] = Json::array();
  for (const GpuSpec& gpu : gpus) json["gpus"].push_back(json_of(gpu, prices));
  return json;
}

}  // namespace

Report report_gpus(const std::vector<GpuSpec>& gpus, const std::vector<Price>& prices,
                   const Question& question) {
  Table table{{{"GPU"},
               {"architecture"},
               {"capacity, GiB", Align::right},
               {"tag"},
               {"bandwidth", Align::right},
               {"peak", Align::right},
               {"USD/h", Align::right}},
              {}};
  for (const GpuSpec& gpu : gpus) {
    const Price* price = price_of(gpu, prices);
    table.rows.push_back(
        {{gpu.slug, gpu.architecture, gib_text(gpu.capacity.value),
          std::string(name_of(gpu.capacity.provenance)), text_or_empty(gpu.memory_bandwidth),
          peak_text(gpu), price == nullptr ? "" : significant_text(price->price.value())},
         "",
         {}});
  }
  Page page{
      {std::move(table),
       Paragraph{"The tag says where the capacity comes from; prices are USD a GPU-hour. Every "
                 "fact with its source: memest gpus NAME",
                 Tone::plain}}};
  return {std::move(page), records_of(gpus),
          text_for(question, [&] { return json_of(gpus, prices); })};
}

Report report_gpu(const GpuSpec& gpu, const std::vector<Price>& prices) {
  Table facts{{{"fact"}, {"value", Align::right}, {"tag"}, {"source"}, {"note"}}, {}};
  for (const FactRow& fact : facts_of(gpu)) {
    facts.rows.push_back(
        {{fact.name, fact.text, std::string(name_of(fact.provenance)), fact.source, fact.note},
         "",
         {}});
  }
  std::string aliases;
  for (const std::string& alias : gpu.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
  const std::string target = target_text(gpu.target);
  std::string about = fmt::format("{}, {}, compute capability {}", gpu.vendor, gpu.architecture,
                                  target.empty() ? "unknown" : target);
  if (!aliases.empty()) about += "; also " + aliases;
  Page page{
      {Heading{fmt::format("{} · {}", gpu.slug, gpu.name)}, Paragraph{about, Tone::plain}, facts}};
  Table priced = price_table(gpu, prices);
  if (priced.rows.empty()) {
    page.parts.emplace_back(Paragraph{"No price is known.", Tone::plain});
  } else {
    page.parts.emplace_back(std::move(priced));
  }
  if (!gpu.sources.empty()) page.parts.emplace_back(source_table(gpu));
  Json json = new_answer();
  json["gpu"] = json_of(gpu, prices);
  return {std::move(page), records_of({gpu}), text_of(json)};
}

}  // namespace memest
