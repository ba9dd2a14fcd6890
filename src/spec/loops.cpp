// The programs around a model, a row each.
#include <array>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "spec/change_word_rows.hpp"

namespace memest {
namespace {

constexpr std::array kWrittenLoops = {LoopKind::plain, LoopKind::nanogpt, LoopKind::trainer,
                                      LoopKind::sft, LoopKind::dpo};

constexpr std::string_view kNoSyncOfAccelerate = "accelerate 1.15, Accelerator.no_sync";

constexpr LoopRow kPlainLoop = {.name = "plain"};
// train.py: configure_optimizers takes fused AdamW on CUDA, and the variable logits lives until the
// next micro-step.
constexpr LoopRow kTrainPy = {.name = "nanogpt",
                              .title = "train.py",
                              .trains = Framework::nanogpt,
                              .model_type = "nanogpt",
                              .fused_adamw = true,
                              .holds_logits = true,
                              .has_data_loader = false};
// training_args.py: the default is adamw_torch_fused from PyTorch 2.8 on. Adafactor is
// transformers/optimization.py's; compute_loss passes num_items_in_batch, so the loss is a sum
// divided by it; get_batch_samples takes a step's batches at once, dataloader_pin_memory is True.
constexpr LoopRow kTrainer = {.name = "trainer",
                              .title = "the Trainer",
                              .trains = Framework::transformers,
                              .accelerate = true,
                              .no_sync = kNoSyncOfAccelerate,
                              .fused_adamw = true,
                              .own_adafactor = true,
                              .takes_batches_first = true,
                              .pins_batches = true,
                              .divides_by_targets = true,
                              .fsdp_recipe = "accelerate-fsdp2-bf16",
                              .change_words = &kWordsOfTrainer};
// trl 1.16: base_config.py has gradient_checkpointing=True; add_fused_lm_head takes the loss, and
// DataCollatorForLanguageModeling answers an attention_mask.
constexpr LoopRow kSftTrainer = {.name = "sft",
                                 .title = "SFTTrainer",
                                 .trains = Framework::transformers,
                                 .accelerate = true,
                                 .no_sync = kNoSyncOfAccelerate,
                                 .fused_adamw = true,
                                 .own_adafactor = true,
                                 .takes_batches_first = true,
                                 .pins_batches = true,
                                 .takes_tiles = true,
                                 .passes_token_mask = true,
                                 .sends_documents = true,
                                 .recomputes = true,
                                 .fsdp_recipe = "accelerate-fsdp2-bf16",
                                 .change_words = &kWordsOfTrainer};
constexpr LoopRow preferring(LoopRow row) {
  row.name = "dpo";
  row.title = "DPOTrainer";
  row.prefers = true;
  return row;
}
constexpr LoopRow kDpoTrainer = preferring(kSftTrainer);
// train.py, train_step: a list named microbatches collects all of a step's before the first runs.
constexpr LoopRow kTorchtitanLoop = {.name = "torchtitan",
                                     .title = "torchtitan",
                                     .trains = Framework::torchtitan,
                                     .fused_adamw = true,
                                     .keeps_batches = true,
                                     .takes_batches_first = true};

// recipes/*_finetune_*.py name torch.optim.AdamW with fused: True.
constexpr LoopRow kTorchtuneRecipe = {.name = "torchtune",
                                      .title = "a recipe of torchtune",
                                      .trains = Framework::torchtune,
                                      .fused_adamw = true,
                                      .steps_in_backward = true,
                                      .sums_targets = true};

// finetune/{full,lora}.py: `logits` is a name of fit()'s own. Without a class_path the optimizer is
// torch.optim.AdamW without an implementation.
constexpr LoopRow kLitgptFinetune = {.name = "litgpt",
                                     .title = "litgpt's finetune",
                                     .trains = Framework::litgpt,
                                     .no_sync = "lightning 2.6, Fabric.no_backward_sync",
                                     .holds_logits = true};

}  // namespace

const LoopRow& row_of(LoopKind loop) {
  switch (loop) {
    case LoopKind::plain:
      return kPlainLoop;
    case LoopKind::nanogpt:
      return kTrainPy;
    case LoopKind::trainer:
      return kTrainer;
    case LoopKind::sft:
      return kSftTrainer;
    case LoopKind::dpo:
      return kDpoTrainer;
    case LoopKind::torchtitan:
      return kTorchtitanLoop;
    case LoopKind::torchtune:
      return kTorchtuneRecipe;
    case LoopKind::litgpt:
      return kLitgptFinetune;
  }
  unreachable("every loop has a row");
}

std::span<const LoopKind> written_loops() { return kWrittenLoops; }

std::string_view name_of(LoopKind loop) { return row_of(loop).name; }

}  // namespace memest
