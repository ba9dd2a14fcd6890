#include "reader/frameworks/megatron_stages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/pipeline_layout.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

std::int64_t stages_of(const Job& job) {
  return job.parallelism.pipeline * job.parallelism.virtual_stages;
}

bool has_own_ends(const Job& job) {
  return job.parallelism.first_stage_layers + job.parallelism.last_stage_layers > 0;
}

bool counts_ends(const Job& job) {
  return job.parallelism.account_for_embedding || job.parallelism.account_for_loss;
}

/// Ranks between those whose number of layers is said.
std::int64_t other_ranks(const Parallelism& p) {
  return p.pipeline - (p.first_stage_layers > 0 ? 1 : 0) - (p.last_stage_layers > 0 ? 1 : 0);
}

std::int64_t layers_of_others(const Job& job) {
  const Parallelism& p = job.parallelism;
  return decoder_layers_of(job) - p.first_stage_layers - p.last_stage_layers;
}

/// Whether a rank's layers, of some number of their own, do not divide over its chunks.
bool leaves_uneven_chunks(const Job& job) {
  const Parallelism& p = job.parallelism;
  if (!has_own_ends(job) || job.given.listed_stages || leaves_uneven_middle(job)) return false;
  const std::int64_t others = other_ranks(p);
  const std::int64_t of_other = others > 0 ? layers_of_others(job) / others : 0;
  return p.first_stage_layers % p.virtual_stages != 0 ||
         p.last_stage_layers % p.virtual_stages != 0 || of_other % p.virtual_stages != 0;
}

constexpr const char* kOneWay =
    "'first_stage_layers' and 'last_stage_layers' cannot be set at the same time with "
    "'account_for_embedding' and 'account_for_loss'";
constexpr const char* kLeaveOne = "leave one of the two out";

constexpr std::array kStageRules = {
    Rule{"parallelism", "pipeline",
         [](const Job& job) { return !counts_ends(job) && leaves_layers_over(job); },
         "the layers are not a multiple of the pipeline's stages",
         "every stage of 'pipeline' x 'virtual_stages' has as many layers, unless "
         "'first_stage_layers', 'last_stage_layers', 'account_for_embedding', 'account_for_loss' "
         "or 'pipeline_layout' says otherwise"},
    // transformer_config.py, __post_init__: "num_layers after enable
    // account_for_embedding_in_pipeline_split or account_for_loss_in_pipeline_split must be
    // divisible by pipeline_model_parallel_size", and what a rank has by its chunks.
    Rule{"parallelism", "pipeline",
         [](const Job& job) { return counts_ends(job) && leaves_layers_over(job); },
         "the layers, with the embedding and the loss where they count as one, are not a multiple "
         "of the pipeline's stages",
         "choose another 'pipeline' or 'virtual_stages', or write 'pipeline_layout'"},
    Rule{"parallelism", "first_stage_layers",
         [](const Job& job) { return counts_ends(job) && job.parallelism.first_stage_layers > 0; },
         kOneWay, kLeaveOne},
    Rule{"parallelism", "last_stage_layers",
         [](const Job& job) { return counts_ends(job) && job.parallelism.last_stage_layers > 0; },
         kOneWay, kLeaveOne},
    Rule{"parallelism", "pipeline", leaves_uneven_middle,
         "the layers that the first and last stage leave are not a multiple of the other stages",
         "choose other 'first_stage_layers' and 'last_stage_layers'"},
    // transformer_config.py: "number of layers at first stage must be divisible by virtual pipeline
    // parallel degree", and so at the last and on each rank between.
    Rule{"parallelism", "virtual_stages", leaves_uneven_chunks,
         "the layers of the first rank, of the last and of each between must be divisible by the "
         "stages a rank",
         "choose another 'virtual_stages', or other 'first_stage_layers' and "
         "'last_stage_layers'"},
};

/// _lprobe: the end of each stage, each of the layers whose running sum is below its target; none
/// where the stages do not hold all.
std::vector<std::int64_t> ends_below(double bottleneck, std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> ends(static_cast<std::size_t>(stages), layers);
  double target = bottleneck;
  for (std::int64_t stage = 0; stage + 1 < stages; ++stage) {
    // bisect_left over 1, 2, 3 ...: the first layer whose sum reaches the target.
    const auto end = std::min(static_cast<std::int64_t>(std::ceil(target)) - 1, layers);
    ends[static_cast<std::size_t>(stage)] = end;
    if (end == layers) return ends;
    target = static_cast<double>(end) + bottleneck;
  }
  return target >= static_cast<double>(layers) ? ends : std::vector<std::int64_t>();
}

}  // namespace

