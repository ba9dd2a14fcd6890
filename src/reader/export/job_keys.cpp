#include "reader/export/job_keys.hpp"

#include <algorithm>
#include <functional>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "reader/export/adapter_key.hpp"
#include "reader/export/written.hpp"
#include "reader/frameworks/pipeline_layout.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

const TrainingSpec& training(const Job& job) { return *job.training; }
const Parallelism& layout(const Job& job) { return job.parallelism; }

bool has_stages(const Job& job) { return layout(job).pipeline > 1; }

std::string listed_stages(const Job& job) {
  const std::vector<std::int64_t>& stages = layout(job).stage_layers;
  return stages.empty() ? written_as(kNoneWord) : pipeline_layout_text(stages, mtp_layers_of(job));
}

std::string offload_of_activations(const Job& job) {
  if (const std::int64_t layers = training(job).offloaded_layers; layers > 0) {
    return "{method: cpu_offloading, layers: " + written_as(layers) + "}";
  }
  const auto& offload = training(job).offload_activations;
  if (!offload) return written_as(kNoneWord);
  return "{method: save_on_cpu, pin_memory: " + written_as(offload->pin_memory) + "}";
}

std::string padding_free(const Job& job) {
  const auto& joined = training(job).padding_free;
  if (!joined || joined->documents == 1) return written_as(joined.has_value());
  return "{documents: " + written_as(joined->documents) + "}";
}

/// A probability of zero is as if dropout were off.
std::string dropout(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return training(job).dropout || (decoder != nullptr && decoder->dropout == Dropout{}) ? "own"
                                                                                        : "off";
}

std::string float8(const Job& job) {
  if (const auto& narrow = training(job).te_linears) {
    return "{recipe: " + written_as(name_of(narrow->recipe)) +
           ", param_gather: " + written_as(narrow->param_gather) +
           ", first_layers_bf16: " + written_as(narrow->first_bf16) +
           ", last_layers_bf16: " + written_as(narrow->last_bf16) + "}";
  }
  const auto& linears = training(job).float8;
  if (!linears) return written_as(kNoneWord);
  return "{recipe: " + written_as(name_of(linears->recipe)) +
         ", all_gather: " + written_as(linears->all_gather) +
         ", filter_fqns: " + list(linears->filter_fqns) + "}";
}

std::string liger(const Job& job) {
  const LigerKernels& kernels = training(job).implementation.liger;
  if (!kernels.any()) return written_as(kNoneWord);
  return "{rope: " + written_as(kernels.rope) + ", rms_norm: " + written_as(kernels.rms_norm) +
         ", gated: " + written_as(kernels.gated) +
         ", fused_linear_cross_entropy: " + written_as(kernels.fused_linear_cross_entropy) + "}";
}

std::string cuda_graph(const Job& job) {
  const CudaGraphs& graphs = training(job).implementation.cuda_graph;
  if (graphs.full_iteration) return written_as(std::string_view("full_iteration"));
  if (!graphs.of_layers()) return written_as(std::string_view("off"));
  std::vector<std::string> scopes;
  for (const GraphScope scope : kGraphScopes) {
    if (graphs.has(scope)) scopes.emplace_back(name_of(scope));
  }
  return list(scopes);
}

std::string units(const Job& job) {
  const auto& fsdp = layout(job).fsdp;
  if (!fsdp) return written_as(kNoneWord);
  std::string keys = "{version: " + written_as(std::int64_t{fsdp->version}) +
                     ", reshard_after_forward: " + written_as(name_of(layout(job).reshard())) +
                     ", replicate: " + written_as(fsdp->replicate);
  if (fsdp->init) keys += ", init: " + written_as(name_of(*fsdp->init));
  if (fsdp->sync_module_states) keys += ", sync_module_states: true";
  if (fsdp->trained_apart) keys += ", units: adapters";
  if (fsdp->no_sync) keys += ", no_sync: true";
  return keys + "}";
}

