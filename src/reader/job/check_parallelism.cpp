#include "reader/job/check_parallelism.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/pipeline_layout.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// A way to split a model, and the frameworks that do it here.
struct Way {
  std::string_view key;
  std::string_view name;
  bool (*is_used)(const Parallelism&);
  bool (*is_built)(const Job&);
};

const FrameworkRow& framework_of(const Job& job) {
  return row_of(job.forward()->implementation.framework);
}

const LoopRow& loop_of(const Job& job) { return row_of(job.forward()->implementation.loop); }

bool divides_experts(const Job& job) { return framework_of(job).splits.expert; }
bool divides_tensors(const Job& job) { return framework_of(job).splits.tensor; }
bool divides_layers(const Job& job) { return framework_of(job).splits.pipeline; }
bool divides_its_ends(const Job& job) { return framework_of(job).splits.own_ends; }
bool lists_stages(const Job& job) {
  return framework_of(job).splits.own_ends || framework_of(job).splits.deals_by_cost;
}
bool overlaps(const Job& job) { return framework_of(job).overlaps; }

bool runs_schedule(const Job& job) {
  switch (framework_of(job).schedules) {
    case PipelineSchedules::none:
      return false;
    case PipelineSchedules::gpipe:
      return job.parallelism.schedule == Schedule::gpipe;
    case PipelineSchedules::interleaved:
      return job.parallelism.schedule == Schedule::interleaved;
    case PipelineSchedules::all:
      return true;
  }
  unreachable("every framework has its schedules");
}

/// Which runs with Liger's kernels or torchao's modules were recorded: replicas, and row shards in
/// a loop other than the Trainer's.
bool has_own_modules(const Job& job) { return !job.forward()->replaces_modules(); }

bool has_own_modules_in_trainer(const Job& job) {
  return has_own_modules(job) || !row_of(job.forward()->implementation.loop).accelerate;
}

constexpr std::array kWays = {
    Way{"tensor", "tensor parallelism", [](const Parallelism& p) { return p.tensor > 1; },
        divides_tensors},
    Way{"pipeline", "pipeline parallelism", [](const Parallelism& p) { return p.pipeline > 1; },
        divides_layers},
    Way{"context", "context parallelism", [](const Parallelism& p) { return p.context > 1; },
        [](const Job& job) { return divides_sequences(job.forward()->implementation); }},
    Way{"expert", "expert parallelism", [](const Parallelism& p) { return p.expert > 1; },
        divides_experts},
    Way{"expert_tensor", "tensor parallelism of experts",
        [](const Parallelism& p) { return p.expert_tensor && *p.expert_tensor != p.tensor; },
        divides_experts},
    Way{"sequence", "sequence parallelism", [](const Parallelism& p) { return p.sequence; },
        divides_tensors},
    Way{"first_stage_layers", "a first stage of its own size",
        [](const Parallelism& p) { return p.first_stage_layers > 0; }, divides_its_ends},
    Way{"last_stage_layers", "a last stage of its own size",
        [](const Parallelism& p) { return p.last_stage_layers > 0; }, divides_its_ends},
    Way{"account_for_embedding", "an embedding that counts as a layer",
        [](const Parallelism& p) { return p.account_for_embedding; }, divides_its_ends},
    Way{"account_for_loss", "a loss that counts as a layer",
        [](const Parallelism& p) { return p.account_for_loss; }, divides_its_ends},
    Way{"pipeline_layout", "stages by a list of their layers",
        [](const Parallelism& p) { return !p.stage_layers.empty(); }, lists_stages},
    Way{"schedule", "the pipeline schedule",
        [](const Parallelism& p) { return p.schedule != Schedule::one_f_one_b; }, runs_schedule},
    Way{"virtual_stages", "an interleaved pipeline",
        [](const Parallelism& p) { return p.virtual_stages > 1; }, runs_schedule},
    Way{"overlap_grad_reduce", "'overlap_grad_reduce'",
        [](const Parallelism& p) { return p.overlap_grad_reduce; }, overlaps},
    Way{"overlap_param_gather", "'overlap_param_gather'",
        [](const Parallelism& p) { return p.overlap_param_gather; }, overlaps},
    Way{"fsdp", "FSDP1", [](const Parallelism& p) { return p.fsdp && p.fsdp->version == 1; },
        [](const Job& job) { return framework_of(job).fsdp1 && !loop_of(job).accelerate; }},
    Way{"fsdp", "FSDP1's hybrid sharding",
        [](const Parallelism& p) { return p.shards_flat() && p.fsdp->replicate > 1; },
        [](const Job&) { return false; }},
    Way{"fsdp", "FSDP2", [](const Parallelism& p) { return p.fsdp && p.fsdp->version == 2; },
        [](const Job& job) { return framework_of(job).fsdp2; }},
    Way{"fsdp", "FSDP1 beside Liger's kernels or float8 linears",
        [](const Parallelism& p) { return p.shards_flat(); }, has_own_modules},
    Way{"fsdp", "FSDP2 in the Trainer beside Liger's kernels or float8 linears",
        [](const Parallelism& p) { return p.shards_rows(); }, has_own_modules_in_trainer},
    Way{"zero", "ZeRO beside Liger's kernels or float8 linears",
        [](const Parallelism& p) { return p.zero != ZeroStage::none && !p.fsdp; }, has_own_modules},
    Way{"offload", "offload beside Liger's kernels or float8 linears",
        [](const Parallelism& p) { return p.offload.any(); }, has_own_modules},
};

