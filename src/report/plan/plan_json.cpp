#include "report/plan/plan_json.hpp"

#include <algorithm>

#include "memest/plan/whole_training.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "report/estimate/estimate_json.hpp"
#include "report/plan/plan_choices.hpp"
#include "report/plan/plan_layout.hpp"
#include "report/plan/plan_training.hpp"

namespace memest {
namespace {

Json json_of(const Parallelism& layout) {
  const HostOffload& offload = layout.offload;
  const Sharing sharing = sharing_of(layout);
  return {{"data", layout.data},
          {"tensor", layout.tensor},
          {"sequence", layout.sequence},
          {"context", layout.context},
          {"pipeline", layout.pipeline},
          {"schedule", name_of(layout.schedule)},
          {"virtual_stages", layout.virtual_stages},
          {"first_stage_layers", layout.first_stage_layers},
          {"last_stage_layers", layout.last_stage_layers},
          {"account_for_embedding", layout.account_for_embedding},
          {"account_for_loss", layout.account_for_loss},
          {"pipeline_layout", layout.stage_layers},
          {"expert", layout.expert},
          {"expert_tensor", layout.expert_tensor.value_or(layout.tensor)},
          {"distributed_optimizer", sharing.divides_optimizer()},
          {"overlap_grad_reduce", layout.overlap_grad_reduce},
          {"overlap_param_gather", layout.overlap_param_gather},
          {"fsdp_version", sharing.version_of_units()},
          {"replicate", sharing.replicas()},
          {"offload",
           {{"optimizer", name_of(offload.device_of_optimizer())},
            {"parameters", name_of(offload.device_of_parameters())}}}};
}

Json json_of(const Lever& lever) {
  Json json{{"name", lever.name}, {"saved_bytes", lever.saved.value()}, {"fits", lever.fits}};
  if (lever.slower) {
    json["slower"] = *lever.slower;
  } else {
    put_null(json, "slower", "such steps have no time on this GPU");
  }
  if (lever.host) json["host_bytes"] = lever.host->value();
  return json;
}

/// The whole training that was asked for.
Json json_of(const WholeTraining& training, const Goal& goal) {
  const auto add = [](Json& json, const std::string& key, const Spread& spread, double unit) {
    json[key] = spread.expected / unit;
    json[key + "_interval"] = {spread.low / unit, spread.high / unit};
  };
  Json json{{"tokens", goal.tokens}};
  add(json, "days", training.seconds, kSecondsOfDay);
  add(json, "gpu_hours", training.gpu_hours, 1);
  if (training.dollars) {
    add(json, "usd", *training.dollars, 1);
  } else {
    put_null(json, "usd", "no price is known for this GPU");
  }
  if (goal.within) {
    json["within_days"] = goal.within->value() / kSecondsOfDay;
    json["in_time"] = name_of(held_to(training, *goal.within));
  }
  return json;
}

Json json_of(const Rival& rival) {
  const PlanCandidate& candidate = rival.candidate;
  return {{"micro_batch", candidate.micro_batch},
          {"gradient_accumulation", candidate.gradient_accumulation},
          {"recompute", text_of(candidate.recompute)},
          {"parallelism", json_of(candidate.parallelism)},
          {"slower", rival.slower}};
}

Json json_of(const OrderMargin& order) {
  return {{"cells", order.cells},
          {"layouts", order.layouts},
          {"median_lost", order.median_lost},
          {"most_lost", order.most_lost}};
}

Json json_of(const PlanVerdict& verdict, const std::optional<Goal>& goal) {
  const PlanCandidate& candidate = verdict.candidate;
  Json json{{"gpu", candidate.gpu->slug},
            {"gpus", candidate.gpus},
            {"micro_batch", candidate.micro_batch},
            {"gradient_accumulation", candidate.gradient_accumulation},
            {"recompute", text_of(candidate.recompute)},
            {"zero", static_cast<int>(sharing_of(candidate.parallelism).stage())},
            {"parallelism", json_of(candidate.parallelism)},
            {"verdict", name_of(verdict.verdict)},
            {"device_bytes", verdict.device.value()},
            {"interval_bytes", {verdict.low.value(), verdict.high.value()}},
            {"capacity_bytes", verdict.capacity.value()},
            {"method", verdict.replayed ? "replay" : "closed form"}};
  if (verdict.host) {
    json["host_bytes"] = verdict.host->of_rank.value();
    json["host_node"] = memest::json_of(*verdict.host);
  }
  put(json, "time", verdict.time, [](const TimeEstimate& time) { return memest::json_of(time); });
  put(json, "cost", verdict.cost, [](const CostEstimate& cost) { return memest::json_of(cost); });
  if (goal) {
    put(json, "training", whole_training_of(verdict, goal->tokens),
        [&](const WholeTraining& training) { return json_of(training, *goal); });
  }
  json["rivals"] = Json::array();
  for (const Rival& rival : verdict.rivals) json["rivals"].push_back(json_of(rival));
  json["reason"] = verdict.reason;
  json["lever"] = lever_text(verdict.levers);
  json["levers"] = Json::array();
  for (const Lever& lever : verdict.levers) json["levers"].push_back(json_of(lever));
  json["largest_terms"] = Json::array();
  for (const NamedBytes& term : verdict.largest_terms) {
    json["largest_terms"].push_back({{"name", term.name}, {"bytes", term.bytes.value()}});
  }
  return json;
}

/// Writes into every row which implementation it is of, where several are compared.
void name_choices(Json& rows, const std::vector<PlanVerdict>& plans, const PlanView& view) {
  if (view.compared.empty() || !rows.is_array()) return;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    rows[i]["implementation"] = name_of(view.choices[plans[i].choice]);
  }
}

Json json_of(const std::vector<PlanVerdict>& verdicts, const std::optional<Goal>& goal) {
  Json json = Json::array();
  for (const PlanVerdict& verdict : verdicts) json.push_back(json_of(verdict, goal));
  return json;
}

}  // namespace

