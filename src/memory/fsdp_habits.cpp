#include "fsdp_habits.hpp"

namespace memest {
namespace {

bool runs_trainer_with_fsdp2(const Job& job) {
  return job.training && job.parallelism.shards_rows() &&
         job.training->implementation.loop == LoopKind::trainer;
}

}  // namespace

// transformers 5.17, TrainingArguments._process_fsdp_args: cpu_ram_efficient_loading is off.
// PyTorch's tutorial of FSDP2 and torchtitan 0.2.2 make the model on the meta device.
bool cuts_shares(const Job& job) { return runs_trainer_with_fsdp2(job); }

// accelerate 1.15, FullyShardedDataParallelPlugin.set_mixed_precision: output_dtype is param_dtype.
bool casts_loss(const Job& job) {
  return runs_trainer_with_fsdp2(job) && job.training->recipe.gathered_units;
}

// accelerate 1.15, Accelerator.no_sync, which Trainer._inner_training_loop enters for all but a
// step's last batch.
bool reduces_last(const Job& job) {
  return runs_trainer_with_fsdp2(job) && job.training->gradient_accumulation > 1;
}

}  // namespace memest
