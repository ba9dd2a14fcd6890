#include "memest/reader/residuals.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "memest/diag/expect.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/spec/framework.hpp"
#include "reader/catalog/catalog_files.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr std::string_view kFile = "residuals/memory.yaml";

constexpr std::string_view kHead =
    "# How far estimates were from recorded runs. Written by a command, not by hand:\n"
    "#   memest validate tests/truth/*.records.jsonl* tests/published/runs.records.jsonl.gz \\\n"
    "#     --residuals configs/residuals/memory.yaml\n"
    "# Of the closed form, low: the largest share by which an allocated peak was below it; high: "
    "the\n"
    "# 90th percentile of what was reserved over it. Of the replay: the same of what it reserves. "
    "A\n"
    "# row without an implementation is over all of them and stands for those that have too few\n"
    "# records for a row of their own. Runs on several GPUs are one rank of many; offloading ones\n"
    "# keep a part on the host. Two mixtures of experts of an implementation make a row, and are\n"
    "# in no other.\n"
    "# published: intervals of runs that others published, of any release. Sources (a framework's, "
    "a\n"
    "# GPU's, a year's runs) left out in turn find `held` of their runs in what the others make.\n"
    "# order: what the layout that is predicted fastest lost to the fastest measured, over cells "
    "of "
    "one\n"
    "# model, GPU and count.\n";

std::string_view word_of(RunScale scale) {
  switch (scale) {
    case RunScale::one_gpu:
      return "one";
    case RunScale::several_gpus:
      return "several";
    case RunScale::offloading:
      return "offloading";
    case RunScale::unrecorded:
      return "unrecorded";
  }
  unreachable("every scale of a run has a word");
}

std::string percent_text(double share) {
  std::array<char, 32> digits{};
  const auto end =
      std::to_chars(digits.begin(), digits.end(), 100 * share, std::chars_format::general, 6);
  return std::string(digits.begin(), end.ptr) + " %";
}

Margin margin_of_row(const Value& row) {
  Margin margin;
  margin.low = as_quantity(row.find("low"), Dimension::share).value_or(0);
  margin.high = as_quantity(row.find("high"), Dimension::share).value_or(0);
  margin.records = static_cast<int>(count_at(row, "records"));
  margin.recomputes = flag_at(row, "recomputes");
  const std::string gpus = text_at(row, "gpus");
  for (const RunScale scale : {RunScale::several_gpus, RunScale::offloading}) {
    if (gpus == word_of(scale)) margin.scale = scale;
  }
  margin.compiled = row.find("compiled") != nullptr && flag_at(row, "compiled");
  margin.mixture = row.find("mixture") != nullptr && flag_at(row, "mixture");
  if (text_at(row, "method") == "replay") margin.method = EstimateMethod::replay;
  const std::string name = text_at(row, "implementation");
  for (const Framework implementation : frameworks()) {
    if (name_of(implementation) == name) margin.implementation = implementation;
  }
  if (text_at(row, "layers") == name_of(LayerSpec::te)) margin.layers = LayerSpec::te;
  return margin;
}

}  // namespace

namespace {

/// The rows of the file, in its order.
struct SourceRow {
  std::string_view word;
  SourceMargin SourceMargins::*margin;
};
constexpr std::array kSourceRows = {SourceRow{"step", &SourceMargins::step},
                                    SourceRow{"reserved", &SourceMargins::reserved},
                                    SourceRow{"device", &SourceMargins::device}};

}  // namespace

std::string write_residuals(const std::vector<Margin>& margins, const SourceMargins& published) {
  std::string text(kHead);
  text += "residuals:\n";
  for (const Margin& margin : margins) {
    text += "  - {";
    if (margin.implementation) {
      text += "implementation: " + std::string(name_of(*margin.implementation)) + ", ";
    }
    if (margin.layers == LayerSpec::te) text += "layers: te, ";
    text += std::string("method: ") +
            (margin.method == EstimateMethod::replay ? "replay" : "closed-form") +
            ", gpus: " + std::string(word_of(margin.scale)) +
            ", recomputes: " + (margin.recomputes ? "true" : "false") +
            (margin.compiled ? ", compiled: true" : "") +
            (margin.mixture ? ", mixture: true" : "") +
            ", records: " + std::to_string(margin.records) + ", low: " + percent_text(margin.low) +
            ", high: " + percent_text(margin.high) + "}\n";
  }
  text += "published:\n";
  for (const SourceRow& row : kSourceRows) {
    const SourceMargin& margin = published.*row.margin;
    text += "  - {of: " + std::string(row.word) + ", runs: " + std::to_string(margin.runs) +
            ", publications: " + std::to_string(margin.sources) +
            ", held: " + percent_text(margin.held) + ", low: " + percent_text(margin.low) +
            ", high: " + percent_text(margin.high) + "}\n";
  }
  const OrderMargin& order = published.order;
  text += "order: {cells: " + std::to_string(order.cells) +
          ", layouts: " + std::to_string(order.layouts) +
          ", median_lost: " + percent_text(order.median_lost) +
          ", most_lost: " + percent_text(order.most_lost) + "}\n";
  return text;
}