std::string deepspeed(const Job& job) {
  const auto zero = sharding_as<DeepSpeedZero>(job);
  if (!zero) return written_as(kNoneWord);
  const DeepSpeed& keys = zero->settings;
  const std::string keys_of_all =
      "{reduce_bucket_size: " + written_as(keys.reduce_bucket_size) +
      ", overlap_comm: " + written_as(zero->overlaps()) +
      ", contiguous_gradients: " + written_as(keys.contiguous_gradients);
  if (!zero->shards_weights()) return keys_of_all + "}";
  const auto size = [](std::int64_t elements, bool automatic) {
    return automatic ? std::string("auto") : written_as(elements);
  };
  return keys_of_all +
         ", stage3_prefetch_bucket_size: " + size(keys.prefetch_bucket_size, keys.auto_prefetch) +
         ", stage3_param_persistence_threshold: " +
         size(keys.persistence_threshold, keys.auto_persistence) +
         ", stage3_max_live_parameters: " + written_as(keys.max_live_parameters) +
         ", stage3_max_reuse_distance: " + written_as(keys.max_reuse_distance) +
         ", zero_init: " + written_as(keys.zero_init) +
         ", sub_group_size: " + written_as(keys.sub_group_size) + "}";
}

std::string offload(const Job& job) {
  const HostOffload& states = layout(job).offload;
  if (!states.any()) return written_as(kNoneWord);
  return "{optimizer: " + written_as(name_of(states.device_of_optimizer())) +
         ", parameters: " + written_as(name_of(states.device_of_parameters())) +
         ", pin_memory: " + written_as(states.pinned) + "}";
}

std::string buckets(const Job& job) {
  const auto replicas = sharding_as<ReplicasOfDdp>(job);
  if (!replicas) return written_as(kNoneWord);
  return "{bucket_mb: " + written_as(replicas->buckets.bucket_cap.value() / kMiB) +
         ", gradient_as_bucket_view: " + written_as(replicas->buckets.gradient_as_bucket_view) +
         (replicas->buckets.finds_unused
              ? ", find_unused_parameters: " + written_as(*replicas->buckets.finds_unused)
              : "") +
         "}";
}

std::string compression(const Job& job) {
  const ModelSpec& model = job.model;
  if (model.quantized) return "{quantize: " + spec_value_of(*model.quantized) + "}";
  if (model.low_rank) return "{low_rank: ...}";
  return model.shared_layers ? "{share_layers: ...}" : written_as(kNoneWord);
}

std::string images(const Job& job) {
  const auto& vision = job.model.vision;
  return vision && vision->images > 0 ? written_as(vision->images) : written_as(kNoneWord);
}

std::string image_size(const Job& job) {
  const auto& vision = job.model.vision;
  if (!vision || !vision->tower.packed || vision->tower.patches.height == 0) {
    return written_as(kNoneWord);
  }
  const PatchEmbedding& patches = vision->tower.patches;
  return list({written_as(patches.height), written_as(patches.width)});
}

std::string frozen_parts(const Job& job) {
  const auto parts = job.model.adapter ? std::vector<std::string>() : parts_of_images(job);
  return parts.empty() ? written_as(kNoneWord) : list(parts);
}

std::string allocator(const Job& job) {
  const std::string environment = environment_text_of(job.allocator);
  return environment.empty() ? written_as(kNoneWord) : environment;
}

std::string kept_in(std::string_view state, const Job& job) {
  const std::string_view type = own_type_of(state, training(job).optimizer);
  return written_as(type.empty() ? kNoneWord : type);
}

/// Main parameters that Megatron keeps are those that nobody asks to have otherwise.
std::string main_parameters(const Job& job) {
  const Optimizer& optimizer = training(job).optimizer;
  const bool by_program = optimizer.typed && optimizer.main_parameters() == nullptr;
  return by_program ? "remainders" : kept_in("master_param", job);
}

