// litgpt's YAML (`litgpt finetune_lora --config FILE`, finetune_full), of 0.5.13:
// config_hub/finetune.
#include <algorithm>
#include <array>
#include <string>

#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::litgpt {
namespace {

constexpr std::string_view kCheckpoint = "checkpoint_dir";
constexpr std::string_view kLength = "train.max_seq_length";
constexpr std::string_view kPrecision = "precision";
constexpr std::string_view kQuantize = "quantize";
constexpr std::string_view kRank = "lora_r";
constexpr std::string_view kDropout = "lora_dropout";
constexpr std::string_view kClass = "optimizer.class_path";
constexpr std::string_view kFused = "optimizer.init_args.fused";
constexpr std::string_view kForeach = "optimizer.init_args.foreach";
constexpr std::string_view kDevices = "devices";
constexpr std::string_view kNodes = "num_nodes";

/// "meta-llama/Llama-3.2-1B" of "checkpoints/meta-llama/Llama-3.2-1B".
std::string model_of(const std::string& path) {
  const std::size_t model = path.rfind('/');
  const std::size_t owner =
      model == std::string::npos || model == 0 ? std::string::npos : path.rfind('/', model - 1);
  return owner == std::string::npos ? path : path.substr(owner + 1);
}

struct Switch {
  std::string_view key;
  std::string_view targets;  ///< empty: the feed-forward's
  bool absent = false;       ///< whether it is on where nothing is written
};
/// The arguments of finetune/lora.py.
constexpr Switch kSwitches[] = {
    {"lora_query", "query", true},    {"lora_key", "key"}, {"lora_value", "value", true},
    {"lora_projection", "attn.proj"}, {"lora_mlp", {}},    {"lora_head", "lm_head"},
};

/// Whether it has arguments of `litgpt finetune_lora` that finetune_full has not.
bool is_adapted(const ForeignImport& file) {
  constexpr std::array kOfLora = {std::string_view("lora_alpha"), kRank, kDropout, kQuantize};
  const auto written = [&](std::string_view key) { return file.find(key) != nullptr; };
  return std::ranges::any_of(kOfLora, written) ||
         std::ranges::any_of(kSwitches, written, &Switch::key);
}

/// The layers of the model's feed-forward: GptNeoxMLP has no gate.
std::string feed_forward_of(const ForeignImport& file) {
  constexpr std::array kWithoutGate = {std::string_view("gpt_neox"), std::string_view("phi"),
                                       std::string_view("falcon")};
  const std::string type = hugging_face::type_of_model(file, model_of(file.text(kCheckpoint)));
  const bool gated = std::ranges::find(kWithoutGate, type) == kWithoutGate.end();
  return gated ? "fc_1, fc_2, mlp.proj" : "fc_2, mlp.proj";
}

void write_adapter(ForeignImport& file) {
  if (!is_adapted(file)) return;
  std::string targets;
  for (const Switch& one : kSwitches) {
    if (!file.flag(one.key, one.absent)) continue;
    targets += targets.empty() ? "" : ", ";
    targets += one.targets.empty() ? feed_forward_of(file) : one.targets;
  }
  const std::string words = file.text(kQuantize);
  const std::string adapter =
      std::string("training.adapter.") + (words == "bnb.nf4" ? "qlora" : "lora");
  file.write(adapter + ".rank", file.text(kRank, "8"), {kRank});
  file.write(adapter + ".targets", "[" + targets + "]",
             {"lora_query", "lora_key", "lora_value", "lora_projection", "lora_mlp", "lora_head"});
  file.write(adapter + ".dropout", file.text(kDropout, "0.05"), {kDropout});
}

/// "bnb.nf4-dq": codes of four bits, and codes for their scales. bnb.nf4 is what qlora says.
void write_codes(ForeignImport& file) {
  if (file.find(kQuantize) == nullptr) return;
  constexpr std::array kKnown = {std::string_view("bnb.nf4"), std::string_view("bnb.nf4-dq"),
                                 std::string_view("bnb.fp4"), std::string_view("bnb.fp4-dq")};
  const std::string word = file.text(kQuantize);
  if (std::ranges::find(kKnown, word) == kKnown.end()) {
    return file.refuse(kQuantize, "litgpt's quantisation " + quote(word),
                       "known are bnb.nf4, bnb.nf4-dq, bnb.fp4 and bnb.fp4-dq");
  }
  if (word == "bnb.nf4") return file.credit(kQuantize, "training.adapter.qlora");
  constexpr std::size_t kFormat = 4;  // behind "bnb."
  file.write("compression.quantize.weights", word.substr(kFormat, 3), {kQuantize});
  file.write("compression.quantize.double_quant", word.ends_with("-dq") ? "true" : "false",
             {kQuantize});
  file.write("compression.quantize.skip_modules", "[]", {kQuantize});
}

void write_optimizer(ForeignImport& file) {
  const std::string name = file.text(kClass, file.text("optimizer", "AdamW"));
  if (name != "torch.optim.AdamW" && name != "AdamW") {
    return file.refuse(file.written({kClass, "optimizer"}), "the optimizer " + quote(name),
                       "known is PyTorch's AdamW");
  }
  // instantiate_bnb_optimizer takes bitsandbytes' PagedAdamW in its place.
  if (file.find(kQuantize) != nullptr) {
    return file.write("training.optimizer.name", "paged-adamw", {kClass, kQuantize});
  }
  file.write("training.optimizer.name", "adamw", {kClass});
  const char* implementation = file.flag(kFused)           ? "fused"
                               : file.flag(kForeach, true) ? "foreach"
                                                           : "for-loop";
  file.write("training.optimizer.implementation", implementation, {kFused, kForeach});
}

void write_length(ForeignImport& file) {
  if (file.find(kLength) != nullptr) {
    return file.write("training.seq_len", file.text(kLength), {kLength});
  }
  file.note("no key says how long the sequences are",
            "set train.max_seq_length, or --set training.seq_len=N to the longest ones");
}

/// setup() of finetune/full.py and finetune/lora.py: FSDP over all devices, of the first version
/// without adapters, and every block recomputed.
void write_ranks(ForeignImport& file) {
  if (file.text(kNodes, "1") != "1") {
    return file.refuse(kNodes, "litgpt on several nodes", "set num_nodes to 1");
  }
  file.drop(kNodes, "one node");
  if (file.text(kDevices, "1") == "1") return file.drop(kDevices, "one GPU");
  if (file.text(kDevices) == "auto") {
    return file.refuse(kDevices, "as many devices as there are", "set devices to their number");
  }
  file.write("parallelism.data", file.text(kDevices), {kDevices});
  file.write("parallelism.fsdp.version", is_adapted(file) ? "2" : "1", {kDevices, kRank});
  if (!is_adapted(file)) file.write("parallelism.fsdp.no_sync", "true", {kDevices});
  file.write("training.recompute", "full", {kDevices});
}

constexpr WordPair kPrecisions[] = {
    {"bf16-true", "bf16"}, {"bf16-mixed", "amp-bf16"}, {"32-true", "fp32"}};

/// Arguments of pretrain.py, and of no finetune.
constexpr std::array kOfPretrain = {std::string_view("tokenizer_dir"),
                                    std::string_view("model_name"),
                                    std::string_view("train.max_tokens")};

void write_job(ForeignImport& file) {
  if (std::ranges::any_of(kOfPretrain, [&](auto key) { return file.find(key) != nullptr; })) {
    return file.refuse(file.written(kOfPretrain), "litgpt's pretrain",
                       "known are finetune_lora and finetune_full");
  }
  file.write("training.implementation.name", "litgpt", {kCheckpoint});
  hugging_face::write_named_model(file, kCheckpoint, model_of(file.text(kCheckpoint)));
  write_length(file);
  write_adapter(file);
  write_codes(file);
  write_optimizer(file);
  write_ranks(file);
}

// Defaults: setup() in finetune/lora.py and finetune/full.py, and for the precision
// get_default_supported_precision(training=True).
constexpr KeyRow kMapped[] = {
    {.key = "train.micro_batch_size", .own = "training.micro_batch", .absent = "1"},
    {.key = "train.global_batch_size", .own = "training.global_batch", .absent = "16"},
    {.key = kPrecision, .own = "training.precision", .words = kPrecisions, .absent = "amp-bf16"},
};
constexpr std::string_view kDecidingKeys[] = {kCheckpoint,
                                              kLength,
                                              kQuantize,
                                              kRank,
                                              kDropout,
                                              kClass,
                                              kFused,
                                              kForeach,
                                              kDevices,
                                              kNodes,
                                              "lora_query",
                                              "lora_key",
                                              "lora_value",
                                              "lora_projection",
                                              "lora_mlp",
                                              "lora_head",
                                              "model_name",
                                              "tokenizer_dir",
                                              "train.max_tokens"};
constexpr auto kDeciding = all_derived(kDecidingKeys);
constexpr KeyRow kRefusedKeys[] = {
    refused_key("train.max_norm", "null", "clipping in litgpt's finetune, which refuses it too,"),
    refused_key("galore.use_galore", "false|null", "GaLore of litgpt"),
    refused_key("train.tie_embeddings", "false|null", "tied embeddings in litgpt's finetune"),
};
constexpr KeyRow kIdle[] = {
    no_effect("galore.*", "an optimizer that is not asked for"),
    no_effect("lora_alpha", "a factor"),
    no_effect("optimizer.*", kAboutSchedule),
    no_effect("train.*", kAboutSchedule),
    no_effect("eval.*", kAboutEvaluation),
    no_effect("data.*", kAboutData),
    no_effect("data", kAboutData),
    no_effect("log.*", kAboutLogging),
    no_effect("logger_name", kAboutLogging),
    no_effect("seed", kAboutSeeds),
    no_effect("resume", kAboutCheckpoints),
    no_effect("out_dir", kAboutPaths),
    no_effect("access_token", kAboutRun),
};
constexpr std::span<const KeyRow> kTables[] = {kMapped, kDeciding, kRefusedKeys, kIdle};
constexpr std::string_view kByCheckpoint[] = {kCheckpoint, "train"};
constexpr std::string_view kByModel[] = {"model_name", "train"};
constexpr std::string_view kByTokenizer[] = {"tokenizer_dir", "train"};
constexpr std::string_view kByBatch[] = {"train.micro_batch_size", "precision"};
constexpr TellingKeys kTelling[] = {kByCheckpoint, kByModel, kByTokenizer, kByBatch};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kDialect = {.name = "litgpt",
                              .noun = "a litgpt config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace
}  // namespace memest::litgpt

const memest::Dialect& memest::litgpt_dialect() { return litgpt::kDialect; }