Json plan_json(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
               const PlanView& view) {
  Json json = new_answer();
  json["known"] = !std::holds_alternative<Unavailable>(answer.unavailable);
  if (const auto* missing = std::get_if<Unavailable>(&answer.unavailable)) {
    put_null(json, "best", missing->sentence);
    put_null(json, "refused", missing->sentence);
    put_null(json, "front", missing->sentence);
  } else {
    json["best"] = json_of(answer.best, request.goal);
    json["refused"] = json_of(answer.refused, request.goal);
    if (view.front) {
      json["front"] = json_of(answer.front, request.goal);
      name_choices(json["front"], answer.front, view);
    } else {
      put_null(json, "front", "every plan of the front is replayed: asked for with --front");
    }
    name_choices(json["best"], answer.best, view);
    name_choices(json["refused"], answer.refused, view);
    if (!view.compared.empty()) {
      json["implementations"] =
          choices_json(view, [](const PlanVerdict& plan) { return json_of(plan, std::nullopt); });
    }
  }
  json["order"] = json_of(request.job.source_margins.order);
  json["candidates"] = answer.candidates;
  json["reasons"] = Json::array();
  for (const RefusedCandidates& refused : answer.reasons) {
    json["reasons"].push_back({{"reason", refused.reason}, {"candidates", refused.candidates}});
  }
  if (!view.alternatives.empty()) {
    json["alternatives"] = Json::array();
    for (const Alternative& other : view.alternatives) {
      Json alternative = json_of(other.verdict, request.goal);
      alternative["instead"] = other.name;
      json["alternatives"].push_back(std::move(alternative));
    }
  }
  const bool replayed = std::ranges::any_of(answer.best, &PlanVerdict::replayed) ||
                        std::ranges::any_of(answer.refused, &PlanVerdict::replayed);
  json["provenance"] = {{"method", replayed ? "replay" : "closed form"},
                        {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace memest
