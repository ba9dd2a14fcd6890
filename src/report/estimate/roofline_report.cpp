#include "memest/report/roofline_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "memest/report/numbers.hpp"
#include "report/pages/json.hpp"
#include "report/pages/replaced.hpp"
#include "report/pages/svg.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

// Pixels.
constexpr double kWidth = 900;
constexpr double kHeight = 600;
constexpr double kMargin = 100;
/// Decades of FLOP/s below the peak that are drawn.
constexpr int kDecades = 4;
/// FLOPs a byte, as powers of ten: from next to none to attention over a long sequence.
constexpr int kLowIntensity = 0;
constexpr int kHighIntensity = 5;

struct Roof {
  double bandwidth = 0;
  double peak = 0;

  [[nodiscard]] double at(double intensity) const { return std::min(peak, intensity * bandwidth); }
};

Roof roof_of(const Job& job, const TimeEstimate& time) {
  const double bandwidth = job.hardware.gpu.memory_bandwidth->value.value();
  return {bandwidth, bandwidth * time.ridge_point};
}

/// Share of its roof that an operation reaches; of the bandwidth where it counts no FLOPs.
double share_of_roof(const OpTime& op, const Roof& roof) {
  const double seconds = op.seconds.value();
  // Left of the ridge the roof is intensity times bandwidth, so the share is one of the bandwidth;
  // right of it one of the peak.
  if (op.flops > 0) return op.flops / seconds / roof.at(op.flops / op.bytes);
  return op.bytes / seconds / roof.bandwidth;
}

std::string reached_text(const OpTime& op) {
  const double seconds = op.seconds.value();
  return op.flops > 0 ? rate_text(FlopsPerSecond(op.flops / seconds))
                      : rate_text(BytesPerSecond(op.bytes / seconds));
}

std::string name_of(const OpTime& op) { return fmt::format("{} {}", op.block, op.op); }

/// Those that read or write device memory, so no collective. The steps that a framework writes one
/// operation as are one again, but for the products among them.
std::vector<OpTime> kernels_of(const TimeEstimate& time) {
  std::vector<OpTime> kernels;
  for (const OpTime& op : time.ops) {
    if (op.bytes <= 0) continue;
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&op](const OpTime& other) {
      return other.block == op.block && other.op == op.op && (other.flops > 0) == (op.flops > 0);
    });
    if (same == kernels.end()) {
      kernels.push_back(op);
      continue;
    }
    same->seconds += op.seconds;
    same->flops += op.flops;
    same->bytes += op.bytes;
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const OpTime& left, const OpTime& right) {
    return left.seconds > right.seconds;
  });
  return kernels;
}

Table table_of(const TimeEstimate& time, const Roof& roof) {
  Table table{{{"operation"},
               {"FLOP/B", Align::right},
               {"bound by"},
               {"reaches", Align::right},
               {"of its roof", Align::right},
               {"seconds", Align::right},
               {"of the step", Align::right}},
              {}};
  for (const OpTime& op : kernels_of(time)) {
    table.rows.push_back(
        {{name_of(op), significant_text(op.flops / op.bytes), std::string(name_of(op.bound)),
          reached_text(op), percent_text(share_of_roof(op, roof)), seconds_text(op.seconds),
          percent_text(op.seconds / time.step)},
         "",
         Tone::plain});
  }
  return table;
}

Json json_of(const Job& job, const TimeEstimate& time, const Question& question) {
  const Roof roof = roof_of(job, time);
  Json json = {{"format_version", kFormatVersion},     {"memest", question.version},
               {"gpu", job.hardware.gpu.slug},         {"peak_flops_per_second", roof.peak},
               {"bytes_per_second", roof.bandwidth},   {"ridge_point", time.ridge_point},
               {"provenance", text_of(time.origin())}, {"operations", Json::array()}};
  for (const OpTime& op : kernels_of(time)) {
    json["operations"].push_back({{"name", name_of(op)},
                                  {"class", name_of(op.op_class)},
                                  {"bound", name_of(op.bound)},
                                  {"flops", op.flops},
                                  {"bytes", op.bytes},
                                  {"seconds", op.seconds.value()},
                                  {"share_of_roof", share_of_roof(op, roof)}});
  }
  return json;
}

/// Both axes in powers of ten.
class Axes {
 public:
  explicit Axes(const Roof& roof)
      : high_(static_cast<int>(std::ceil(std::log10(roof.peak)))), low_(high_ - kDecades) {}