/// The table says how DeepSpeed's ZeRO works, and so asks for it.
void check_deepspeed(const Value& written, const Job& job, Diagnostics& diagnostics) {
  const FrameworkRow& framework = framework_of(job);
  const bool around_megatron = job.training && job.training->implementation.deepspeed;
  if (framework.sharer != Sharer::deepspeed && !around_megatron) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "DeepSpeed in the implementation " + quote(framework.name),
                                         "leave 'deepspeed' out"));
  } else if (job.parallelism.fsdp) {
    diagnostics.push_back(error_at(written.span, "'fsdp' shards without DeepSpeed",
                                   "leave one of 'fsdp' and 'deepspeed' out"));
  } else if (job.parallelism.zero == ZeroStage::none) {
    diagnostics.push_back(error_at(written.span, "'deepspeed' says how ZeRO works, and 'zero' is 0",
                                   "set 'zero' to 1, 2 or 3"));
  }
  const Value* const zero_init = written.find("zero_init");
  if (job.model.quantized && as_flag(zero_init).value_or(false)) {
    diagnostics.push_back(error_at(zero_init->span,
                                   "transformers makes a quantised model without "
                                   "deepspeed.zero.Init",
                                   "leave 'zero_init' out"));
  }
}

bool steps_on_host(const Job& job) {
  return job.training.has_value() && job.parallelism.offload.optimizer;
}

/// Blockwise and paged states are bitsandbytes' own, whose kernels run on the GPU.
bool is_of_bitsandbytes(const Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.states, [](const OptimizerState& state) {
    return state.on_host || state.shape == StateShape::blockwise_8bit;
  });
}

/// deepspeed/runtime/engine.py, _configure_basic_optimizer: DeepSpeedCPUAdam, -Adagrad and -Lion;
/// zero_force_ds_cpu_optimizer refuses all others.
bool has_cpu_optimizer(const Optimizer& optimizer) {
  constexpr std::array<std::string_view, 4> kNames = {"adam", "adamw", "adagrad", "lion"};
  return std::ranges::find(kNames, optimizer.name) != kNames.end();
}

/// Who offloads what: DeepSpeed's ZeRO the optimizer, its stage 3 the weights too; FSDP2 both at
/// once.
void check_offload(const Value& written, const Job& job, Diagnostics& diagnostics) {
  const Parallelism& parallelism = job.parallelism;
  const HostOffload& offload = parallelism.offload;
  const FrameworkRow& framework = framework_of(job);
  const auto refuse = [&](std::string message, std::string hint) {
    diagnostics.push_back(error_at(written.span, std::move(message), std::move(hint)));
  };
  if (!offload.any()) return;
  const bool on_nvme = offload.optimizer_on_nvme || offload.parameters_on_nvme;
  const bool stage3 = parallelism.zero == ZeroStage::optimizer_gradients_weights;
  if (on_nvme && (parallelism.fsdp || !stage3)) {
    refuse("DeepSpeed's ZeRO 3 alone offloads to NVMe",
           "set 'zero' to 3 and leave 'fsdp' out, or write cpu");
  } else if (parallelism.shards_flat()) {
    diagnostics.push_back(
        unavailable_at(written.span, "offload under FSDP1", "set 'fsdp.version' to 2"));
  } else if (steps_on_host(job) && is_of_bitsandbytes(job.training->optimizer)) {
    refuse("bitsandbytes' optimizers step on the GPU alone",
           "leave 'offload' out, or choose an optimizer without 8-bit states");
  } else if (parallelism.fsdp) {
    if (offload.optimizer && offload.parameters) return;
    refuse("FSDP2's CPUOffloadPolicy takes weights, gradients and states to the host together",
           "write {optimizer: cpu, parameters: cpu}");
  } else if (job.training && job.training->recipe.gathered_units) {
    refuse(
        "the precision " + quote(job.training->recipe.name) + " is FSDP2's, and 'fsdp' is not set",
        "set 'fsdp' to {version: 2}, or leave 'offload' out");
  } else if (framework.sharer != Sharer::deepspeed) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "offload in the implementation " + quote(framework.name),
                                         "leave 'offload' out"));
  } else if (parallelism.zero == ZeroStage::none) {
    refuse("'offload' is DeepSpeed's or FSDP2's, and this job has neither",
           "set 'zero' to 1, 2 or 3, or 'fsdp' to {version: 2}");
  } else if (steps_on_host(job) && !has_cpu_optimizer(job.training->optimizer)) {
    diagnostics.push_back(unavailable_at(
        written.span, "the optimizer " + quote(job.training->optimizer.name) + " on the host",
        "DeepSpeed has Adam, AdamW, Adagrad and Lion there"));
  } else if (offload.parameters && parallelism.zero != ZeroStage::optimizer_gradients_weights) {
    refuse("weights are offloaded in ZeRO 3 alone", "set 'zero' to 3, or leave 'parameters' out");
  } else if (job.training &&
             size_of(job.training->recipe.gradients) > size_of(job.training->recipe.weights)) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "offload of gradients that are summed in a wider type",
                                         "choose a precision whose gradients are in the weights'"));
  }
}

