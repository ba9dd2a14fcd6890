#include "reader/frameworks/rules.hpp"

#include <array>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// The place of the rule's key, or of the implementation that refuses it.
SourceSpan span_of(const Value& root, const Rule& rule) {
  const Value* section = root.find(rule.section);
  const Value* key = section == nullptr ? nullptr : section->find(rule.key);
  if (key != nullptr) return key->span;
  return root.find("training")->find("implementation")->span;
}

constexpr std::array kPipelineRules = {
    Rule{"parallelism", "schedule",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return has_chunks(p.schedule) != (p.virtual_stages > 1) ||
                  (p.virtual_stages > 1 && p.pipeline == 1);
         },
         "an interleaved schedule is that of several stages a rank of a pipeline",
         "set 'pipeline', 'virtual_stages' and 'schedule: interleaved' together"},
    Rule{"parallelism", "virtual_stages",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // forward_backward_pipelining_with_interleaving raises for a last group of micro-batches
           // shorter than the pipeline; ScheduleInterleaved1F1B would take some that are no
           // multiple, 10 over 4 ranks in two rounds of 5.
           return p.virtual_stages > 1 && !is_v_shaped(p.schedule) &&
                  job.training->gradient_accumulation % p.pipeline != 0;
         },
         "an interleaved schedule takes as many micro-batches at once as the pipeline has ranks",
         "choose a 'global_batch' of a multiple of 'pipeline' micro-batches a rank"},
};

bool is_of_own_layers(const Job& job) {
  return row_of(job.training->implementation.framework).torch_precisions_alone;
}

constexpr std::array kRecipeRules = {
    Rule{
        "training", "precision",
        [](const Job& job) {
          return is_of_own_layers(job) && job.training->recipe.fp8_weight_copies > 0;
        },
        "the precision fp8 is that of Transformer Engine's layers, which torchtitan and nanoGPT "
        "do not have",
        "use amp-bf16 (with 'float8: {}' for torchao's linears in torchtitan), or 'implementation: "
        "transformers'"},
    Rule{"training", "precision",
         [](const Job& job) {
           const Recipe& recipe = job.training->recipe;
           return recipe.te_recipe && recipe.fp8_weight_copies == 0 && !job.training->te_linears;
         },
         "this precision is that of Transformer Engine's layers in Megatron",
         "use 'implementation: megatron', or another precision"},
    Rule{"training", "precision",
         [](const Job& job) {
           const std::string& name = job.training->recipe.name;
           return is_of_own_layers(job) && (name == "megatron" || name == "megatron-bf16-grad");
         },
         "the precisions megatron and megatron-bf16-grad are those of Megatron's optimizer, which "
         "torchtitan and nanoGPT do not have",
         "use amp-bf16, or 'implementation: megatron'"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           const LoopRow& loop = row_of(job.training->implementation.loop);
           return job.training->steps_in_backward && !loop.steps_in_backward;
         },
         "an optimizer that steps in the backward is available in torchtune's recipes",
         "leave 'in_backward' out, or use 'implementation: torchtune'"},
};

}  // namespace

std::span<const Rule> recipe_rules() { return kRecipeRules; }

std::int64_t decoder_layers_of(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder == nullptr ? 0 : decoder->layers();
}

std::int64_t mtp_layers_of(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder == nullptr ? 0 : decoder->mtp_layers;
}

std::span<const Rule> pipeline_rules() { return kPipelineRules; }

bool adapts_otherwise_than_by_lora(const Job& job) {
  const std::optional<Adapter>& adapter = job.model.adapter;
  return adapter && (adapter->kind != AdapterKind::lora || !adapter->whole_modules.empty());
}

bool recomputes_each_layer(const Recompute& recompute) {
  if (std::holds_alternative<NoRecompute>(recompute)) return true;
  const auto* full = std::get_if<FullRecompute>(&recompute);
  return full != nullptr && full->method == RecomputeMethod::uniform && full->layers == 1 &&
         !full->distribute;
}

void check_rules(std::span<const Rule> rules, const Value& root, const Job& job,
                 Diagnostics& diagnostics) {
  for (const Rule& rule : rules) {
    if (!rule.broken(job)) continue;
    diagnostics.push_back(error_at(span_of(root, rule), rule.message, rule.hint));
  }
}

}  // namespace memest