bool leaves_layers_over(const Job& job) {
  const Parallelism& p = job.parallelism;
  if (has_own_ends(job) || job.given.listed_stages || !p.stage_layers.empty()) return false;
  const std::int64_t ends = (p.account_for_embedding ? 1 : 0) + (p.account_for_loss ? 1 : 0);
  return (decoder_layers_of(job) + ends) % stages_of(job) != 0;
}

bool leaves_uneven_middle(const Job& job) {
  if (!has_own_ends(job) || job.given.listed_stages) return false;
  // transformer_config.py: __post_init__: the stages between the two ends divide evenly over what
  // the ends leave. 30 layers, a last stage of 6, 4 stages: 24 over 3.
  const std::int64_t others = other_ranks(job.parallelism);
  const std::int64_t left = layers_of_others(job);
  if (others <= 0) return left != 0;
  return left < others || left % others != 0;
}

std::vector<std::int64_t> balanced_stages(std::int64_t layers, std::int64_t stages) {
  constexpr double kStep = 1e-3;
  double lower = static_cast<double>(layers) / static_cast<double>(stages);
  double upper = static_cast<double>(layers);
  while (upper > lower + kStep) {
    const double middle = lower + (upper - lower) / 2;
    if (ends_below(middle, layers, stages).empty()) {
      lower = middle + kStep;
    } else {
      upper = middle;
    }
  }
  std::vector<std::int64_t> counts = ends_below(upper, layers, stages);
  for (std::size_t i = counts.size(); i > 1; --i) counts[i - 1] -= counts[i - 2];
  return counts;
}

void divide_by_deepspeed(Job& job) {
  Parallelism& parallelism = job.parallelism;
  const std::int64_t layers = decoder_layers_of(job);
  const bool even = layers % parallelism.pipeline == 0;
  if (!is_megatron_deepspeed(job) || even || parallelism.divides_unequally()) return;
  std::vector<std::int64_t> stages = balanced_stages(layers, parallelism.pipeline);
  // A last stage may have the loss alone; another without a layer is left to the rules.
  const bool all = std::all_of(stages.begin(), stages.end(), [&](const std::int64_t& count) {
    return count > 0 || &count == &stages.back();
  });
  if (all) parallelism.stage_layers = std::move(stages);
}

std::vector<std::int64_t> stages_with_short_ends(std::int64_t layers, std::int64_t stages) {
  constexpr std::int64_t kEnds = 2;
  if (stages < kEnds) return {};
  if ((layers + kEnds) % stages == 0) {
    const std::int64_t each = (layers + kEnds) / stages;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), each);
    counts.front() = counts.back() = each - 1;
    return counts;
  }
  const std::int64_t each = (layers + stages - 1) / stages;
  const std::int64_t missing = each * stages - layers;
  const std::int64_t of_last = std::min(missing, each);
  if (missing - of_last > each) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), each);
  counts.back() -= of_last;
  counts.front() -= missing - of_last;
  return counts;
}

void divide_by_recipes(const Value& written, Job& job, Diagnostics& diagnostics) {
  const Implementation& implementation = job.training->implementation;
  if (!row_of(implementation.framework).has_layer_specs) return;
  if (implementation.layers == LayerSpec::legacy) return;
  Parallelism& parallelism = job.parallelism;
  const Value* pipeline = written.find("pipeline");
  const bool asked = parallelism.divides_unequally() || job.given.listed_stages;
  if (pipeline == nullptr || asked || !leaves_layers_over(job)) return;
  const std::int64_t layers = decoder_layers_of(job);
  std::vector<std::int64_t> stages = stages_with_short_ends(layers, stages_of(job));
  if (stages.empty()) return;
  Diagnostic warning = error_at(
      pipeline->span,
      std::to_string(layers) + " layers are not a multiple of " + std::to_string(stages.size()) +
          " stages: they are taken as dealt by Megatron-Bridge's recipes, fewer to the ends",
      "say so with 'pipeline_layout: \"" + pipeline_layout_text(stages, mtp_layers_of(job)) +
          "\"', or otherwise; Megatron refuses to guess");
  warning.severity = Severity::warning;
  diagnostics.push_back(std::move(warning));
  parallelism.stage_layers = std::move(stages);
}

std::span<const Rule> megatron_stage_rules() { return kStageRules; }

}  // namespace memest