constexpr JobKey kTrainingKeys[] = {
    {"training.seq_len", [](const Job& job) { return written_as(training(job).seq_len); }},
    {"training.micro_batch", [](const Job& job) { return written_as(training(job).micro_batch); }},
    {"training.gradient_accumulation",
     [](const Job& job) { return written_as(training(job).gradient_accumulation); }},
    {"training.precision", [](const Job& job) { return training(job).recipe.name; }},
    {"training.optimizer.name", [](const Job& job) { return training(job).optimizer.name; }},
    {"training.optimizer.implementation",
     [](const Job& job) { return written_as(name_of(training(job).optimizer_implementation)); }},
    {"training.optimizer.in_backward",
     [](const Job& job) { return written_as(training(job).steps_in_backward); }},
    {"training.optimizer.exp_avg", [](const Job& job) { return kept_in("exp_avg", job); }},
    {"training.optimizer.exp_avg_sq", [](const Job& job) { return kept_in("exp_avg_sq", job); }},
    {"training.optimizer.main_params", [](const Job& job) { return main_parameters(job); }},
    {"training.recompute", [](const Job& job) { return spec_value_of(training(job).recompute); }},
    {"training.offload_activations", offload_of_activations},
    {"training.clip_gradients",
     [](const Job& job) { return written_as(training(job).clip_gradients); }},
    {"training.zero_grad",
     [](const Job& job) {
       return written_as(training(job).zero_grad == ZeroGrad::zeros ? "zeros" : "set-to-none");
     }},
    {"training.hold_outputs",
     [](const Job& job) { return written_as(training(job).hold_outputs); }},
    {"training.ema", [](const Job& job) { return written_as(training(job).averages_weights); }},
    {"training.use_cache", [](const Job& job) { return written_as(training(job).use_cache); }},
    {"training.loss",
     [](const Job& job) {
       const bool logits = training(job).loss == TrainingLoss::sum_of_logits;
       return written_as(logits ? "sum-of-logits" : "cross-entropy");
     }},
    {"training.padding_free", padding_free},
    {"training.completion_len",
     [](const Job& job) {
       const std::int64_t written = training(job).completion_len;
       return written > 0 ? written_as(written) : written_as(kNoneWord);
     }},
    {"training.dropout", dropout},
    {"training.adapter", adapter_text},
    {"training.float8", float8},
    {"training.images", images},
    {"training.image_size", image_size},
    {"training.freeze", frozen_parts},
    {"training.teacher",
     [](const Job& job) {
       const auto& teacher = training(job).teacher;
       const bool written = teacher != nullptr && teacher->use == TeacherUse::distillation;
       return written ? "{...}" : written_as(kNoneWord);
     }},
    {"training.data.workers",
     [](const Job& job) {
       return written_as(training(job).data ? training(job).data->workers : std::int64_t{0});
     }},
    {"training.data.prefetch",
     [](const Job& job) {
       const auto& data = training(job).data;
       return data && data->workers > 0 ? written_as(data->prefetch) : written_as(kNoneWord);
     }},
    {"training.data.pin_memory",
     [](const Job& job) {
       const auto& data = training(job).data;
       return written_as(data ? data->pin_memory
                              : row_of(training(job).implementation.loop).pins_batches);
     }},
    {"compression", compression},
};

constexpr JobKey kImplementation[] = {
    {"training.implementation.loop",
     [](const Job& job) { return written_as(name_of(training(job).implementation.loop)); }},
    {"training.implementation.attention",
     [](const Job& job) { return written_as(name_of(training(job).implementation.attention)); }},
    {"training.implementation.loss",
     [](const Job& job) { return written_as(name_of(training(job).implementation.loss)); }},
    {"training.implementation.loss_parallel",
     [](const Job& job) { return written_as(training(job).implementation.loss_parallel); }},
    {"training.implementation.layers",
     [](const Job& job) { return written_as(name_of(training(job).implementation.layers)); }},
    {"training.implementation.masked_softmax_fusion",
     [](const Job& job) { return written_as(training(job).implementation.masked_softmax_fusion); }},
    {"training.implementation.bias_gelu_fusion",
     [](const Job& job) { return written_as(training(job).implementation.bias_gelu_fusion); }},
    {"training.implementation.bias_dropout_fusion",
     [](const Job& job) { return written_as(training(job).implementation.bias_dropout_fusion); }},
    {"training.implementation.deepspeed",
     [](const Job& job) { return written_as(training(job).implementation.deepspeed); }},
    {"training.implementation.transformer_engine",
     [](const Job& job) {
       return written_as(name_of(training(job).implementation.transformer_engine));
     }},
    {"training.implementation.transformers",
     [](const Job& job) { return written_as(name_of(training(job).implementation.transformers)); }},
    {"training.implementation.torch",
     [](const Job& job) { return written_as(name_of(training(job).implementation.torch)); }},
    {"training.implementation.torchtitan",
     [](const Job& job) { return written_as(name_of(training(job).implementation.torchtitan)); }},
    {"training.implementation.compile",
     [](const Job& job) { return written_as(name_of(training(job).implementation.compile)); }},
    {"training.implementation.cuda_graph", cuda_graph},
    {"training.implementation.token_dispatcher",
     [](const Job& job) {
       return written_as(name_of(training(job).implementation.token_dispatcher));
     }},
    {"training.implementation.liger", liger},
};

