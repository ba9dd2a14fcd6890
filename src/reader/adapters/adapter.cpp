#include "reader/adapters/adapter.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

struct AdapterKey {
  std::string_view key;
  AdapterKind kind;
};
constexpr std::array kAdapters = {
    AdapterKey{"lora", AdapterKind::lora},
    AdapterKey{"qlora", AdapterKind::lora},
    AdapterKey{"dora", AdapterKind::dora},
    AdapterKey{"ia3", AdapterKind::ia3},
    AdapterKey{"vera", AdapterKind::vera},
    AdapterKey{"prompt_tuning", AdapterKind::prompt_tuning},
    AdapterKey{"p_tuning", AdapterKind::p_tuning},
};

/// They were trained by a plain loop and the Trainer, on one GPU and as replicas of
/// DistributedDataParallel.
constexpr NotRecorded kNotRecordedWithAdapter[] = {
    {[](const Job& job) {
       const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
       return decoder != nullptr && !std::holds_alternative<SoftmaxAttention>(decoder->attention);
     },
     "with latent attention", ""},
    {[](const Job& job) { return job.model.experts() != nullptr; }, "beside experts", ""},
    {[](const Job& job) { return job.model.vision.has_value(); }, "with images", ""},
    {[](const Job& job) { return job.model.low_rank || job.model.shared_layers; },
     "beside factorised or shared layers", ""},
    {[](const Job& job) {
       return job.model.quantized && job.model.adapter->kind != AdapterKind::dora;
     },
     "over quantised weights", "use 'lora' or 'dora'"},
    {[](const Job& job) {
       return job.model.quantized && row_of(job.model.quantized->format).of_hqq();
     },
     "over HQQ's codes", "use 'weights: nf4' or 'lora'"},
    {[](const Job& job) { return job.model.quantized && job.parallelism.ranks() > 1; },
     "over quantised weights on several GPUs", "use 'lora'"},
    // Its results are fp32, and so is the stream between the layers from the first adapted one on.
    {[](const Job& job) {
       const Recipe& recipe = job.training->recipe;
       return job.model.quantized && recipe.autocast && is_half(recipe.weights);
     },
     "over quantised weights under autocast of 16-bit ones", "use 'precision: amp-bf16' or 'bf16'"},
    {[](const Job& job) {
       const LoopRow& loop = row_of(job.training->implementation.loop);
       return loop.takes_tiles || !loop.has_data_loader;
     },
     "in this loop", "leave 'loop' out"},
    {[](const Job& job) { return !trains_in_replicas(job); },
     "over several GPUs in another way than DistributedDataParallel",
     "set 'parallelism' to {data: N} alone"},
    kUnderOtherReleases,
    {[](const Job& job) {
       const Recipe& recipe = job.training->recipe;
       return recipe.weights == DType::fp16 || recipe.compute == DType::fp16;
     },
     "in fp16", "use 'precision: bf16', 'bf16-autocast', 'amp-bf16' or 'fp32'"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       return !std::holds_alternative<NoRecompute>(recompute) &&
              !std::holds_alternative<FullRecompute>(recompute) &&
              !std::holds_alternative<ChosenRecompute>(recompute);
     },
     "beside other recompute than of whole layers", "use 'recompute: full' or none"},
};

/// Learned positions are as many as the table has rows.
void check_prompt_length(const Value& written, const Job& job, Diagnostics& diagnostics) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  if (decoder == nullptr || !std::holds_alternative<LearnedPosition>(decoder->position)) return;
  const std::int64_t own = job.training->seq_len;
  const std::int64_t tokens = own + job.model.adapter->virtual_tokens;
  if (!job.model.adapter->is_prompt() || tokens <= decoder->max_positions) return;
  diagnostics.push_back(error_at(
      written.span, std::to_string(own) + " tokens behind the prompt's are " +
                        std::to_string(tokens) + ", more than the " +
                        std::to_string(decoder->max_positions) + " positions that the model has"));
}

struct WrittenAdapter {
  AdapterKind kind = AdapterKind::lora;
  const Value* table = nullptr;  ///< of its own keys; null: there is none
};

WrittenAdapter find_adapter(const Value* written) {
  if (written == nullptr) return {};
  for (const AdapterKey& row : kAdapters) {
    if (const Value* found = written->find(row.key)) return {row.kind, found};
  }
  return {};
}

