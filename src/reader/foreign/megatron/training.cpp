// Types, recompute, kernels and ranks of Megatron's jobs.
#include <algorithm>
#include <string>
#include <utility>

#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

struct PrecisionWord {
  std::string_view name;  ///< of megatron/bridge/training/mixed_precision.py
  bool half = false;      ///< fp16
};
constexpr PrecisionWord kPrecisions[] = {
    {"bf16_mixed"}, {"bf16-mixed"}, {"fp16_mixed", true}, {"fp16-mixed", true}};

/// With gradients in fp32 fp16 takes what bf16 takes, and a loss scale's checks beside it.
void write_half(const MegatronFile& megatron, std::string_view key, bool wide) {
  megatron.file.write("training.precision", wide ? "megatron" : "megatron-fp16", {key});
  if (!wide) return;
  megatron.file.pass_over(key,
                          "fp16 is counted as bf16, of as many bytes; the loss scale's checks "
                          "are not counted");
}

void write_yaml_types(const MegatronFile& megatron) {
  ForeignImport& file = megatron.file;
  constexpr std::string_view kMixed = "mixed_precision";
  const Value* mixed = file.find(kMixed);
  if (mixed == nullptr) {
    // A file that leaves the model to its recipe leaves the types too: those are bf16_mixed.
    const bool bf16 = megatron.flag("bf16", !megatron.has("hidden_size"));
    return file.write("training.precision", bf16 ? "megatron" : "fp32", {megatron.key("bf16")});
  }
  if (mixed->kind == ValueKind::scalar) {
    const auto* const row = std::ranges::find(kPrecisions, mixed->text, &PrecisionWord::name);
    if (is_quantized_precision(mixed->text)) {
      return file.write("training.precision", "megatron", {kMixed});
    }
    if (row == std::end(kPrecisions)) {
      return file.refuse(kMixed, "the precision " + quote(mixed->text),
                         "known are bf16_mixed, fp16_mixed and bf16_with_ fp8 of their kinds");
    }
    if (row->half) return write_half(megatron, kMixed, true);
    return file.write("training.precision", "megatron", {kMixed});
  }
  const bool wide = file.flag("mixed_precision.grad_reduce_in_fp32", true);
  const std::string_view own = wide ? "megatron" : "megatron-bf16-grad";
  if (file.flag("mixed_precision.fp16")) return write_half(megatron, "mixed_precision.fp16", wide);
  const bool bf16 = file.flag("mixed_precision.bf16", !file.flag("mixed_precision.fp32"));
  file.write("training.precision", bf16 ? own : "fp32",
             {"mixed_precision.bf16", "mixed_precision.grad_reduce_in_fp32"});
}

// arguments.py, map_dtype, and torch's own names in YAML: `{_target_: torch.bfloat16}` or a word.
constexpr WordPair kStateTypes[] = {{"fp32", "fp32"},     {"float32", "fp32"}, {"bf16", "bf16"},
                                    {"bfloat16", "bf16"}, {"fp16", "fp16"},    {"float16", "fp16"},
                                    {"half", "fp16"},     {"fp8", "fp8"},      {"uint8", "fp8"},
                                    {"float", "fp32"}};

/// The type that `name` says, fp32 where it says nothing; nothing where it is none.
std::optional<std::string> type_of(const MegatronFile& megatron, std::string_view name) {
  if (!megatron.has(name)) return "fp32";
  const Value* written = megatron.file.find(megatron.key(name));
  const Value* target = written->find("_target_");
  const std::string& text = target == nullptr ? written->text : target->text;
  const std::string word = text.substr(text.rfind('.') + 1);
  const auto* const row = std::ranges::find(kStateTypes, word, &WordPair::foreign);
  if (row != std::end(kStateTypes)) return std::string(row->own);
  megatron.file.mistake(megatron.key(name), "no type is called " + quote(text),
                        "known are fp32, bf16, fp16 and fp8");
  return std::nullopt;
}

/// A state of the precision-aware optimizer, in its own type.
void write_state(const MegatronFile& megatron, std::string_view name, std::string_view own) {
  const std::string_view key = megatron.key(name);
  const std::optional<std::string> type = type_of(megatron, name);
  if (!type) return;
  if (*type == "fp8") return megatron.file.refuse(key, "a state of the optimizer in fp8");
  megatron.file.write("training.optimizer." + std::string(own), *type,
                      {megatron.key("use_precision_aware_optimizer"), key});
}

/// Megatron's arguments alone: in YAML what the gradients are reduced in is said by itself.
bool has_narrow_grads(const MegatronFile& megatron) {
  return megatron.flag("use_precision_aware_optimizer", false) &&
         type_of(megatron, "main_grads_dtype") == "bf16";
}