constexpr JobKey kLayoutKeys[] = {
    {"parallelism.data", [](const Job& job) { return written_as(layout(job).data); }},
    {"parallelism.tensor", [](const Job& job) { return written_as(layout(job).tensor); }},
    {"parallelism.pipeline", [](const Job& job) { return written_as(layout(job).pipeline); }},
    {"parallelism.context", [](const Job& job) { return written_as(layout(job).context); }},
    {"parallelism.context_exchange",
     [](const Job& job) {
       const bool cut = layout(job).context > 1;
       return written_as(name_of(cut ? layout(job).context_exchange : ContextExchange::ring));
     }},
    {"parallelism.expert", [](const Job& job) { return written_as(layout(job).expert); }},
    {"parallelism.expert_tensor",
     [](const Job& job) {
       const Parallelism& ranks = layout(job);
       return written_as(
           job.model.experts() == nullptr ? 1 : ranks.expert_tensor.value_or(ranks.tensor));
     }},
    {"parallelism.sequence", [](const Job& job) { return written_as(layout(job).sequence); }},
    {"parallelism.schedule",
     [](const Job& job) {
       return written_as(name_of(has_stages(job) ? layout(job).schedule : Schedule::one_f_one_b));
     }},
    {"parallelism.virtual_stages",
     [](const Job& job) {
       return written_as(has_stages(job) ? layout(job).virtual_stages : std::int64_t{1});
     }},
    {"parallelism.first_stage_layers",
     [](const Job& job) { return written_as(layout(job).first_stage_layers); }},
    {"parallelism.last_stage_layers",
     [](const Job& job) { return written_as(layout(job).last_stage_layers); }},
    {"parallelism.account_for_embedding",
     [](const Job& job) { return written_as(layout(job).account_for_embedding); }},
    {"parallelism.account_for_loss",
     [](const Job& job) { return written_as(layout(job).account_for_loss); }},
    {"parallelism.pipeline_layout", listed_stages},
    {"parallelism.zero",
     [](const Job& job) {
       return written_as(static_cast<std::int64_t>(zero_stage_of(sharding_of(job))));
     }},
    {"parallelism.ddp", buckets},
    {"parallelism.deepspeed", deepspeed},
    {"parallelism.fsdp", units},
    {"parallelism.offload", offload},
    {"parallelism.distributed_optimizer",
     [](const Job& job) { return written_as(layout(job).distributed_optimizer); }},
    {"parallelism.overlap_grad_reduce",
     [](const Job& job) { return written_as(layout(job).overlap_grad_reduce); }},
    {"parallelism.overlap_param_gather",
     [](const Job& job) { return written_as(layout(job).overlap_param_gather); }},
    {"allocator", allocator},
};

std::vector<JobKey> joined_keys() {
  std::vector<JobKey> all(std::begin(kTrainingKeys), std::end(kTrainingKeys));
  all.insert(all.end(), std::begin(kImplementation), std::end(kImplementation));
  all.insert(all.end(), std::begin(kLayoutKeys), std::end(kLayoutKeys));
  return all;
}

/// "[1:2,2:4,>:4]"; one number where every size has the same.
std::string text_of_divisions(const RoundingDivisions& divisions) {
  if (std::ranges::adjacent_find(divisions, std::not_equal_to<>()) == divisions.end()) {
    return written_as(divisions.front());
  }
  std::string entries;
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    entries += (entries.empty() ? "" : ",") + written_as(std::int64_t{1} << i) + ":" +
               written_as(divisions[i]);
  }
  return "[" + entries + "]";
}

}  // namespace

std::span<const JobKey> job_keys() {
  static const std::vector<JobKey> keys = joined_keys();
  return keys;
}

std::string text_of_key(const Job& job, std::string_view name) {
  const auto key = std::ranges::find(job_keys(), name, &JobKey::name);
  expect(key != job_keys().end(), "a key of a job that is in no table");
  return key->text(job);
}

std::string plain_decimal(double number) {
  std::string digits = std::to_string(number);
  digits.erase(std::max(digits.find_last_not_of('0'), digits.find('.') + 1) + 1);
  return digits;
}

std::string environment_text_of(const AllocatorSettings& allocator) {
  std::string options;
  const auto add = [&options](std::string_view name, const std::string& value) {
    options += (options.empty() ? "" : ",") + std::string(name) + ":" + value;
  };
  if (allocator.expandable_segments) add("expandable_segments", "True");
  if (allocator.max_split_size) {
    add("max_split_size_mb", written_as(allocator.max_split_size->value() / kMiB));
  }
  if (allocator.roundup_power2_divisions != RoundingDivisions{}) {
    add("roundup_power2_divisions", text_of_divisions(allocator.roundup_power2_divisions));
  }
  if (allocator.garbage_collection_threshold) {
    add("garbage_collection_threshold", plain_decimal(*allocator.garbage_collection_threshold));
  }
  return options;
}

}  // namespace memest
