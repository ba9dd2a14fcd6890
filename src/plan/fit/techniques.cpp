// The techniques that a job may still take, by what its program has words for.
#include "plan/fit/techniques.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/fit.hpp"
#include "memest/spec/change_words.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/layer_parts.hpp"

namespace memest {
namespace {

std::string text(std::string_view words) { return std::string(words); }

std::string replaced(std::string in, std::string_view from, const std::string& to) {
  for (std::size_t at = in.find(from); at != std::string::npos; at = in.find(from, at)) {
    in.replace(at, from.size(), to);
    at += to.size();
  }
  return in;
}

constexpr const char* kRounds = "numbers are kept in fewer bits, and round";
constexpr const char* kOtherModel = "trains adapters in place of the model: for fine-tuning";

/// The beginning of the call in torch.optim; empty for optimizers that are not PyTorch's own.
std::string_view torch_call_of(std::string_view optimizer) {
  struct Call {
    std::string_view name;
    std::string_view call;
  };
  constexpr std::array kCalls = {Call{"adam", "Adam(model.parameters()"},
                                 Call{"adamw", "AdamW(model.parameters()"},
                                 Call{"amsgrad", "Adam(model.parameters(), amsgrad=True"},
                                 Call{"sgd", "SGD(model.parameters()"},
                                 Call{"momentum", "SGD(model.parameters(), momentum=0.9"}};
  const auto* const found = std::ranges::find(kCalls, optimizer, &Call::name);
  return found == kCalls.end() ? std::string_view() : found->call;
}

class TechniqueList {
 public:
  explicit TechniqueList(const Job& job)
      : job_(job), training_(*job.training), words_(change_words_of(training_.implementation)) {}

  std::vector<Technique> list() && {
    recompute();
    saved_tensors();
    micro_batches();
    optimizers();
    kernels();
    sharding();
    others();
    return std::move(list_);
  }

 private:
  void add(Technique technique) {
    if (!technique.change.empty()) list_.push_back(std::move(technique));
  }

  void recompute() {
    const TechniqueGroup group = TechniqueGroup::recompute;
    if (!std::holds_alternative<FullRecompute>(training_.recompute)) {
      add({"recompute every layer",
           group,
           {"training.recompute=full"},
           text(words_.recompute_full)});
    }
    const bool none = std::holds_alternative<NoRecompute>(training_.recompute);
    if (none) {
      add({"recompute selectively",
           group,
           {"training.recompute=selective"},
           text(words_.recompute_selective)});
    }
    if (none || std::holds_alternative<SelectiveRecompute>(training_.recompute)) {
      recompute_modules();
    }
    if (!none) return;
    recompute_first_layers();
    add({"recompute every second layer",
         group,
         {"training.recompute={every: 2}"},
         text(words_.recompute_every_second)});
  }

  /// Megatron's modules that the layers have, each alone; all whose results others have saved; and
  /// those beside whole layers of experts. Its legacy layers have no such words.
  void recompute_modules() {
    const bool legacy = training_.implementation.layers == LayerSpec::legacy;
    if (words_.recompute_modules.empty() || legacy) return;
    const SelectiveRecompute has = parts_of_layers(job_);
    SelectiveRecompute remade{.attention_core = false};
    for (const SelectiveWord& word : kSelectiveWords) {
      if (!(has.*word.part)) continue;
      SelectiveRecompute alone{.attention_core = false};
      alone.*word.part = true;
      offer(alone);
      if (alone.remakes()) remade.*word.part = true;
    }
    offer(remade);
    remade.experts = has.experts;
    remade.expert_activation = false;
    offer(remade);
  }

  void offer(const SelectiveRecompute& parts) {
    const Recompute recompute = parts;
    const std::string value = spec_value_of(recompute);
    const std::string set = "training.recompute=" + value;
    const bool known = std::ranges::any_of(
        list_, [&](const Technique& other) { return other.sets == std::vector{set}; });
    if (!parts.beyond_attention() || known || value == spec_value_of(training_.recompute)) return;
    add({"recompute " + text_of(recompute),
         TechniqueGroup::recompute,
         {set},
         replaced(text(words_.recompute_modules), "{modules}", modules_of(parts))});
  }

  void saved_tensors() {
    if (training_.saves_on_host()) return;
    add({"saved tensors on the host",
         TechniqueGroup::saved_tensors,
         {"training.offload_activations={method: save_on_cpu, pin_memory: true}"},
         text(words_.save_on_cpu)});
  }

  /// Offers a quarter, a half and three quarters of the layers. Which of equal layers are
  /// recomputed does not change a step's time; the first need least memory, because their
  /// activations come back when those of all others have gone.
  void recompute_first_layers() {
    constexpr std::int64_t kParts = 4;
    const std::int64_t layers = layers_of_stage(job_);
    for (std::int64_t part = 1; part < kParts && layers >= kParts; ++part) {
      add(recompute_first(job_, layers * part / kParts));
    }
  }

  /// Halves of the micro-batch: as many sequences a step in more micro-steps.
  void micro_batches() {
    const std::int64_t all = training_.micro_batch * training_.gradient_accumulation;
    // A program of preferences counts pairs of sequences.
    const std::int64_t in_one = row_of(training_.implementation.loop).prefers ? 2 : 1;
    for (std::int64_t b = training_.micro_batch / 2; b > 0; b /= 2) {
      if (all % b != 0 || b % in_one != 0) continue;
      const std::string sequences = std::to_string(b);
      const std::string steps = std::to_string(all / b);
      std::string change = replaced(text(words_.micro_batch), "{b}", std::to_string(b / in_one));
      add({"micro-batch " + sequences + " × " + steps,
           TechniqueGroup::micro_batch,
           {"training.micro_batch=" + sequences, "training.gradient_accumulation=" + steps},
           replaced(std::move(change), "{m}", steps)});
    }
  }