std::string known_modules() {
  std::string names;
  for (const SelectiveWord& word : kSelectiveWords) {
    names += (names.empty() ? "" : ", ") + std::string(word.module);
  }
  return names;
}

/// Modules that are written, or Megatron's own, and with --moe-layer-recompute "moe" (deprecated:
/// transformer_config.py appends it).
void write_modules(const MegatronFile& megatron, std::string_view granularity) {
  ForeignImport& file = megatron.file;
  const bool layers = megatron.flag("moe_layer_recompute", false);
  const bool listed = megatron.has("recompute_modules");
  if (!listed && !layers) return file.write("training.recompute", "selective", {granularity});
  const std::string_view key = megatron.key(listed ? "recompute_modules" : "moe_layer_recompute");
  SelectiveRecompute parts{.attention_core = !listed, .experts = layers};
  std::vector<Value> items;
  if (listed) {
    const Value* written = file.find(key);
    items = written->items;
    if (written->kind == ValueKind::scalar) items.push_back(*written);
  }
  for (const Value& item : items) {
    const auto* const row = std::ranges::find(kSelectiveWords, item.text, &SelectiveWord::module);
    if (row == std::end(kSelectiveWords)) {
      return file.refuse(key, "recompute of the module " + quote(item.text),
                         "known are " + known_modules());
    }
    parts.*row->part = true;
  }
  file.write("training.recompute", spec_value_of(Recompute(parts)),
             {key, megatron.key("moe_layer_recompute"), granularity});
}

/// GPUs that the launcher, or the batch system around it, says.
struct LaunchedGpus {
  std::optional<std::int64_t> of_node;
  std::optional<std::int64_t> nodes;
  std::string_view node_key;
  std::string_view nodes_key;
};

LaunchedGpus launched_gpus(const ForeignImport& file) {
  LaunchedGpus gpus;
  gpus.node_key =
      file.written({"launcher.--nproc_per_node", "launcher.--nproc-per-node", "launcher.--num_gpus",
                    "sbatch.--gpus-per-node", "sbatch.--ntasks-per-node", "sbatch.--gres"});
  gpus.of_node = file.count(gpus.node_key);
  if (gpus.node_key == "sbatch.--gres") {
    const std::string text = file.text(gpus.node_key);
    gpus.of_node = integer_of(text.substr(text.rfind(':') + 1));
  }
  gpus.nodes_key =
      file.written({"launcher.--nnodes", "launcher.--num_nodes", "sbatch.--nodes", "sbatch.-N"});
  gpus.nodes = file.count(gpus.nodes_key);
  if (file.find(gpus.nodes_key) == nullptr) gpus.nodes = 1;
  return gpus;
}

}  // namespace

void write_types(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (megatron.is_yaml()) {
    write_yaml_types(megatron);
  } else {
    // arguments.py: bf16 accumulates and reduces in fp32 unless told --grad-reduce-in-bf16, or
    // main gradients in bf16.
    const bool narrow = megatron.flag("grad_reduce_in_bf16", false) || has_narrow_grads(megatron);
    const std::string_view bf16 = megatron.key("bf16");
    if (megatron.flag("fp16", false)) {
      const bool wide = megatron.flag("grad_reduce_in_fp32", false);
      write_half(megatron, megatron.key("fp16"), wide);
    } else if (!megatron.flag("bf16", false)) {
      file.write("training.precision", "fp32", {bf16});
    } else {
      file.write("training.precision", narrow ? "megatron-bf16-grad" : "megatron",
                 {bf16, megatron.key("grad_reduce_in_bf16"), megatron.key("main_grads_dtype")});
    }
  }
  const bool clips = number_of(megatron.text("clip_grad", "1.0")).value_or(1) > 0;
  file.write("training.clip_gradients", clips ? "true" : "false", {megatron.key("clip_grad")});
}

