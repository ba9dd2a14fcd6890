#include "report/record/played_point.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "memest/memory/recorded/family_at.hpp"
#include "memest/report/numbers.hpp"
#include "memest/report/record/family_report.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"

namespace memest {
namespace {

std::vector<std::string> names_played(const PlayedPoint& at) {
  std::vector<std::string> names;
  for (const VariedSize& size : at.varied) names.push_back(size.name);
  return names;
}

/// "seq 512 to 896 in steps of 128".
std::string recorded_range(const VariedSize& varied) {
  const std::int64_t unit = common_unit(varied);
  std::string text = fmt::format("{} {} to {}", varied.name, grouped(varied.values.front()),
                                 grouped(varied.values.back()));
  if (unit > 1) text += " in multiples of " + grouped(unit);
  return text;
}

}  // namespace

std::string played_name(const PlayedRun& run) {
  if (!run.at) return run.trace.file;
  return run.trace.file + " at " + point_text(names_played(*run.at), run.at->point);
}

std::string largest_sentence(const PlayedRun& run, bool fits) {
  const PlayedPoint& at = *run.at;
  const VariedSize& varied = at.varied[*at.largest];
  const std::string value = grouped(at.point[*at.largest]);
  const std::string where = run.gpu.empty() ? "" : " on " + run.gpu;
  if (!fits) return fmt::format("no {} fits{}, not even {}", varied.name, where, value);
  return fmt::format("{} {} is the largest that fits{}", varied.name, value, where);
}

bool is_extrapolated(const PlayedPoint& at) {
  for (std::size_t i = 0; i < at.varied.size(); ++i) {
    if (range_of(at.varied[i], at.point[i]) != SizeRange::seen) return true;
  }
  return false;
}

std::string range_sentence(const PlayedPoint& at) {
  std::vector<std::string> ranges;
  std::vector<std::string> outside;
  for (std::size_t i = 0; i < at.varied.size(); ++i) {
    ranges.push_back(recorded_range(at.varied[i]));
    if (range_of(at.varied[i], at.point[i]) == SizeRange::seen) continue;
    outside.push_back(at.varied[i].name + " " + grouped(at.point[i]));
  }
  std::string text =
      fmt::format("Recorded were {}: {}.", fmt::join(ranges, " and "),
                  outside.empty() ? "this lies within"
                                  : fmt::format("{} {} extrapolated", fmt::join(outside, " and "),
                                                outside.size() == 1 ? "is" : "are"));
  if (at.slack.requests > 0) {
    text += fmt::format(
        " {} of kernels' workspaces grow in steps whose length the recorded sizes leave open: each "
        "may be up to {} less.",
        nouns_text(at.slack.requests, "request"), sized_text(at.slack.most));
  }
  if (at.slack.rounded > 0) {
    text += fmt::format(" {} are no whole number of bytes here, and rounded up.",
                        nouns_text(at.slack.rounded, "request"));
  }
  return text;
}

void add_point(const PlayedPoint& at, Json& json) {
  json["at"] = Json::object();
  json["recorded"] = Json::object();
  for (std::size_t i = 0; i < at.varied.size(); ++i) {
    const VariedSize& varied = at.varied[i];
    json["at"][varied.name] = at.point[i];
    json["recorded"][varied.name] = {{"least", varied.values.front()},
                                     {"most", varied.values.back()},
                                     {"multiples_of", common_unit(varied)}};
  }
  json["extrapolated"] = is_extrapolated(at);
  if (at.slack.requests > 0) {
    json["requests_in_steps"] = {{"requests", at.slack.requests},
                                 {"most_bytes", at.slack.most.value()}};
  }
  if (at.slack.rounded > 0) json["requests_rounded_up"] = at.slack.rounded;
  if (at.largest) {
    json["largest"] = {{"name", at.varied[*at.largest].name}, {"is_next", at.is_next}};
  }
}

}  // namespace memest