/// peft ends where no module is found (inject_adapter), and where IA3 scales the input of a module
/// that is no target (IA3Config.__post_init__).
void check_targets(const Value& written, const Adapter& adapter, Diagnostics& diagnostics) {
  const Value* const table = find_adapter(&written).table;
  const Value* const targets = table == nullptr ? nullptr : table->find("targets");
  if (targets == nullptr) return;
  if (targets->items.empty()) {
    diagnostics.push_back(error_at(targets->span, "no module gets an adapter",
                                   "name those that do, as in [q_proj, v_proj]"));
  }
  const Value* const feedforward = table->find("feedforward");
  if (feedforward == nullptr) return;
  for (const Value& name : feedforward->items) {
    if (std::ranges::find(adapter.targets, name.text) != adapter.targets.end()) continue;
    diagnostics.push_back(error_at(name.span, quote(name.text) + " is none of 'targets'",
                                   "IA3 scales the input of some of its targets"));
  }
}

/// As their papers write them.
std::string title(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::lora:
      return "LoRA";
    case AdapterKind::dora:
      return "DoRA";
    case AdapterKind::ia3:
      return "IA3";
    case AdapterKind::vera:
      return "VeRA";
    case AdapterKind::prompt_tuning:
      return "prompt tuning";
    case AdapterKind::p_tuning:
      return "p-tuning";
  }
  return {};
}

/// Job::settle_adapter() gives one in DeepSpeed the weights' type.
void check_type(const Value& written, const Job& job, Diagnostics& diagnostics) {
  if (!shards_by<DeepSpeedZero>(job) || !job.training->recipe.master) return;
  if (job.keeps_widened_adapters()) return;
  const Value* const table = find_adapter(&written).table;
  const Value* const type = table == nullptr ? nullptr : table->find("dtype");
  if (type == nullptr || type->text != "fp32") return;
  diagnostics.push_back(
      error_at(type->span, "DeepSpeed casts adapters to the weights' type", "leave 'dtype' out"));
}

}  // namespace

std::optional<Adapter> read_adapter(const Value& training, DType weights, bool parallel,
                                    std::string_view unwritten) {
  const auto [kind, lora] = find_adapter(training.find("adapter"));
  if (lora == nullptr || lora->kind != ValueKind::mapping) return std::nullopt;
  Adapter adapter;
  adapter.kind = kind;
  adapter.virtual_tokens = as_count(lora->find("num_virtual_tokens")).value_or(0);
  if (adapter.is_prompt()) {
    // PromptEmbedding and PromptEncoder make theirs in torch's type of today, fp32.
    adapter.dtype = DType::fp32;
    adapter.encoder_hidden_size = as_count(lora->find("encoder_hidden_size")).value_or(0);
    return adapter;
  }
  adapter.rank = as_count(lora->find("rank")).value_or(0);
  const auto names = [lora](std::string_view key, std::vector<std::string>& list) {
    const Value* modules = lora->find(key);
    if (modules == nullptr) return;
    for (const Value& name : modules->items) list.push_back(name.text);
  };
  names("targets", adapter.targets);
  names("feedforward", adapter.scaled_inputs);
  if (lora->find("feedforward") == nullptr) adapter.scaled_inputs = {"down_proj"};
  names("modules_to_save", adapter.whole_modules);
  adapter.dropout = as_number(lora->find("dropout")).value_or(0);
  adapter.parallel = parallel;
  // peft widens 16-bit adapters only; ParallelLinearAdapter takes the model's type.
  const bool widens = !parallel &&
                      as_text(lora->find("dtype")).value_or(std::string(unwritten)) == "fp32" &&
                      is_half(weights);
  adapter.dtype = widens ? DType::fp32 : weights;
  adapter.widened = widens;
  return adapter;
}

void check_adapters(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !job.model.adapter) return;
  const AdapterKind kind = job.model.adapter->kind;
  const Value* written = root.find("training")->find("adapter");
  check_targets(*written, *job.model.adapter, diagnostics);
  check_type(*written, job, diagnostics);
  if (kind == AdapterKind::lora) return;
  check_prompt_length(*written, job, diagnostics);
  // A program with adapters of its own has rules of its own (reader/fine_tuning).
  if (row_of(job.training->implementation.framework).adapters_in_type) return;
  const std::string noun = title(kind);
  constexpr Beside kRecorded[] = {Beside::other_loop, Beside::several_gpus};
  refuse_unrecorded(
      {.noun = noun.c_str(), .key = "adapter", .written = *written, .recorded = kRecorded},
      kNotRecordedWithAdapter, job, diagnostics);
}

}  // namespace memest
