#include "report/estimate/estimate_json.hpp"

#include <string>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/plan/validation.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

std::string_view name_of(LargestValue::Bound bound) {
  switch (bound) {
    case LargestValue::Bound::memory:
      return "memory";
    case LargestValue::Bound::key:
      return "key";
    case LargestValue::Bound::events:
      return "events";
  }
  unreachable("every bound has a name");
}

constexpr const char* kNoReplay =
    "the closed form does not replay the allocator; interval_bytes covers what it reserves";
constexpr const char* kNothingPublished = "nobody published such runs";
constexpr const char* kNoTimeline =
    "the closed form knows the moments of one step, not its timeline";
constexpr const char* kNoFormulas = "no closed form is known for this job";

Json json_of(const ParameterCounts& counts) {
  Json json{{"total", counts.total}, {"trainable", counts.trainable}, {"active", counts.active}};
  put(json, "buffer_bytes", counts.buffers);
  json["matmul"] = counts.matmul;
  json["embedding"] = counts.embedding;
  json["tensors"] = counts.tensors;
  return json;
}

Json json_of(const MemoryAnswer& answer, const Term& term) {
  const LedgerTerm& meaning = answer.ledger.terms[term.index];
  Json json{{"name", meaning.name}, {"group", name_of(meaning.group)}};
  put(json, "bytes", term.value);
  json["formula"] = meaning.formula.text();
  if (!meaning.rule.empty()) json["rule"] = meaning.rule;
  json["source"] = meaning.source;
  return json;
}

/// The closed form's peak: a moment, and its terms in place of tensors.
Json peak_json(const MemoryAnswer& answer) {
  Json json;
  put_null(json, "step", kNoTimeline);
  const std::uint16_t index = answer.estimate.instants[answer.estimate.peak].index;
  json["op"] = answer.ledger.instants[index].name;
  json["alive"] = Json::array();
  for (const Term& term : answer.estimate.terms) {
    Json alive{{"tensor", answer.ledger.terms[term.index].name}};
    put(alive, "bytes", term.value);
    json["alive"].push_back(std::move(alive));
  }
  return json;
}

/// The replay's peak: the moment and the largest of what is alive, the rest in one row.
Json peak_json(const ReplayedSteps& steps) {
  constexpr std::size_t kShown = 64;
  const PeakMoment& peak = steps.unpressed().peak;
  const Label& label =
      steps.step.timeline.storages[steps.step.timeline.events[peak.event].storage].label;
  Json json{{"step", label.step},
            {"op", moment_of_event(steps.step, peak.event)},
            {"alive", Json::array()}};
  Bytes rest = peak.allocated;
  for (std::size_t i = 0; i < peak.alive.size() && i < kShown; ++i) {
    const AliveStorage& alive = peak.alive[i];
    rest -= alive.block;
    json["alive"].push_back(
        {{"tensor", storage_name(steps.step.timeline, steps.step.graph, alive.storage)},
         {"bytes", alive.block.value()}});
  }
  if (peak.alive.size() > kShown) {
    json["alive"].push_back({{"tensor", std::to_string(peak.alive.size() - kShown) + " more"},
                             {"bytes", rest.value()}});
  }
  return json;
}

/// As records name them: "model", "step1.forward_peak", "step1.forward_end".
Json phases_json(const ReplayedSteps& steps) {
  Json json = Json::object();
  for (const PhaseBytes& phase : phases_of(steps)) json[phase.name] = phase.bytes.value();
  return json;
}

/// One number where all layers are equal, else a list in order.
Json layers_json(const std::vector<Bytes>& layers) {
  const bool equal =
      std::equal(layers.begin() + (layers.empty() ? 0 : 1), layers.end(), layers.begin());
  if (!layers.empty() && equal) return layers.front().value();
  Json list = Json::array();
  for (const Bytes layer : layers) list.push_back(layer.value());
  return list;
}

