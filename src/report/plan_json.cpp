#include "plan_json.hpp"

#include "estimate_json.hpp"

namespace memest {
namespace {

Json json_of(const PlanVerdict& verdict) {
  const PlanCandidate& candidate = verdict.candidate;
  Json json{{"gpu", candidate.gpu->slug},
            {"gpus", candidate.gpus},
            {"micro_batch", candidate.micro_batch},
            {"gradient_accumulation", candidate.gradient_accumulation},
            {"recompute", text_of(candidate.recompute)},
            {"zero", static_cast<int>(candidate.zero)},
            {"verdict", name_of(verdict.verdict)},
            {"device_bytes", verdict.device.value()},
            {"interval_bytes", {verdict.low.value(), verdict.high.value()}},
            {"capacity_bytes", verdict.capacity.value()}};
  put(json, "time", verdict.time, [](const TimeEstimate& time) { return memest::json_of(time); });
  put(json, "cost", verdict.cost, [](const CostEstimate& cost) { return memest::json_of(cost); });
  json["reason"] = verdict.reason;
  json["lever"] = verdict.lever;
  json["largest_terms"] = Json::array();
  for (const NamedBytes& term : verdict.largest_terms) {
    json["largest_terms"].push_back({{"name", term.name}, {"bytes", term.bytes.value()}});
  }
  return json;
}

Json json_of(const std::vector<PlanVerdict>& verdicts) {
  Json json = Json::array();
  for (const PlanVerdict& verdict : verdicts) json.push_back(json_of(verdict));
  return json;
}

}  // namespace

Json plan_json(const PlanAnswer& answer, const Question& question) {
  Json json = new_answer();
  if (const auto* missing = std::get_if<Unavailable>(&answer.unavailable)) {
    put_null(json, "best", missing->sentence);
    put_null(json, "refused", missing->sentence);
  } else {
    json["best"] = json_of(answer.best);
    json["refused"] = json_of(answer.refused);
  }
  json["candidates"] = answer.candidates;
  json["provenance"] = {{"method", "closed form"}, {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace memest
