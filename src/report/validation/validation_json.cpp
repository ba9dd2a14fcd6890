#include "report/validation/validation_json.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>

namespace memest {
namespace {

constexpr const char* kZeroMeasured = "the measured figure is zero, the predicted one is not";
constexpr const char* kNoPrediction = "memest does not predict this figure of this run";

void put_figure(Json& object, const std::string& key, Int128 number) {
  const auto most = static_cast<Int128>(std::numeric_limits<std::uint64_t>::max());
  if (number > most) {
    put_null(object, key, "the count is beyond 2^64, which JSON readers do not keep exactly");
  } else {
    object[key] = static_cast<std::uint64_t>(number);
  }
}

void put_figure(Json& object, const std::string& key, double number) { object[key] = number; }

void put_figure(Json& object, const std::string& key, std::monostate) {
  put_null(object, key, kNoPrediction);
}

void put_share(Json& object, const std::string& key, double share) {
  if (std::isfinite(share)) {
    object[key] = share;
  } else {
    put_null(object, key, kZeroMeasured);
  }
}

Json json_of(const Comparison& comparison, bool in_full) {
  Json json{
      {"metric", name_of(comparison.metric)}, {"part", comparison.part}, {"in_full", in_full}};
  std::visit([&](auto number) { put_figure(json, "measured", number); }, comparison.measured);
  std::visit([&](auto number) { put_figure(json, "predicted", number); }, comparison.predicted);
  if (!comparison.is_predicted()) return json;
  put_share(json, "error", comparison.error());
  json["equal"] = comparison.equal();
  return json;
}

Json json_of(const ValidatedRun& run) {
  Json json{{"id", run.id},
            {"group", run.group},
            {"model", run.traits.model},
            {"precision", run.traits.precision},
            {"attention", run.traits.attention},
            {"recompute", run.traits.recompute},
            {"refusal", run.refusal},
            {"figures", Json::array()}};
  for (const Comparison& comparison : run.comparisons) {
    json["figures"].push_back(json_of(comparison, true));
  }
  for (const Comparison& comparison : run.approximate) {
    json["figures"].push_back(json_of(comparison, false));
  }
  return json;
}

Json json_of(const ToldInterval& interval) {
  const SourceMargin& margin = interval.margin;
  Json json{{"of", name_of(interval.figure)},
            {"low", margin.low},
            {"high", margin.high},
            {"runs", margin.runs},
            {"publications", margin.sources},
            {"held", margin.held},
            {"left_out", Json::array()}};
  for (const Coverage& coverage : interval.coverages) {
    json["left_out"].push_back({{"kind", name_of(coverage.kind)},
                                {"sources", coverage.sources},
                                {"runs", coverage.runs},
                                {"within", coverage.within}});
  }
  return json;
}

Json json_of(const PublishedSummary& summary) {
  return {{"framework", summary.framework},
          {"metric", name_of(summary.metric)},
          {"measured", summary.measured},
          {"answered", summary.answered},
          {"in_full", summary.in_full},
          {"equal", summary.equal},
          {"median_error", summary.median_error},
          {"median", summary.median},
          {"p90", summary.p90}};
}

Json json_of(const RankedCell& ranked) {
  return {{"framework", ranked.framework},
          {"implementation", ranked.cell.implementation},
          {"model", ranked.cell.model},
          {"parameters", ranked.cell.parameters},
          {"precision", ranked.cell.precision},
          {"seq_len", ranked.cell.seq_len},
          {"gpu", ranked.cell.gpu},
          {"gpus", ranked.cell.gpus},
          {"layouts", ranked.layouts},
          {"first", ranked.first},
          {"best", ranked.best},
          {"lost", ranked.lost}};
}

Json json_of(const MetricSummary& summary) {
  Json json{{"group", summary.group},
            {"metric", name_of(summary.metric)},
            {"compared", summary.compared},
            {"equal", summary.equal},
            {"not_predicted", summary.not_predicted}};
  if (summary.compared == 0) return json;
  put_share(json, "median", summary.median);
  put_share(json, "p90", summary.p90);
  put_share(json, "maximum", summary.maximum);
  json["worst"] = summary.worst;
  return json;
}

}  // namespace

Json validation_json(const ValidationAnswer& answer, const Question& question) {
  Json json = new_answer();
  json["records"] = answer.runs.size();
  json["groups"] = Json::array();
  for (const MetricSummary& summary : summarize(answer.runs)) {
    json["groups"].push_back(json_of(summary));
  }
  json["runs"] = Json::array();
  for (const ValidatedRun& run : answer.runs) json["runs"].push_back(json_of(run));
  json["published"] = Json::array();
  for (const PublishedSummary& summary : summarize_published(answer.runs)) {
    json["published"].push_back(json_of(summary));
  }
  json["cells"] = Json::array();
  for (const RankedCell& ranked : answer.cells) {
    json["cells"].push_back(json_of(ranked));
  }
  json["intervals"] = Json::array();
  for (const ToldInterval& interval : answer.intervals) {
    json["intervals"].push_back(json_of(interval));
  }
  json["lines"] = {{"given", answer.held}, {"broken", Json::array()}};
  for (const Diagnostic& broken : answer.broken) {
    json["lines"]["broken"].push_back({{"line", broken.span.line}, {"message", broken.message}});
  }
  json["provenance"] = {{"method", "closed form"}, {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace memest