Json host_json(const HostMemory& memory, const HostNeed& need) {
  Json json;
  put(json, "bytes", memory.taken());
  json["node"] = json_of(need);
  put(json, "pinned_bytes", memory.pinned());
  put(json, "nvme_bytes", memory.on_nvme());
  json["terms"] = Json::array();
  for (const HostTerm& term : memory.terms) {
    Json row{{"name", term.name}};
    put(row, "bytes", term.bytes);
    put(row, "pinned_bytes", term.pinned);
    row["on_nvme"] = term.on_nvme;
    row["of_node"] = term.of_node;
    row["formula"] = term.formula;
    row["source"] = term.source;
    json["terms"].push_back(std::move(row));
  }
  return json;
}

Json json_of(const SourceMargin& margin) {
  return {{"runs", margin.runs},
          {"publications", margin.sources},
          {"held", margin.held},
          {"low", margin.low},
          {"high", margin.high}};
}

void put_any_release(Json& json, const MemoryAnswer& answer) {
  const auto device = answer.device_of_any_release();
  if (!device) return put_null(json, "any_release", kNothingPublished);
  Json row{{"device_bytes", {device->low.value(), device->high.value()}},
           {"published", json_of(answer.published.device)}};
  if (const auto reserved = answer.reserved_of_any_release()) {
    row["reserved_peak_bytes"] = {reserved->low.value(), reserved->high.value()};
  } else {
    put_null(row, "reserved_peak_bytes", kNoReplay);
  }
  json["any_release"] = std::move(row);
}

Json rank_json(const MemoryAnswer& answer) {
  const RankClass& ranks = answer.ranks;
  Json json{{"name", ranks.name.empty() ? "every rank" : ranks.name},
            {"count", ranks.count},
            {"data_rank",
             {{"worst", ranks.data.worst},
              {"replayed", ranks.data.followed},
              {"count", ranks.data.count}}},
            {"terms", Json::array()}};
  for (const Term& term : answer.estimate.terms) json["terms"].push_back(json_of(answer, term));
  Bytes sum;
  for (const Term& term : answer.estimate.terms) sum += term.value;
  put(json, "sum_of_terms_bytes", sum);
  put(json, "allocated_peak_bytes", answer.allocated());
  if (answer.closed_form) {
    put(json, "closed_form_peak_bytes", *answer.closed_form);
  } else {
    put_null(json, "closed_form_peak_bytes", kNoFormulas);
  }
  if (const auto reserved = answer.reserved()) {
    put(json, "reserved_peak_bytes", *reserved);
  } else {
    put_null(json, "reserved_peak_bytes", kNoReplay);
  }
  put(json, "device_bytes", answer.device());
  json["interval_bytes"] = {answer.low().value(), answer.high().value()};
  put_any_release(json, answer);
  put(json, "saved_bytes", answer.saved, [](Bytes bytes) { return Json(bytes.value()); });
  json["saved_bytes_per_layer"] = layers_json(answer.saved_by_layer);
  if (const ReplayedSteps* steps = answer.replayed()) {
    json["phases"] = phases_json(*steps);
    json["retries"] = steps->step.replay.statistics.retries;
  } else {
    put_null(json, "phases", kNoTimeline);
    put_null(json, "retries", kNoReplay);
  }
  if (answer.host) json["host"] = host_json(*answer.host, *answer.host_need);
  json["moments"] = Json::array();
  for (const HighMoment& moment : answer.moments) {
    json["moments"].push_back(
        {{"name", moment.name}, {"allocated_bytes", moment.allocated.value()}});
  }
  json["peak"] = answer.replayed() != nullptr ? peak_json(*answer.replayed()) : peak_json(answer);
  return json;
}

Json json_of(const MemoryAnswer& answer, const std::vector<MemoryAnswer>& others) {
  Json json{{"ranks", Json::array({rank_json(answer)})}};
  for (const MemoryAnswer& other : others) json["ranks"].push_back(rank_json(other));
  put(json, "capacity_bytes", answer.capacity.bytes);
  json["capacity_is_allocator_limit"] = answer.capacity.allocator_limit;
  json["verdict"] = name_of(answer.overall());
  if (answer.closed_form) {
    json["fixed_bytes"] = answer.simple.fixed.value();
    json["bytes_per_sequence"] = answer.simple.per_sequence.value();
  } else {
    for (const char* key : {"fixed_bytes", "bytes_per_sequence"}) put_null(json, key, kNoFormulas);
  }
  if (answer.largest_micro_batch) {
    json["largest_micro_batch"] = *answer.largest_micro_batch;
  } else {
    put_null(json, "largest_micro_batch", "this command did not search for it");
  }
  const auto put_largest = [&json](const char* key, const std::optional<LargestValue>& largest) {
    if (!largest) return;
    json[key] = {{"value", largest->value}, {"bound", name_of(largest->bound)}};
  };
  put_largest("largest_beams", answer.largest_beams);
  put_largest("largest_generate", answer.largest_tokens);
  return json;
}