  [[nodiscard]] double x(double intensity) const {
    const double share = (std::log10(intensity) - kLowIntensity) / (kHighIntensity - kLowIntensity);
    return kMargin + std::clamp(share, 0.0, 1.0) * (kWidth - 2 * kMargin);
  }
  [[nodiscard]] double y(double rate) const {
    const double share = (std::log10(rate) - low_) / (high_ - low_);
    return kHeight - kMargin - std::clamp(share, 0.0, 1.0) * (kHeight - 2 * kMargin);
  }

  [[nodiscard]] std::string frame() const {
    std::string out;
    for (int power = kLowIntensity; power <= kHighIntensity; ++power) {
      const double at = x(std::pow(10, power));
      out += svg_line({at, kMargin, at, kHeight - kMargin}, "#ddd");
      out += svg_text(at, kHeight - kMargin + 18, "middle", significant_text(std::pow(10, power)));
    }
    for (int power = low_; power <= high_; ++power) {
      const double at = y(std::pow(10, power));
      out += svg_line({kMargin, at, kWidth - kMargin, at}, "#ddd");
      out += svg_text(kMargin - 6, at + 4, "end", rate_text(FlopsPerSecond(std::pow(10, power))));
    }
    return out + svg_text(kWidth / 2, kHeight - kMargin + 40, "middle", "FLOPs a byte");
  }

 private:
  int high_;
  int low_;
};

/// Its area is its share of the step; the pointer over it tells which it is.
std::string mark_of(const OpTime& op, const TimeEstimate& time, const Axes& axes) {
  constexpr double kLargest = 30;
  // An area that is the share needs a radius that is its root: 4 % of the step has a fifth of the
  // largest radius.
  const double radius = std::max(2.0, kLargest * std::sqrt(op.seconds / time.step));
  const std::string title = fmt::format("{}: {} FLOP/B, {}, {} of the step", name_of(op),
                                        significant_text(op.flops / op.bytes), reached_text(op),
                                        percent_text(op.seconds / time.step));
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" fill-opacity=\"0.5\">"
      "<title>{}</title></circle>\n",
      axes.x(op.flops / op.bytes), axes.y(op.flops / op.seconds.value()), radius,
      kSvgColors[static_cast<std::size_t>(op.op_class) % kSvgColors.size()], xml(title));
}

}  // namespace

Report report_roofline(const Job& job, const TimeEstimate& time, const Question& question) {
  const Roof roof = roof_of(job, time);
  Report report;
  report.page.parts.emplace_back(Heading{"Roofline"});
  report.page.parts.emplace_back(Paragraph{
      fmt::format("{} {} and {} meet at {} FLOP/B: what moves more for its FLOPs is bound by "
                  "memory, what moves less by compute.",
                  job.hardware.gpu.name + ":", rate_text(FlopsPerSecond(roof.peak)),
                  rate_text(BytesPerSecond(roof.bandwidth)), significant_text(time.ridge_point)),
      Tone::strong});
  report.records = table_of(time, roof);
  report.page.parts.emplace_back(report.records);
  report.page.parts.emplace_back(Paragraph{
      fmt::format(
          "FLOPs and bytes of all passes of a step, over the time that is expected of them. "
          "Rates: {}.",
          time.rule),
      Tone::faint});
  report.page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  report.json = text_for(question, [&] { return json_of(job, time, question); });
  return report;
}

std::string roofline_svg(const Job& job, const TimeEstimate& time) {
  const Roof roof = roof_of(job, time);
  const Axes axes(roof);
  std::string body = axes.frame();
  const double low = std::pow(10, kLowIntensity);
  const double high = std::pow(10, kHighIntensity);
  body += svg_line({axes.x(low), axes.y(roof.at(low)), axes.x(time.ridge_point), axes.y(roof.peak)},
                   "#444");
  body += svg_line({axes.x(time.ridge_point), axes.y(roof.peak), axes.x(high), axes.y(roof.peak)},
                   "#444");
  body += svg_text(axes.x(time.ridge_point), axes.y(roof.peak) - 8, "middle",
                   fmt::format("{}: ridge at {} FLOP/B", job.hardware.gpu.name,
                               significant_text(time.ridge_point)));
  for (const OpTime& op : kernels_of(time)) {
    if (op.flops > 0) body += mark_of(op, time, axes);
  }
  body += svg_text(kMargin, kMargin - 40, "start",
                   "area: share of the step; operations without FLOPs are left out");
  return svg_of(kWidth, kHeight, body);
}

}  // namespace memest