void write_states(ForeignImport& file) {
  const MegatronFile megatron(file);
  constexpr std::string_view kTypes[] = {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype",
                                         "exp_avg_sq_dtype"};
  constexpr std::string_view kAware = "use_precision_aware_optimizer";
  if (!megatron.flag(kAware, false)) {
    for (const std::string_view name : kTypes) {
      // optimizer_config.py: "... can only be fp32 when not using precision-aware optimizer".
      if (type_of(megatron, name).value_or("fp32") == "fp32") continue;
      file.mistake(megatron.key(name), "the type is that of the precision-aware optimizer",
                   "set " + std::string(megatron.key(kAware)) + " too, or leave it out");
    }
    return;
  }
  if (has_narrow_grads(megatron) && megatron.flag("grad_reduce_in_fp32", false)) {
    file.mistake(megatron.key("main_grads_dtype"),
                 "gradients that are accumulated in fp32 are main gradients in fp32",
                 "leave it or " + std::string(megatron.key("grad_reduce_in_fp32")) + " out");
  }
  write_state(megatron, "exp_avg_dtype", "exp_avg");
  write_state(megatron, "exp_avg_sq_dtype", "exp_avg_sq");
  const std::optional<std::string> main = type_of(megatron, "main_params_dtype");
  if (main == "fp16") return write_state(megatron, "main_params_dtype", "main_params");
  if (main == "bf16" || main == "fp8") {
    // fused_adam.py: "FusedAdam only supports fp32/fp16 master weights".
    return file.mistake(megatron.key("main_params_dtype"),
                        "main parameters are in fp32 or fp16, not in " + *main);
  }
  // FusedAdam keeps remainders of bf16 weights alone.
  const bool whole = !megatron.flag("store_param_remainders", true) || megatron.flag("fp16", false);
  if (main && whole) {
    file.write("training.optimizer.main_params", "fp32",
               {megatron.key("store_param_remainders"), megatron.key("main_params_dtype")});
  }
}

void write_checkpoints(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (!megatron.is_yaml() && megatron.flag("recompute_activations", false)) {
    return write_modules(megatron, megatron.key("recompute_activations"));
  }
  const std::string_view key = megatron.key("recompute_granularity");
  const bool layers = megatron.flag("moe_layer_recompute", false);
  if (!megatron.has("recompute_granularity") && !layers) return;
  const std::string granularity = megatron.text("recompute_granularity", "selective");
  if (granularity == "selective") return write_modules(megatron, key);
  if (granularity == "full" && layers) {
    // transformer_config.py: "Do not set --moe-layer-recompute with full recompute granularity."
    return file.mistake(megatron.key("moe_layer_recompute"),
                        "whole layers are recomputed already, those of experts among them",
                        "leave it out, or " + std::string(key));
  }
  if (granularity != "full") {
    return file.refuse(key, "the recompute " + quote(granularity), "known are full and selective");
  }
  const std::string method = megatron.text("recompute_method", "uniform");
  const bool distributes = megatron.flag("distribute_saved_activations", false);
  std::string full = "{full: {method: " + method;
  full += ", layers: " + megatron.text("recompute_num_layers", "1");
  full += distributes ? ", distribute: true}}" : "}}";
  file.write("training.recompute", full,
             {key, megatron.key("recompute_method"), megatron.key("recompute_num_layers"),
              megatron.key("distribute_saved_activations")});
}

/// arguments.py: any --cpu-offloading-num-layers asks for it; Megatron-Bridge's provider wants
/// both.
void write_offload(ForeignImport& file) {
  const MegatronFile megatron(file);
  const std::string layers = megatron.text("cpu_offloading_num_layers", "0");
  const bool asked = megatron.flag("cpu_offloading", !megatron.is_yaml());
  if (!asked || layers == "0" || layers == "none" || layers == "null") return;
  file.write("training.offload_activations", "{method: cpu_offloading, layers: " + layers + "}",
             {megatron.key("cpu_offloading_num_layers"), megatron.key("cpu_offloading")});
}

void write_layers_of(ForeignImport& file) {
  const MegatronFile megatron(file);
  const std::string_view program = megatron.is_yaml() ? "Megatron-Bridge" : "script";
  file.write("training.implementation.name", "megatron", {program});
  if (writes_legacy_layers(megatron)) return;
  const std::string_view layers = megatron.key("transformer_impl");
  const bool local = megatron.text("transformer_impl", "transformer_engine") == "local";
  file.write("training.implementation.layers", local ? "local" : "te", {layers});
  const std::string_view attention = megatron.key("attention_backend");
  std::string backend = megatron.text("attention_backend", "auto");
  backend = backend.substr(backend.rfind('.') + 1);  // AttnBackend.flash
  if (!local && backend == "flash") {
    file.write("training.implementation.attention", "flash-2", {attention});
  } else if (!local && (backend == "unfused" || backend == "local")) {
    file.refuse(attention, "attention of Transformer Engine that is not fused");
  }
  if (local || !megatron.flag("cross_entropy_loss_fusion", false)) return;
  const std::string_view fusion = megatron.key("cross_entropy_loss_fusion");
  const std::string_view kind = megatron.key("cross_entropy_fusion_impl");
  if (megatron.text("cross_entropy_fusion_impl", "native") == "te") {
    return file.write("training.implementation.loss", "te", {fusion, kind});
  }
  file.pass_over(fusion, "the loss is Megatron's own, operation by operation");
}

/// The letter that stands for a layer's name in a layout's notation; 0: none does.
char letter_of(std::string_view layer) {
  constexpr WordPair kLetters[] = {
      {"embedding", "E"}, {"decoder", "t"}, {"mtp", "m"}, {"loss", "L"}};
  for (const WordPair& pair : kLetters) {
    if (is_same_word(layer, pair.foreign)) return pair.own.front();
  }
  return 0;
}