Json json_of(const FlopsEstimate& flops) {
  Json json;
  put(json, "forward", flops.forward);
  put(json, "backward", flops.backward);
  put(json, "executed", flops.executed());
  put(json, "computed", flops.computed);
  put(json, "required", flops.required);
  Json conventions;
  put(conventions, "model", flops.model);
  put(conventions, "palm", flops.palm);
  put(conventions, "megatron", flops.megatron);
  json["conventions"] = std::move(conventions);
  return json;
}

Json spec_json(const Job& job) {
  Json json{{"name", job.name}, {"model", job.model.name}, {"family", name_of(job.model.family)}};
  if (job.training) {
    const TrainingSpec& training = *job.training;
    json["seq_len"] = training.seq_len;
    json["micro_batch"] = training.micro_batch;
    json["gradient_accumulation"] = training.gradient_accumulation;
    json["global_batch"] = job.global_batch();
    json["precision"] = training.recipe.name;
    json["optimizer"] = training.optimizer.name;
    json["recompute"] = text_of(training.recompute);
    if (const auto& budget = training.recompute_budget) {
      json["recompute_spec"] = spec_value_of(training.recompute);
      put(json, "recompute_budget_bytes", *budget);
    }
    json["implementation"] = name_of(training.implementation.framework);
  } else if (job.inference) {
    const InferenceSpec& inference = *job.inference;
    put_null(json, "training", "the spec asks for inference");
    json["prompt"] = inference.seq_len;
    json["batch"] = inference.prompts();
    json["generate"] = inference.generation ? inference.generation->tokens : 0;
    json["beams"] = inference.beams();
    json["sample"] = inference.generation && inference.generation->samples;
    json["use_cache"] = inference.use_cache;
    json["logits"] = inference.logits == KeptLogits::last ? "last" : "all";
    json["precision"] = inference.recipe.name;
    json["implementation"] = name_of(inference.implementation.framework);
  } else {
    put_null(json, "training", "the spec describes a model alone");
  }
  json["zero"] = static_cast<int>(sharing_of(job.parallelism).stage());
  json.update({{"gpu", job.hardware.gpu.slug}, {"gpu_assumed", job.hardware.assumed}});
  json["gpus"] = job.hardware.count;
  return json;
}

Json provenance_json(const Job& job, const JobEstimate& estimate, const Question& question) {
  const GpuSpec& gpu = job.hardware.gpu;
  Json tags{{"capacity", name_of(gpu.capacity.provenance)}};
  if (gpu.memory_bandwidth) tags["memory_bandwidth"] = name_of(gpu.memory_bandwidth->provenance);
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    tags["time"] = text_of(time->origin());
  }
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  const bool replayed = memory != nullptr && memory->replayed() != nullptr;
  Json json{{"method", replayed ? "replay" : "closed form"}};
  if (gpu.profile) {
    json["profile"] = gpu.profile->gpu;
  } else {
    put_null(json, "profile", "nobody measured the kernels of " + gpu.slug);
  }
  json["tags"] = std::move(tags);
  json["assumptions"] = estimate.assumptions;
  json["versions"] = {{"memest", question.version}};
  if (replayed) {
    json["versions"]["torch"] = name_of(job.forward()->implementation.torch);
    const RecordedProgram& program = modelled_program(job.forward()->implementation);
    if (!program.package.empty()) json["versions"][std::string(program.package)] = program.release;
  }
  return json;
}

