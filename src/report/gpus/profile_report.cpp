#include "memest/report/gpus/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "memest/report/numbers.hpp"
#include "memest/spec/gpu/law_parameters.hpp"
#include "memest/spec/gpu/margin.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

std::string name_of_kind(const MatmulKind& kind) {
  std::string name = fmt::format("matmul {}", kind.tensor_float ? "tf32" : name_of(kind.operand));
  if (kind.scaling != OperandScaling::none) name += fmt::format(" {}", name_of(kind.scaling));
  return kind.cast_included ? name + ", with cast" : name;
}
std::string name_of_kind(const AttentionKind& kind) {
  return fmt::format("attention {} {}{}{}", name_of(kind.dtype), name_of(kind.pass),
                     kind.causal ? ", causal" : "", kind.kernel.empty() ? "" : ", " + kind.kernel);
}
std::string name_of_kind(const StreamKind& kind) {
  return fmt::format("{} {} {}", name_of(kind.op), name_of(kind.dtype), name_of(kind.pass));
}
std::string name_of_kind(const CollectiveKind& kind) {
  return fmt::format("{}, {} GPUs", name_of(kind.op), kind.gpus);
}
std::string name_of_kind(TransferPath path) { return std::string(name_of(path)); }
std::string name_of_kind(LaunchPath path) { return fmt::format("launch, {}", name_of(path)); }

/// A law at a glance.
std::string gist_of(const MatmulLaw& law) {
  // A call that takes 1 + loss times as long has 1 / (1 + loss) of the rate.
  const double loss = law.product.power_loss * law.product.sustained_load;
  return fmt::format("{} of the peak, {} less under load", percent_text(law.product.peak_share),
                     percent_text(loss / (1 + loss)));
}
std::string gist_of(const AttentionLaw& law) {
  return fmt::format("{} of the peak", percent_text(law.peak_share));
}
std::string gist_of(const StreamLaw& law) {
  return fmt::format("{} of the bandwidth", percent_text(law.bandwidth_share));
}
std::string gist_of(const CollectiveLaw& law) {
  return fmt::format("{} GB/s, {} at least", significant_text(law.bandwidth / 1e9, 3),
                     seconds_text(Seconds(law.latency)));
}
std::string gist_of(const TransferLaw& law) {
  return fmt::format("{} GB/s, {} at least", significant_text(law.bandwidth / 1e9, 3),
                     seconds_text(Seconds(law.latency)));
}
std::string gist_of(const LaunchLaw& law) { return seconds_text(Seconds(law.seconds)); }

std::string signed_percent(double share) { return (share > 0 ? "+" : "") + percent_text(share); }

/// Calls `use(fit)` for every fit of the profile.
template <class Use>
void for_each_fit(const GpuProfile& profile, const Use& use) {
  const auto all = [&use](const auto& fits) {
    for (const auto& fit : fits) use(fit);
  };
  all(profile.matmuls);
  all(profile.attentions);
  all(profile.streams);
  all(profile.collectives);
  all(profile.transfers);
  all(profile.launches);
}

Table laws_table(const GpuProfile& profile) {
  Table table{{{"kernel"},
               {"law"},
               {"known by"},
               {"fitted to", Align::right},
               {"tested on", Align::right},
               {"mean error", Align::right},
               {"bias", Align::right}},
              {}};
  for_each_fit(profile, [&table](const auto& fit) {
    const LawResiduals& residuals = fit.residuals;
    table.rows.push_back(
        {{name_of_kind(fit.kind), gist_of(fit.law), std::string(name_of(fit.provenance)),
          grouped(residuals.fitted), grouped(residuals.tested),
          percent_text(residuals.mean_absolute), signed_percent(residuals.bias)},
         "",
         Tone::plain});
  });
  return table;
}

/// Errors of one kind of call.
struct KindErrors {
  std::int64_t predicted = 0;
  std::int64_t without_law = 0;
  std::vector<double> distances;
  double predicted_sum = 0;
  double measured_sum = 0;