/// FSDP1 makes every weight of a unit a view of one flat tensor (_validate_tensors_to_flatten asks
/// for one type), so that the frozen ones of a layer are trained in part; accelerate wraps peft's
/// model by a policy of its own (update_fsdp_plugin_peft).
void check_flat_adapter(const Value& written, const Job& job, Diagnostics& diagnostics) {
  const Adapter& adapter = *job.model.adapter;
  const DType weights = job.forward()->recipe.weights;
  if (adapter.dtype != weights && !job.parallelism.fsdp->trained_apart) {
    diagnostics.push_back(error_at(written.span,
                                   "FSDP1 puts a layer's weights in " +
                                       std::string(name_of(weights)) + " and its adapters in " +
                                       std::string(name_of(adapter.dtype)) +
                                       " into one flat tensor, which has one type",
                                   "write 'dtype: model' in the adapter, or 'units: adapters'"));
  } else if (!adapter.whole_modules.empty() || adapts(adapter, "lm_head")) {
    diagnostics.push_back(unavailable_at(written.span, "an adapter outside the layers under FSDP1",
                                         "leave 'modules_to_save' and the output head out"));
  }
}

void check_adapter(const Value& written, const Job& job, Diagnostics& diagnostics) {
  if (job.parallelism.shards_flat()) check_flat_adapter(written, job, diagnostics);
  const Adapter& adapter = *job.model.adapter;
  const bool outside = !adapter.whole_modules.empty() || adapts(adapter, "lm_head");
  if (job.parallelism.shards_rows() && loop_of(job).accelerate && outside) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "an adapter outside the layers under FSDP2 in the Trainer",
                                         "leave 'modules_to_save' and the output head out"));
  }
}

/// FSDP2's ways of the same are other calls: set_requires_gradient_sync, a fully_shard a module.
void check_flat_keys(const Value& fsdp, const Job& job, Diagnostics& diagnostics) {
  const FullySharded& sharded = *job.parallelism.fsdp;
  if (sharded.no_sync && sharded.version != 1) {
    diagnostics.push_back(error_at(fsdp.find("no_sync")->span, "FSDP2 has no 'no_sync'",
                                   "leave it out, or set 'version' to 1"));
  }
  if (!sharded.trained_apart) return;
  if (sharded.version != 1 || !job.model.adapter) {
    diagnostics.push_back(error_at(fsdp.find("units")->span,
                                   "units of adapters are FSDP1's, of a model that has adapters",
                                   "write 'units: block'"));
  } else if (job.forward()->recipe.casts_gathered()) {
    // peft's layer casts its input to what lora_A's weight is outside of its unit: fp32.
    diagnostics.push_back(unavailable_at(fsdp.find("units")->span,
                                         "units of adapters that are gathered in another type",
                                         "use bf16 or fp32, or write 'units: block'"));
  }
}