/// A list of the names of every stage's layers, or the notation that stands for it.
void write_listed_stages(const MegatronFile& megatron) {
  ForeignImport& file = megatron.file;
  const std::string_view key = megatron.key("pipeline_model_parallel_layout");
  const Value* written = file.find(key);
  if (written == nullptr) return;
  std::string text = written->text;
  for (const Value& stage : written->items) {
    if (&stage != &written->items.front()) text += '|';
    for (const Value& layer : stage.items) {
      const char letter = letter_of(layer.text);
      if (letter == 0) return file.mistake(key, quote(layer.text) + " is not a valid LayerType");
      text += letter;
    }
  }
  Value layout = *written;
  layout.kind = ValueKind::scalar;
  layout.text = std::move(text);
  layout.quoted = true;
  layout.items.clear();
  file.write("parallelism.pipeline_layout", std::move(layout), key);
}

/// The layers, with the ends that count as one.
std::int64_t divided_layers(const MegatronFile& megatron) {
  const auto counts = [&](std::string_view name) { return megatron.flag(name, false) ? 1 : 0; };
  return megatron.count("num_layers", 0) + counts("account_for_embedding_in_pipeline_split") +
         counts("account_for_loss_in_pipeline_split");
}

void write_stages(ForeignImport& file) {
  const MegatronFile megatron(file);
  const std::int64_t stages = megatron.count("pipeline_model_parallel_size", 1);
  const auto plain = [&](std::string_view name, std::string_view own) {
    if (megatron.count(name, 1) > 1) {
      file.write(own, megatron.text(name), {megatron.key(name)});
    }
  };
  plain("tensor_model_parallel_size", "parallelism.tensor");
  plain("pipeline_model_parallel_size", "parallelism.pipeline");
  plain("context_parallel_size", "parallelism.context");
  // arguments.py: without tensor ranks there is no sequence parallelism.
  const std::string_view sequence = megatron.key("sequence_parallel");
  if (megatron.flag("sequence_parallel", false)) {
    if (megatron.count("tensor_model_parallel_size", 1) > 1) {
      file.write("parallelism.sequence", "true", {sequence});
    } else {
      file.drop(sequence, "there is one tensor rank");
    }
  }
  write_listed_stages(megatron);
  std::optional<std::int64_t> chunks = megatron.count("virtual_pipeline_model_parallel_size");
  std::string_view key = megatron.key("virtual_pipeline_model_parallel_size");
  if (!megatron.is_yaml() && megatron.has("num_layers_per_virtual_pipeline_stage")) {
    key = megatron.key("num_layers_per_virtual_pipeline_stage");
    const std::int64_t of_chunk = megatron.count("num_layers_per_virtual_pipeline_stage", 0);
    const std::int64_t layers = divided_layers(megatron);
    if (of_chunk < 1 || stages < 1 || layers % stages != 0 || layers / stages % of_chunk != 0) {
      return file.mistake(key, "a stage's layers are not a multiple of those of a virtual stage");
    }
    chunks = layers / stages / of_chunk;
  }
  if (!chunks || *chunks <= 1 || stages <= 1) return;
  file.write("parallelism.schedule", "interleaved", {key});
  file.write("parallelism.virtual_stages", std::to_string(*chunks), {key});
}

void write_gpus(ForeignImport& file) {
  const MegatronFile megatron(file);
  if (megatron.is_yaml()) return;
  const LaunchedGpus gpus = launched_gpus(file);
  if (!gpus.of_node || !gpus.nodes || *gpus.of_node < 1 || *gpus.nodes < 1 ||
      *gpus.of_node > kMaxRanks || *gpus.nodes > kMaxRanks) {
    return;
  }
  const std::int64_t count = *gpus.of_node * *gpus.nodes;
  std::int64_t others = 1;
  for (const std::string_view name :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"}) {
    others *= std::clamp<std::int64_t>(megatron.count(name, 1), 1, 1'000'000);
  }
  if (count % others != 0) {
    return file.pass_over(gpus.node_key, std::to_string(count) + " GPUs do not divide into " +
                                             std::to_string(others) +
                                             " ranks of a model: --gpus N says how many there are");
  }
  file.write("hardware.count", std::to_string(count), {gpus.node_key, gpus.nodes_key});
  if (*gpus.nodes > 1) {
    file.write("hardware.gpus_per_node", std::to_string(*gpus.of_node), {gpus.node_key});
  }
  file.write("parallelism.data", std::to_string(count / others), {gpus.node_key, gpus.nodes_key});
}

}  // namespace memest::megatron