  void optimizers() {
    const TechniqueGroup group = TechniqueGroup::optimizer;
    const Optimizer& optimizer = training_.optimizer;
    const std::string_view call = torch_call_of(optimizer.name);
    const bool has_fused = std::ranges::any_of(optimizer.implementations, [](const auto& one) {
      return one.implementation == OptimizerImplementation::fused;
    });
    const bool is_fused = training_.optimizer_implementation == OptimizerImplementation::fused;
    if (has_fused && !is_fused && !call.empty()) {
      add({"fused optimizer",
           group,
           {"training.optimizer={name: " + optimizer.name + ", implementation: fused}"},
           replaced(text(words_.fused_optimizer), "{optimizer}", text(call))});
    }
    if (optimizer.name != "adamw") return;
    add({"optimizer states in 8 bits",
         group,
         {"training.optimizer=adamw-8bit"},
         text(words_.adamw_8bit),
         kRounds});
  }

  [[nodiscard]] std::string implementation_with(const std::string& key) const {
    return "training.implementation={name: " +
           text(row_of(training_.implementation.framework).name) + ", " + key + "}";
  }

  void kernels() {
    const Implementation& own = training_.implementation;
    if (own.attention == AttentionKernel::eager) {
      add({"fused attention",
           TechniqueGroup::attention,
           {implementation_with("attention: sdpa")},
           text(words_.sdpa)});
    }
    if (!own.liger.any()) {
      add({"Liger's kernels",
           TechniqueGroup::kernels,
           {implementation_with("liger: true")},
           text(words_.liger)});
    }
    if (own.compile == CompileScope::off) {
      add({"compiled layers",
           TechniqueGroup::compile,
           {implementation_with("compile: blocks")},
           text(words_.compile)});
    }
  }

  /// By who holds the states: nothing is offered beside a sharding that the spec has.
  void sharding() {
    if (job_.given.sharing || job_.given.offload) return;
    share("ZeRO 2, its optimizer on the host", words_.zero2_offload,
          {"zero=2", "offload={optimizer: cpu}"});
    if (job_.parallelism.data == 1) return;
    share("ZeRO 1", words_.zero1, {"zero=1"});
    share("ZeRO 2", words_.zero2, {"zero=2"});
    share("ZeRO 3", words_.zero3, {"zero=3"});
    share("FSDP2", words_.fsdp2, {"fsdp={version: 2}"});
    share("FSDP2, its shards on the host", words_.fsdp2_offload,
          {"fsdp={version: 2}", "offload={optimizer: cpu, parameters: cpu}"});
    share("distributed optimizer", words_.sharded_states, {"distributed_optimizer=true"});
  }

  /// Keys of `parallelism`, which means all GPUs as long as nobody writes it: the ranks come along.
  void share(std::string name, std::string_view change, std::vector<std::string> keys) {
    keys.insert(keys.begin(), "data=" + std::to_string(job_.parallelism.data));
    for (std::string& key : keys) key.insert(0, "parallelism.");
    add({std::move(name), TechniqueGroup::sharding, std::move(keys), text(change)});
  }

  void others() {
    const bool runs = !row_of(training_.implementation.framework).is_formula;
    if (runs && !job_.allocator.expandable_segments) {
      add({"expandable segments",
           TechniqueGroup::allocator,
           {"allocator.expandable_segments=true"},
           "PYTORCH_ALLOC_CONF=expandable_segments:True"});
    }
    if (training_.recipe.weights == DType::fp32 || training_.recipe.master) {
      add({"weights and states in bf16",
           TechniqueGroup::precision,
           {"training.precision=bf16"},
           text(words_.bf16),
           kRounds});
    }
    if (!job_.model.adapter) {
      add({"LoRA of rank 16",
           TechniqueGroup::adapter,
           {"training.adapter={lora: {rank: 16, targets: [q_proj, v_proj]}}"},
           text(words_.lora),
           kOtherModel});
    }
    // Runs were recorded on one GPU and as replicas, in bf16.
    const bool whole = shards_by<Unsharded>(job_) || shards_by<ReplicasOfDdp>(job_);
    const bool bf16 = training_.recipe.compute == DType::bf16 && !training_.recipe.master;
    if (!job_.model.adapter && whole && bf16) {
      add({"QLoRA of rank 16",
           TechniqueGroup::adapter,
           {"training.adapter={qlora: {rank: 16, targets: [q_proj, v_proj]}}"},
           text(training_.recipe.weights == DType::fp32 ? words_.qlora_of_fp32 : words_.qlora),
           kOtherModel});
    }
  }

  const Job& job_;
  const TrainingSpec& training_;
  const ChangeWords& words_;
  std::vector<Technique> list_;
};

}  // namespace

std::int64_t layers_of_stage(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder == nullptr ? 0 : decoder->layers() / job.parallelism.pipeline;
}

Technique recompute_first(const Job& job, std::int64_t layers) {
  const ChangeWords& words = change_words_of(job.training->implementation);
  const std::string count = std::to_string(layers);
  return {"recompute " + count + " of " + std::to_string(layers_of_stage(job)) + " layers",
          TechniqueGroup::recompute,
          {"training.recompute={full: {method: block, layers: " + count + "}}"},
          replaced(text(words.recompute_first), "{k}", count)};
}

std::vector<Technique> techniques_for(const Job& job) { return TechniqueList(job).list(); }

}  // namespace memest
