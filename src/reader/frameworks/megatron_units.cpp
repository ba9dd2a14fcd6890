// Megatron-FSDP (--use-megatron-fsdp, optim_grads_params): how a spec asks for it, and what of a
// job it does not run.
#include <array>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

bool in_units(const Job& job) { return shards_by<BucketShards>(job); }

/// Keys of torch's wrappers, which Megatron's has no words for.
constexpr std::array kKeysOfTorch = {"reshard_after_forward", "replicate", "init",
                                     "sync_module_states"};

constexpr std::array kUnitRules = {
    Rule{"parallelism", "zero",
         [](const Job& job) { return job.parallelism.zero == ZeroStage::optimizer_gradients; },
         "Megatron's distributed optimizer is ZeRO 1 and Megatron-FSDP ZeRO 3; its stage between "
         "them (optim_grads) is not available yet",
         "write 1 or 3"},
    Rule{"parallelism", "zero",
         [](const Job& job) { return in_units(job) && job.parallelism.shard_ranks() == 1; },
         "Megatron-FSDP shards over data-parallel ranks, and there is one",
         "write 'distributed_optimizer: true', or set 'data'"},
    Rule{"parallelism", "pipeline",
         [](const Job& job) { return in_units(job) && job.parallelism.pipeline > 1; },
         "a pipeline of Megatron-FSDP's units is not available yet",
         "leave 'pipeline' out, or write 'zero: 1'"},
    Rule{"parallelism", "zero",
         [](const Job& job) { return in_units(job) && job.model.experts() != nullptr; },
         "Megatron-FSDP around mixtures of experts is not available yet", "write 'zero: 1'"},
    Rule{"parallelism", "zero",
         [](const Job& job) {
           return in_units(job) && job.training->implementation.layers != LayerSpec::te &&
                  job.training->implementation.layers != LayerSpec::local;
         },
         "Megatron's legacy layers come without Megatron-FSDP", "write 'zero: 1'"},
    Rule{"training", "precision",
         [](const Job& job) {
           const DType weights = job.training->recipe.weights;
           return in_units(job) && weights != DType::bf16;
         },
         "Megatron-FSDP of other weights than bf16 is not available yet",
         "use megatron or megatron-bf16-grad, or write 'zero: 1'"},
    Rule{"training", "float8",
         [](const Job& job) {
           const auto& linears = job.training->te_linears;
           return in_units(job) && linears && linears->param_gather;
         },
         "weights that Megatron-FSDP gathers in 8 bits are not available yet",
         "leave 'param_gather' out, or write 'zero: 1'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           return in_units(job) && !std::holds_alternative<NoRecompute>(job.training->recompute);
         },
         "recompute in Megatron-FSDP's units is not available yet",
         "leave 'recompute' out, or write 'zero: 1'"},
};

}  // namespace

void share_by_megatron_units(Job& job) {
  Parallelism& parallelism = job.parallelism;
  const bool own =
      job.training && row_of(job.training->implementation.framework).sharer == Sharer::megatron;
  if (own && parallelism.shards_rows()) parallelism.fsdp.reset();
}

void check_megatron_units(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_rules(kUnitRules, root, job, diagnostics);
  const Value* parallelism = root.find("parallelism");
  const Value* fsdp = parallelism == nullptr ? nullptr : parallelism->find("fsdp");
  if (fsdp == nullptr) return;
  for (const char* key : kKeysOfTorch) {
    const Value* written = fsdp->find(key);
    if (written == nullptr) continue;
    diagnostics.push_back(error_at(written->span,
                                   quote(key) + " is torch's FSDP's, and Megatron-FSDP has none",
                                   "leave it out"));
  }
}

}  // namespace memest
