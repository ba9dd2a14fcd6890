// nanoGPT's config files: the names that its train.py (3adf61e) lets a file assign.
#include <algorithm>
#include <string>

#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/text/scalar.hpp"

namespace memest::nanogpt {
namespace {

/// model.py, from_pretrained: config_args, with vocab_size 50257, block_size 1024 and biases.
struct PretrainedSize {
  std::string_view name;
  std::string_view layers;
  std::string_view heads;
  std::string_view hidden;
};
constexpr PretrainedSize kPretrained[] = {{"gpt2", "12", "12", "768"},
                                          {"gpt2-medium", "24", "16", "1024"},
                                          {"gpt2-large", "36", "20", "1280"},
                                          {"gpt2-xl", "48", "25", "1600"}};

/// Rows of the table of a data set whose prepare.py writes meta.pkl; without one it is 50304.
struct CharacterSet {
  std::string_view dataset;
  std::string_view size;
};
constexpr CharacterSet kCharacterSets[] = {{"shakespeare_char", "65"}};
constexpr std::string_view kTokenized[] = {"openwebtext", "shakespeare"};

void write_pretrained(ForeignImport& file, const PretrainedSize& size) {
  constexpr std::string_view kFrom = "init_from";
  file.write("model.layers", size.layers, {kFrom});
  file.write("model.heads", size.heads, {kFrom});
  file.write("model.hidden_size", size.hidden, {kFrom});
  file.write("model.vocab_size", "50257", {kFrom});
  file.write("model.bias", "true", {kFrom});
  for (const std::string_view key : {"n_layer", "n_head", "n_embd", "bias"}) {
    file.drop(key, "the checkpoint's own size is taken");
  }
}

void write_vocabulary_of(ForeignImport& file) {
  constexpr std::string_view kDataset = "dataset";
  const std::string dataset = file.text(kDataset, "openwebtext");
  const auto* const row = std::ranges::find(kCharacterSets, dataset, &CharacterSet::dataset);
  if (row != std::end(kCharacterSets)) return file.write("model.vocab_size", row->size, {kDataset});
  file.write("model.vocab_size", "50304", {"vocab_size", kDataset});
  if (std::ranges::find(kTokenized, dataset) == std::end(kTokenized)) {
    file.pass_over(kDataset,
                   "50304 tokens are taken, as train.py does where the data set has no meta.pkl");
  }
}

void write_gpt(ForeignImport& file) {
  const std::string from = file.text("init_from", "scratch");
  const auto* const pretrained = std::ranges::find(kPretrained, from, &PretrainedSize::name);
  if (pretrained != std::end(kPretrained)) {
    write_pretrained(file, *pretrained);
  } else {
    const auto plain = [&file](std::string_view own, std::string_view key,
                               std::string_view fallback) {
      file.write(own, file.text(key, fallback), {key});
    };
    plain("model.layers", "n_layer", "12");
    plain("model.heads", "n_head", "12");
    plain("model.hidden_size", "n_embd", "768");
    plain("model.bias", "bias", "false");
    write_vocabulary_of(file);
    if (from != "scratch") {
      file.pass_over("init_from",
                     "the checkpoint's sizes stand in no file: those of this one are "
                     "taken");
    }
  }
  const std::string block = file.text("block_size", "1024");
  file.write("model.max_positions", block, {"block_size"});
  file.write("training.seq_len", block, {"block_size"});
}

void write_loop(ForeignImport& file) {
  file.write("training.implementation.name", "nanogpt", {"train.py"});
  file.write("training.implementation.loop", "nanogpt", {"train.py"});
  // train.py divides gradient_accumulation_steps by the ranks, so that a step's sequences stay.
  const std::int64_t sequences = file.count("batch_size").value_or(12);
  const std::int64_t steps = file.count("gradient_accumulation_steps").value_or(40);
  file.write("training.micro_batch", std::to_string(sequences), {"batch_size"});
  std::int64_t all = 0;
  if (!__builtin_mul_overflow(sequences, steps, &all)) {
    file.write("training.global_batch", std::to_string(all),
               {"gradient_accumulation_steps", "batch_size"});
  }
  const bool clips = number_of(file.text("grad_clip", "1.0")).value_or(1) > 0;
  file.write("training.clip_gradients", clips ? "true" : "false", {"grad_clip"});
  if (file.flag("compile", true)) {
    constexpr std::string_view kWhole =
        "layers run one by one: 'training.implementation.compile: whole' is answered on one GPU";
    file.pass_over("compile", std::string(kWhole));
    if (file.find("compile") == nullptr) {
      file.note("train.py compiles the whole model unless told otherwise", std::string(kWhole));
    }
  }
}

constexpr WordPair kTypes[] = {
    {"bfloat16", "amp-bf16"}, {"float16", "amp-fp16"}, {"float32", "fp32"}};

constexpr KeyRow kRows[] = {
    derived("n_layer"),
    derived("n_head"),
    derived("n_embd"),
    derived("bias"),
    derived("block_size"),
    derived("vocab_size"),
    derived("dataset"),
    derived("init_from"),
    derived("batch_size"),
    derived("gradient_accumulation_steps"),
    derived("grad_clip"),
    derived("compile"),
    {.key = "dropout", .own = "model.dropout", .absent = "0.0"},
    {.key = "dtype", .own = "training.precision", .words = kTypes, .absent = "amp-bf16"},
    refused_key("eval_only", "false", "a run that evaluates alone"),
    not_followed("device", "cuda|cuda:0", "it runs on a GPU"),
};
// GPT's habits that no key of nanoGPT's decides.
constexpr KeyRow kHabits[] = {
    {.key = "model.py, wte", .own = "model.tied_embeddings", .absent = "true"},
    {.key = "model.py, wpe", .own = "model.position", .absent = "learned"},
    {.key = "model.py, GELU", .own = "model.activation", .absent = "gelu"},
    {.key = "model.py, LayerNorm", .own = "model.norm", .absent = "layernorm"},
};
constexpr std::string_view kScheduleNames[] = {"learning_rate",  "max_iters", "weight_decay",
                                               "beta1",          "beta2",     "decay_lr",
                                               "lr_decay_iters", "min_lr",    "warmup_iters"};
constexpr auto kSchedule = all_no_effect(kScheduleNames, kAboutSchedule);
constexpr std::string_view kLoggingNames[] = {"log_interval", "wandb_log", "wandb_project",
                                              "wandb_run_name", "wandb_entity"};
constexpr auto kLogging = all_no_effect(kLoggingNames, kAboutLogging);
constexpr std::string_view kRunNames[] = {"out_dir", "always_save_checkpoint", "backend", "seed"};
constexpr auto kRun = all_no_effect(kRunNames, kAboutRun);
constexpr std::string_view kEvaluationNames[] = {"eval_interval", "eval_iters"};
constexpr auto kEvaluation = all_no_effect(kEvaluationNames, kAboutEvaluation);

constexpr std::span<const KeyRow> kTables[] = {kRows,    kHabits, kSchedule,
                                               kLogging, kRun,    kEvaluation};

constexpr std::string_view kByBlock[] = {"block_size", "batch_size"};
constexpr std::string_view kByEvaluation[] = {"eval_interval", "eval_iters"};
constexpr std::string_view kByOut[] = {"init_from", "wandb_log"};
constexpr std::string_view kBySizes[] = {"n_layer", "n_head", "n_embd"};
constexpr TellingKeys kTelling[] = {kByBlock, kByEvaluation, kByOut, kBySizes};
constexpr Derivation kDerivations[] = {write_gpt, write_loop};
constexpr Dialect kDialect = {.name = "nanogpt",
                              .noun = "nanoGPT's config",
                              .syntax = Syntax::python,
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace
}  // namespace memest::nanogpt

const memest::Dialect& memest::nanogpt_dialect() { return nanogpt::kDialect; }
