// Wrappers that Megatron puts around its layers, and what of a job each does not run: Megatron-FSDP
// (--use-megatron-fsdp, optim_grads_params), and how a spec asks for it; checkpoints whose answer
// is thrown away and made again, and those of parts (recompute_modules); dispatchers of tokens
// around experts; Megatron-Bridge's adapters.
#include <array>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/layer_parts.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

bool in_units(const Job& job) { return shards_by<BucketShards>(job); }

/// Keys of torch's wrappers, which Megatron's has no words for.
constexpr std::array kKeysOfTorch = {"reshard_after_forward", "replicate", "sync_module_states"};

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
           if (!in_units(job) || !linears || !linears->param_gather) return false;
           // Where products want a transpose, fp8_create_transpose_cache makes one of each layer;
           // MXFP8 has a buffer of transposes, blockwise weights are quantised in whole buckets.
           return linears->recipe != TeRecipe::current ||
                  te_copies(linears->recipe, te_capability(job.hardware.gpu)) > 1;
         },
         "weights that Megatron-FSDP gathers in 8 bits with their transposes or in blocks are not "
         "available yet",
         "leave 'param_gather' out, write 'zero: 1', or use 'tensorwise' on a GPU of 10.0"},
    Rule{"training", "recompute",
         [](const Job& job) {
           return in_units(job) && !std::holds_alternative<NoRecompute>(job.training->recompute);
         },
         "recompute in Megatron-FSDP's units is not available yet",
         "leave 'recompute' out, or write 'zero: 1'"},
};

const Implementation& layers_of(const Job& job) { return job.training->implementation; }

/// The parts of layers that are recomputed; null where whole layers are, or none.
const SelectiveRecompute* parts_of(const Job& job) {
  return std::get_if<SelectiveRecompute>(&job.training->recompute);
}

bool remakes_activations(const Job& job) {
  return recomputes(job, &SelectiveRecompute::expert_activation);
}

bool quantises(const Job& job) { return job.training->te_linears.has_value(); }

constexpr std::array kRecomputeRules = {
    Rule{"training", "recompute",
         [](const Job& job) { return remakes_activations(job) && job.model.experts() == nullptr; },
         "the model has no experts whose activation could be recomputed",
         "leave 'moe-activation' out"},
    // transformer_config.py: "moe_act in recompute_modules is only supported with
    // moe_grouped_gemm".
    Rule{"training", "recompute",
         [](const Job& job) {
           return remakes_activations(job) && job.model.experts() != nullptr &&
                  layers_of(job).layers != LayerSpec::te;
         },
         "Megatron recomputes the activation of experts that are multiplied together alone, which "
         "those of its local layers are not",
         "leave 'moe-activation' out, or 'layers: local'"},
    // transformer_config.py: "mla_up_proj in recompute_modules is only supported with
    // multi_latent_attention".
    Rule{"training", "recompute",
         [](const Job& job) {
           return recomputes(job, &SelectiveRecompute::latent_projection) &&
                  !parts_of_layers(job).latent_projection;
         },
         "Megatron recomputes projections out of latents, which this model does not have",
         "leave 'mla-up-proj' out"},
    // Megatron runs the one checkpoint within the other; parts are followed side by side.
    Rule{"training", "recompute",
         [](const Job& job) {
           return recomputes(job, &SelectiveRecompute::experts) &&
                  (remakes_activations(job) ||
                   (recomputes(job, &SelectiveRecompute::shared_experts) &&
                    parts_of_layers(job).shared_experts));
         },
         "recompute of a part of what 'moe' recomputes is not available yet",
         "leave 'moe' out, or 'moe-activation' and 'shared-experts'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           const SelectiveRecompute* parts = parts_of(job);
           return parts != nullptr && parts->beyond_attention() &&
                  layers_of(job).layers == LayerSpec::legacy;
         },
         "Megatron-LM's legacy layers recompute the attention core alone of their parts",
         "write 'selective' or 'full'"},
    // transformer_config.py: "Delayed scaling does not support moe_act and layernorm recompute for
    // fp8".
    Rule{"training", "recompute",
         [](const Job& job) {
           return quantises(job) && job.training->te_linears->recipe == TeRecipe::delayed &&
                  (recomputes(job, &SelectiveRecompute::norms) || remakes_activations(job));
         },
         "Megatron recomputes no norms and no experts' activations beside delayed scaling",
         "leave 'norm' and 'moe-activation' out, or choose another recipe"},
    // transformer_config.py: is_te_min_version("2.6.0dev0").
    Rule{"training", "recompute",
         [](const Job& job) {
           return quantises(job) && layers_of(job).transformer_engine == TeRelease::te_2_2 &&
                  (recomputes(job, &SelectiveRecompute::norms) || remakes_activations(job));
         },
         "Megatron recomputes norms and experts' activations beside products in 8 bits from "
         "Transformer Engine 2.6 on",
         "leave 'norm' and 'moe-activation' out, or choose a later 'transformer_engine'"},
};

bool is_adapted(const Job& job) { return job.model.adapter.has_value(); }

constexpr std::array kAdapterRules = {
    Rule{"training", "adapter",
         [](const Job& job) { return is_adapted(job) && shards_by<BucketShards>(job); },
         "an adapter in Megatron-FSDP's units is not available yet", "write 'zero: 1'"},
    Rule{"training", "adapter",
         [](const Job& job) { return is_adapted(job) && job.model.quantized.has_value(); },
         "an adapter over a quantised base of Megatron's is not available yet",
         "write lora in place of qlora"},
    // A frozen embedding's result wants no gradient, so that no hook makes the first norm's answer
    // again.
    Rule{"training", "recompute",
         [](const Job& job) {
           const SelectiveRecompute* parts = parts_of(job);
           return is_adapted(job) && parts != nullptr &&
                  (parts->remakes() || parts->experts || parts->shared_experts);
         },
         "recompute of norms, of projections out of latents and of experts beside adapters is not "
         "available yet",
         "recompute 'attention-core' or 'feed-forward' alone"},
};

}  // namespace

