#include "memest/plan/alternatives.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "plan/layouts/space.hpp"

namespace memest {
namespace {

/// A split of the model, and how a spec says that it wrote it.
struct Axis {
  const char* name;
  std::int64_t Parallelism::*degree;
  bool WrittenKeys::*given;
};
constexpr std::array kAxes = {
    Axis{"tensor", &Parallelism::tensor, &WrittenKeys::tensor},
    Axis{"context", &Parallelism::context, &WrittenKeys::context},
    Axis{"pipeline", &Parallelism::pipeline, &WrittenKeys::pipeline},
    Axis{"virtual_stages", &Parallelism::virtual_stages, &WrittenKeys::schedule},
    Axis{"expert", &Parallelism::expert, &WrittenKeys::expert},
};

class Alternatives {
 public:
  Alternatives(const PlanRequest& request, const PlanVerdict& chosen)
      : chosen_(chosen.candidate), searched_(request.job), fixed_(request) {
    fixed_.counts = {chosen_.gpus};
    fixed_.gpus = {*chosen_.gpu};
    fixed_.goal.reset();
    fixed_.finalists = 1;
    fixed_.misses = 1;
    fixed_.front = false;
    layouts_ = layout_choices(request.job, chosen_.gpus);
    recomputes_ = recompute_choices(request.job);
    Job& job = fixed_.job;
    const std::int64_t global_batch = job.global_batch();
    job.parallelism = chosen_.parallelism;
    if (job.given.global_batch && !job.given.micro_batch) {
      job.training->micro_batch = 1;
      job.training->gradient_accumulation = global_batch / chosen_.parallelism.data;
    }
    job.training->recompute = chosen_.recompute;
    // Everything is taken for written, so that only what a change sets free is searched.
    job.given = {.global_batch = job.given.global_batch,
                 .micro_batch = job.given.micro_batch,
                 .recompute = true,
                 .sharing = true,
                 .tensor = true,
                 .sequence = false,
                 .context = true,
                 .pipeline = true,
                 .expert = true,
                 .schedule = true,
                 .stage_layers = job.given.stage_layers,
                 .offload = true,
                 .overlap = job.given.overlap};
  }

  std::vector<Alternative> answer() && {
    for (const Axis& axis : kAxes) change_split(axis);
    change_shards();
    for (const Recompute& recompute : recomputes_) {
      if (text_of(recompute) == text_of(chosen_.recompute)) continue;
      Job job = fixed_.job;
      job.training->recompute = recompute;
      add("recompute " + text_of(recompute), std::move(job));
    }
    return std::move(found_);
  }

 private:
  void change_split(const Axis& axis) {
    std::set<std::int64_t> values;
    for (const Parallelism& layout : layouts_) values.insert(layout.*axis.degree);
    values.erase(chosen_.parallelism.*axis.degree);
    for (const std::int64_t value : values) {
      Job job = fixed_.job;
      job.parallelism.*axis.degree = value;
      if (axis.degree == &Parallelism::virtual_stages) {
        job.parallelism.schedule = value > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
      }
      // Stages a rank are a matter of the depth, their layers of both; shards of how many there are
      // to share.
      const bool deepens = axis.degree == &Parallelism::pipeline;
      if (deepens) job.given.schedule = false;
      if (deepens || axis.degree == &Parallelism::virtual_stages) job.given.stage_layers = false;
      job.given.sharing = false;
      job.given.offload = false;
      add(axis.name + (" " + std::to_string(value)), std::move(job));
    }
  }

  void change_shards() {
    for (const Sharing& sharing : sharing_choices(searched_, chosen_.parallelism)) {
      if (sharing == sharing_of(chosen_.parallelism)) continue;
      Job job = fixed_.job;
      share(job.parallelism, sharing);
      add(text_of(sharing), std::move(job));
    }
  }

  void add(std::string name, Job job) {
    PlanRequest request = fixed_;
    request.job = std::move(job);
    PlanAnswer answer = search_plans(request);
    std::vector<PlanVerdict>& rows = answer.best.empty() ? answer.refused : answer.best;
    // A value that no other key of the chosen layout goes with is no alternative.
    if (answer.candidates == 0 || rows.empty()) return;
    rows.front().candidate.gpu = chosen_.gpu;
    found_.push_back({std::move(name), std::move(rows.front())});
  }

  const PlanCandidate& chosen_;
  const Job& searched_;
  PlanRequest fixed_;
  std::vector<Parallelism> layouts_;
  std::vector<Recompute> recomputes_;
  std::vector<Alternative> found_;
};

}  // namespace

std::vector<Alternative> alternatives_to(const PlanRequest& request, const PlanVerdict& chosen) {
  return Alternatives(request, chosen).answer();
}

}  // namespace memest