SourceMargins find_source_margins() {
  SourceMargins found;
  const Value file = read_embedded(kFile);
  for (const Value& row : file.find("published")->items) {
    const auto* const known =
        std::find_if(kSourceRows.begin(), kSourceRows.end(),
                     [&row](const SourceRow& other) { return other.word == text_at(row, "of"); });
    expect(known != kSourceRows.end(), "the file's keys allow no other figure");
    SourceMargin& margin = found.*known->margin;
    const auto share = [&row](std::string_view key) {
      return as_quantity(row.find(key), Dimension::share).value_or(0);
    };
    margin = {.low = share("low"),
              .high = share("high"),
              .runs = static_cast<int>(count_at(row, "runs")),
              .sources = static_cast<int>(count_at(row, "publications")),
              .held = share("held")};
  }
  const Value& order = *file.find("order");
  found.order = {
      .cells = static_cast<int>(count_at(order, "cells")),
      .layouts = static_cast<int>(count_at(order, "layouts")),
      .median_lost = as_quantity(order.find("median_lost"), Dimension::share).value_or(0),
      .most_lost = as_quantity(order.find("most_lost"), Dimension::share).value_or(0)};
  return found;
}

namespace {

/// Where runs with recompute have no row of their own, those without are nearer than other
/// implementations'.
void prefer_own(Margins& margins) {
  if (margins.kept.implementation && !margins.recomputed.implementation) {
    margins.recomputed = margins.kept;
  }
}

}  // namespace

namespace {

/// Widens `widest` to the ends that reach farthest over all runs of a kind.
void widen(MethodMargins& widest, const Margin& margin) {
  Margins& margins = margin.method == EstimateMethod::replay ? widest.replay : widest.closed_form;
  Margin& kept = margin.recomputes ? margins.recomputed : margins.kept;
  const double low = std::max(kept.low, margin.low);
  const double high = std::max(kept.high, margin.high);
  if (!margin.implementation) kept = margin;
  kept.scale = RunScale::unrecorded;
  kept.low = low;
  kept.high = high;
}

}  // namespace

ScaledMargins find_margins(const Implementation& implementation, bool mixture) {
  const LayerSpec layers = implementation.layers;
  const bool compiled = implementation.is_compiled_or_captured();
  ScaledMargins found;
  MethodMargins& unrecorded = found[static_cast<std::size_t>(RunScale::unrecorded)];
  const Value file = read_embedded(kFile);
  for (const Value& row : file.find("residuals")->items) {
    const Margin margin = margin_of_row(row);
    if (margin.scale == RunScale::several_gpus && !margin.compiled) widen(unrecorded, margin);
    // Its own row stands after that of all.
    if (margin.implementation && margin.implementation != implementation.framework) continue;
    if (margin.implementation && margin.layers != layers) continue;
    if ((margin.compiled && !compiled) || (margin.mixture && !mixture)) continue;
    const auto last = static_cast<std::size_t>(RunScale::offloading);
    for (auto scale = static_cast<std::size_t>(margin.scale); scale <= last; ++scale) {
      MethodMargins& methods = found[scale];
      const bool replays = margin.method == EstimateMethod::replay;
      Margins& margins = replays ? methods.replay : methods.closed_form;
      (margin.recomputes ? margins.recomputed : margins.kept) = margin;
    }
  }
  if (layers != LayerSpec::te) return found;
  for (std::size_t scale = 0; scale < kRunScales; ++scale) {
    if (scale == static_cast<std::size_t>(RunScale::unrecorded)) continue;
    prefer_own(found[scale].closed_form);
    prefer_own(found[scale].replay);
  }
  return found;
}

}  // namespace memest