  void add(const PredictedSample& sample) {
    if (!sample.predicted) {
      ++without_law;
      return;
    }
    ++predicted;
    const double ratio = sample.predicted->value() / sample.sample.seconds.value();
    distances.push_back(std::abs(ratio - 1));
    predicted_sum += sample.predicted->value();
    measured_sum += sample.sample.seconds.value();
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double distance : distances) sum += distance;
    return sum / static_cast<double>(distances.size());
  }
  [[nodiscard]] double bias() const { return predicted_sum / measured_sum - 1; }
};

using ErrorsByKind = std::map<std::string, KindErrors>;

ErrorsByKind errors_of(const std::vector<PredictedSample>& samples) {
  ErrorsByKind errors;
  for (const PredictedSample& sample : samples) {
    const std::string kind = std::visit(
        [](const auto& shape) { return name_of_kind(kind_of(shape)); }, sample.sample.shape);
    errors[kind].add(sample);
  }
  return errors;
}

Table errors_table(const ErrorsByKind& errors) {
  Table table{{{"against the samples"},
               {"predicted", Align::right},
               {"no law", Align::right},
               {"mean error", Align::right},
               {"p90", Align::right},
               {"bias", Align::right}},
              {}};
  for (const auto& [kind, row] : errors) {
    std::vector<std::string> cells = {kind, grouped(row.predicted), grouped(row.without_law)};
    if (row.predicted > 0) {
      cells.push_back(percent_text(row.mean()));
      cells.push_back(percent_text(quantile(row.distances, 0.9)));
      cells.push_back(signed_percent(row.bias()));
    } else {
      cells.insert(cells.end(), 3, "–");
    }
    table.rows.push_back({std::move(cells), "", Tone::plain});
  }
  return table;
}

std::string origin_sentence(const GpuProfile& profile, const GpuSpec& gpu) {
  const ProfileOrigin& origin = profile.origin;
  std::string sentence = fmt::format("{}, samples under {} load", gpu.name, name_of(profile.load));
  if (!origin.date.empty()) sentence += ", " + origin.date;
  if (!origin.device.empty()) sentence += fmt::format(", {}", origin.device);
  if (!origin.driver.empty()) sentence += fmt::format(", driver {}", origin.driver);
  return sentence + ".";
}

Json json_of(const GpuProfile& profile, const ErrorsByKind& errors, const Question& question) {
  Json json = {
      {"format_version", kFormatVersion}, {"memest", question.version}, {"gpu", profile.gpu},
      {"load", name_of(profile.load)},    {"laws", Json::array()},      {"errors", Json::array()}};
  for_each_fit(profile, [&json](const auto& fit) {
    json["laws"].push_back({{"kernel", name_of_kind(fit.kind)},
                            {"provenance", name_of(fit.provenance)},
                            {"fitted", fit.residuals.fitted},
                            {"tested", fit.residuals.tested},
                            {"mean_absolute", fit.residuals.mean_absolute},
                            {"bias", fit.residuals.bias},
                            {"low", fit.residuals.low},
                            {"high", fit.residuals.high}});
  });
  for (const auto& [kind, row] : errors) {
    Json entry = {{"kernel", kind}, {"predicted", row.predicted}, {"no_law", row.without_law}};
    if (row.predicted > 0) {
      entry["mean_absolute"] = row.mean();
      entry["p90"] = quantile(row.distances, 0.9);
      entry["bias"] = row.bias();
    }
    json["errors"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Report report_profile(const GpuProfile& profile, const GpuSpec& gpu,
                      const std::vector<PredictedSample>& samples, const Question& question) {
  Report report;
  report.page.parts.emplace_back(Heading{profile.gpu});
  report.page.parts.emplace_back(Paragraph{origin_sentence(profile, gpu)});
  report.records = laws_table(profile);
  if (report.records.rows.empty()) {
    report.page.parts.emplace_back(
        Paragraph{"It holds no law: no kind of kernel has the samples that one takes."});
  } else {
    report.page.parts.emplace_back(report.records);
  }
  const ErrorsByKind errors = errors_of(samples);
  if (!samples.empty()) {
    report.records = errors_table(errors);
    report.page.parts.emplace_back(report.records);
  }
  report.json = text_for(question, [&] { return json_of(profile, errors, question); });
  return report;
}

}  // namespace memest