/// Allows the recorded: a plain loop's three ways, the Trainer's two (cpu_ram_efficient_loading is
/// `meta`). torchtitan 0.2.2, Trainer.__init__, makes the model under torch.device("meta");
/// fully_shard has no sync_module_states.
void check_init(const Value& fsdp, const Job& job, Diagnostics& diagnostics) {
  const Value* sync = fsdp.find("sync_module_states");
  if (sync != nullptr && job.parallelism.fsdp->sync_module_states &&
      job.parallelism.shards_rows()) {
    diagnostics.push_back(error_at(sync->span, "FSDP2 has no 'sync_module_states'",
                                   "leave it out, or set 'version' to 1"));
  }
  const Value* written = fsdp.find("init");
  if (written == nullptr || !job.parallelism.fsdp->init) return;
  const ShardInit init = *job.parallelism.fsdp->init;
  const std::string quoted_init = quote(name_of(init));
  const bool trainer = loop_of(job).accelerate;
  const bool usual = init == (trainer ? ShardInit::host : ShardInit::meta);
  const FrameworkRow& framework = framework_of(job);
  if (framework.only_init && init != *framework.only_init) {
    diagnostics.push_back(error_at(written->span,
                                   std::string(framework.name) + " makes its model on the " +
                                       std::string(name_of(*framework.only_init)) + " device",
                                   "leave 'init' out"));
  } else if (trainer && init == ShardInit::device) {
    diagnostics.push_back(unavailable_at(written->span, "init " + quoted_init + " in the Trainer",
                                         "leave 'init' out, or write meta or host"));
  } else if (job.parallelism.shards_rows() && !usual && job.parallelism.offload.any()) {
    diagnostics.push_back(unavailable_at(written->span, "init " + quoted_init + " beside 'offload'",
                                         "leave 'init' out"));
  } else if (job.parallelism.shards_rows() && !usual && !trainer && job.model.adapter) {
    diagnostics.push_back(unavailable_at(
        written->span, "init " + quoted_init + " of a model with an adapter", "leave 'init' out"));
  }
}

/// A rank's actions are listed one by one; no published run has a tenth as many.
constexpr std::int64_t kMostPipelined = std::int64_t{1} << 16U;

void check_pipelined(const Value& pipeline, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.parallelism.pipeline < 2) return;
  const std::int64_t count = job.training->gradient_accumulation;
  if (count <= kMostPipelined) return;
  diagnostics.push_back(error_at(pipeline.span,
                                 std::to_string(count) + " micro-batches in a pipeline, " +
                                     std::to_string(kMostPipelined) + " at most",
                                 "a larger 'micro_batch' or more 'data' ranks make fewer"));
}

/// Refuses the argument in programs of which no run with it was recorded.
void check_unused(const Value& ddp, const Job& job, Diagnostics& diagnostics) {
  const bool by_ddp = shards_by<ReplicasOfDdp>(job) && framework_of(job).saves_on_cpu;
  if (by_ddp || job.parallelism.data == 1) return;
  diagnostics.push_back(unavailable_at(ddp.find("find_unused_parameters")->span,
                                       "'find_unused_parameters' but of DistributedDataParallel in "
                                       "a loop of PyTorch's",
                                       "leave it out"));
}

}  // namespace

void check_parallelism(const Value* written, const Job& job, Diagnostics& diagnostics) {
  if (written == nullptr || job.forward() == nullptr) return;
  const Parallelism& parallelism = job.parallelism;
  for (const Way& way : kWays) {
    const Value* value = written->find(way.key);
    if (value == nullptr || !way.is_used(parallelism) || way.is_built(job)) continue;
    diagnostics.push_back(unavailable_at(
        value->span,
        std::string(way.name) + " in the implementation " + quote(framework_of(job).name),
        "it comes with a later version; leave '" + std::string(way.key) + "' out"));
  }
  check_pipeline_layout(*written, job, diagnostics);
  if (const Value* deepspeed = written->find("deepspeed")) {
    check_deepspeed(*deepspeed, job, diagnostics);
  }
  if (const Value* pipeline = written->find("pipeline")) {
    check_pipelined(*pipeline, job, diagnostics);
  }
  if (const Value* offload = written->find("offload")) check_offload(*offload, job, diagnostics);
  if (parallelism.ddp.finds_unused) check_unused(*written->find("ddp"), job, diagnostics);
  const Value* fsdp = written->find("fsdp");
  if (fsdp != nullptr && parallelism.fsdp && job.model.adapter) {
    check_adapter(*fsdp, job, diagnostics);
  }
  if (fsdp != nullptr && parallelism.fsdp) {
    check_init(*fsdp, job, diagnostics);
    check_flat_keys(*fsdp, job, diagnostics);
  }
  if (parallelism.fsdp && parallelism.data % parallelism.fsdp->replicate != 0) {
    const std::string replicas = std::to_string(parallelism.fsdp->replicate);
    diagnostics.push_back(error_at(written->find("fsdp")->span,
                                   "'data' " + std::to_string(parallelism.data) +
                                       " is not a multiple of 'fsdp.replicate' " + replicas,
                                   "each of the replicas has as many ranks"));
  }
}

}  // namespace memest