/// The busiest rank's wait, and one micro-step of every rank.
Json pipeline_json(const TimeEstimate& time) {
  Json json{{"bubble_seconds", time.bubble.value()}, {"stages", Json::array()}};
  for (const StageTime& stage : time.stages) {
    json["stages"].push_back({{"rank", stage.rank},
                              {"forward_seconds", stage.forward.value()},
                              {"backward_seconds", stage.backward.value()}});
  }
  return json;
}

Json loading_json(const InputPipeline& pipeline) {
  Json json{{"supply_samples_per_second", pipeline.supply},
            {"demand_samples_per_second", pipeline.demand},
            {"gpu_utilisation", pipeline.utilisation},
            {"wait_seconds", pipeline.wait.value()}};
  if (pipeline.enough) {
    json["enough_workers"] = *pipeline.enough;
  } else {
    put_null(json, "enough_workers", std::to_string(kMostWorkers) + " workers would not be enough");
  }
  return json;
}

}  // namespace

Json json_of(const HostNeed& need) {
  return {{"bytes", need.of_node().value()},
          {"ranks", need.ranks},
          {"capacity_bytes", need.capacity.bytes.value()},
          {"provenance", name_of(need.capacity.provenance)},
          {"source", need.capacity.source},
          {"verdict", name_of(need.verdict())}};
}

Json json_of(const TimeEstimate& time) {
  Json json{{"step_seconds", time.step.value()},
            {"interval_seconds", {time.low.value(), time.high.value()}},
            {"tokens_per_second_per_gpu", time.tokens_per_second_per_gpu},
            {"mfu", time.mfu},
            {"hfu", time.hfu},
            {"ridge_flops_per_byte", time.ridge_point},
            {"bound", Json::array()}};
  for (const OpTime& op : time.ops) {
    json["bound"].push_back({{"op", std::string(op.block) + " " + std::string(op.op)},
                             {"seconds", op.seconds.value()},
                             {"by", name_of(op.bound)},
                             {"flops_per_byte", op.intensity},
                             {"provenance", text_of(op.origin)}});
  }
  json["by_class"] = Json::array();
  for (const TimePart<OpClass>& part : time.by_class()) {
    json["by_class"].push_back({{"class", name_of(part.kind)}, {"seconds", part.seconds.value()}});
  }
  json["by_provenance"] = Json::array();
  for (const TimePart<LawOrigin>& part : time.by_origin()) {
    json["by_provenance"].push_back(
        {{"provenance", text_of(part.kind)}, {"seconds", part.seconds.value()}});
  }
  if (!time.stages.empty()) json["pipeline"] = pipeline_json(time);
  if (time.loading) json["data_loader"] = loading_json(*time.loading);
  json["provenance"] = text_of(time.origin());
  json["rule"] = time.rule;
  if (time.published.runs > 0) {
    json["published"] = json_of(time.published);
  } else {
    put_null(json, "published", kNothingPublished);
  }
  return json;
}

Json json_of(const CostEstimate& cost) {
  return {{"per_hour", cost.per_hour.value()},
          {"per_step", cost.per_step.value()},
          {"per_billion_tokens", cost.per_billion_tokens.value()},
          {"currency", "USD"},
          {"source", cost.source}};
}

std::string_view verdict_text(const JobEstimate& estimate) {
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  return memory == nullptr ? "not-known" : name_of(memory->overall());
}

Json json_of(const Job& job, const JobEstimate& estimate, const Question& question) {
  Json json = new_answer();
  json["verdict"] = verdict_text(estimate);
  json["spec"] = spec_json(job);
  json["parameters"] = json_of(estimate.parameters);
  put(json, "memory", estimate.memory,
      [&](const MemoryAnswer& answer) { return json_of(answer, estimate.other_ranks); });
  put(json, "flops", estimate.flops, [](const FlopsEstimate& flops) { return json_of(flops); });
  put(json, "time", estimate.time, [](const TimeEstimate& time) { return json_of(time); });
  if (estimate.inference_time) json["inference_time"] = json_of(*estimate.inference_time);
  put(json, "cost", estimate.cost, [](const CostEstimate& cost) { return json_of(cost); });
  json["provenance"] = provenance_json(job, estimate, question);
  return json;
}

}  // namespace memest
