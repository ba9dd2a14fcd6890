#include <array>
#include <variant>

#include "memest/spec/parallel/cost_split.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

/// False of a model that could not be read, too.
bool runs_pipeline(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return job.parallelism.pipeline > 1 && (decoder == nullptr || decoder->layers() > 0);
}

std::vector<std::int64_t> stages_of_nanotron(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder == nullptr ? std::vector<std::int64_t>{}
                            : stages_by_cost(*decoder, job.parallelism);
}

/// Jobs that nanotron (or memest with it) refuses.
constexpr std::array kNanotronRules = {
    Rule{"training", "precision",
         [](const Job& job) { return job.training->recipe.name != "mixed-fp32-grad"; },
         "nanotron keeps bf16 weights beside fp32 gradients and fp32 weights: other precisions are "
         "not available yet",
         "set 'precision' to mixed-fp32-grad"},
    Rule{"training", "optimizer",
         [](const Job& job) { return job.training->optimizer.name != "adamw"; },
         "nanotron's optimizer is AdamW here: others are not available yet",
         "set 'optimizer' to adamw"},
    Rule{"training", "recompute",
         [](const Job& job) { return !recomputes_each_layer(job.training->recompute); },
         "nanotron recomputes every layer by itself, or none (recompute_layer)",
         "set 'recompute' to full or none"},
    Rule{"parallelism", "zero",
         [](const Job& job) { return job.parallelism.zero > ZeroStage::optimizer; },
         "nanotron's zero_stage is 0 or 1", "set 'zero' to 0 or 1"},
    Rule{"parallelism", "distributed_optimizer",
         [](const Job& job) { return job.parallelism.distributed_optimizer; },
         "the distributed optimizer is Megatron's", "set 'zero' to 1"},
    Rule{"parallelism", "ddp",
         [](const Job& job) { return job.parallelism.ddp.gradient_as_bucket_view; },
         "nanotron's gradients are no views of DistributedDataParallel's buckets",
         "leave 'gradient_as_bucket_view' out"},
    Rule{"parallelism", "pipeline",
         [](const Job& job) { return runs_pipeline(job) && stages_of_nanotron(job).empty(); },
         "nanotron deals layers and output head by their cost, which leaves a stage of this "
         "pipeline without any",
         "use fewer stages"},
    Rule{"parallelism", "pipeline_layout",
         [](const Job& job) {
           return job.given.listed_stages && !stages_of_nanotron(job).empty() &&
                  job.parallelism.stage_layers != stages_of_nanotron(job);
         },
         "nanotron deals layers by their cost, and takes no list", "leave 'pipeline_layout' out"},
    Rule{"parallelism", "pipeline",
         [](const Job& job) {
           return job.training->gradient_accumulation < least_micro_batches(job.parallelism);
         },
         "nanotron's 1F1B takes at least one micro-batch less than the pipeline has ranks",
         "choose a larger 'gradient_accumulation', a shorter 'pipeline' or 'schedule: gpipe'"},
};

}  // namespace

void check_nanotron(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.training->implementation.framework != Framework::nanotron) return;
  check_rules(kNanotronRules, root, job, diagnostics);
  check_rules(pipeline_rules(), root, job, diagnostics);
}

}  // namespace memest