void share_by_megatron_units(Job& job) {
  Parallelism& parallelism = job.parallelism;
  const bool own =
      job.training && row_of(job.training->implementation.framework).sharer == Sharer::megatron;
  if (!own || !parallelism.shards_rows()) return;
  parallelism.init_on_meta_device = parallelism.fsdp->init == ShardInit::meta;
  parallelism.fsdp.reset();
}

namespace {

/// --init-model-with-meta-device. _get_extra_te_kwargs (extensions/transformer_engine.py) makes
/// modules of Transformer Engine there; local ones name the GPU as they make their weights.
void check_megatron_init(const Value& written, const Job& job, Diagnostics& diagnostics) {
  if (written.text != "meta") {
    diagnostics.push_back(error_at(written.span, "Megatron makes its model on the GPU, or on meta",
                                   "write 'init: meta', or leave it out"));
  } else if (job.training->implementation.layers != LayerSpec::te) {
    diagnostics.push_back(error_at(written.span,
                                   "only layers of Transformer Engine are made on the meta device",
                                   "write 'layers: te', or leave 'init' out"));
  }
}

bool by_hybridep(const Job& job) {
  return job.training->implementation.token_dispatcher == TokenDispatcher::hybridep;
}

/// MoEFlexTokenDispatcher, and DeepEP's Hybrid-EP behind it.
constexpr std::array kDispatcherRules = {
    Rule{"training", "implementation",
         [](const Job& job) { return by_hybridep(job) && job.model.experts() == nullptr; },
         "the model has no experts, to which a dispatcher would carry tokens",
         "leave 'token_dispatcher' out"},
    // "Flex token dispatcher requires TPxEP > 1". Where the layout is left to a plan it has ranks
    // of experts or none; its candidates without them have no graph.
    Rule{"training", "implementation",
         [](const Job& job) {
           return by_hybridep(job) && job.model.experts() != nullptr && job.given.expert &&
                  job.parallelism.expert == 1;
         },
         "experts that every rank has need no dispatcher",
         "set 'parallelism.expert' to 2 or more, or leave 'token_dispatcher' out"},
    Rule{"training", "implementation",
         [](const Job& job) {
           return by_hybridep(job) && job.training->implementation.layers == LayerSpec::legacy;
         },
         "the flex dispatcher is of megatron-core's layers, not of the legacy ones",
         "leave 'token_dispatcher' out"},
    // Its kernels copy by the Tensor Memory Accelerator (hybrid_ep_backend.cuh).
    Rule{"training", "implementation",
         [](const Job& job) {
           const auto capability = job.hardware.gpu.compute_capability();
           return by_hybridep(job) && (!capability || *capability < kHopper);
         },
         "Hybrid-EP runs on GPUs of compute capability 9.0 and later",
         "leave 'token_dispatcher' out, or take a later GPU"},
    Rule{"training", "implementation",
         [](const Job& job) {
           const MixtureOfExperts* const experts = job.model.experts();
           return by_hybridep(job) && experts != nullptr && experts->capacity_factor > 0;
         },
         "Hybrid-EP beside experts of a capacity is not available yet",
         "leave 'capacity_factor' out"},
    Rule{"training", "implementation",
         [](const Job& job) {
           return by_hybridep(job) && job.parallelism.tensor > 1 &&
                  !job.parallelism.whole_experts();
         },
         "Hybrid-EP beside experts that tensor-parallel ranks share is not available yet",
         "write 'expert_tensor: 1'"},
};

}  // namespace

void check_token_dispatcher(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_rules(kDispatcherRules, root, job, diagnostics);
}

void check_megatron_units(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_rules(kUnitRules, root, job, diagnostics);
  const Value* parallelism = root.find("parallelism");
  const Value* fsdp = parallelism == nullptr ? nullptr : parallelism->find("fsdp");
  if (fsdp == nullptr) return;
  const Value* init = fsdp->find("init");
  if (init != nullptr) check_megatron_init(*init, job, diagnostics);
  for (const char* key : kKeysOfTorch) {
    const Value* written = fsdp->find(key);
    if (written == nullptr) continue;
    diagnostics.push_back(error_at(written->span,
                                   quote(key) + " is torch's FSDP's, and Megatron-FSDP has none",
                                   "leave it out"));
  }
}

void check_megatron_recompute(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_rules(kRecomputeRules, root, job, diagnostics);
}

bool adapts_parallel_layers(const Implementation& implementation) {
  return row_of(implementation.framework).sharer == Sharer::megatron;
}

void check_megatron_adapter(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_rules(kAdapterRules, root, job, diagnostics);
  const Value* adapter = root.find("training")->find("adapter");
  const Value* lora = adapter == nullptr ? nullptr : adapter->find("lora");
  const Value* dtype = lora == nullptr ? nullptr : lora->find("dtype");
  if (dtype == nullptr || dtype->text != "fp32" || !is_half(job.training->recipe.weights)) return;
  diagnostics.push_back(
      error_at(dtype->span, "Megatron-Bridge's adapters are of the type of the model's weights",
               "write 'dtype: model', or leave it out"));
}

}  // namespace memest
