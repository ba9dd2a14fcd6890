#include "shard_init.hpp"

#include <cstdlib>
#include <string>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

bool runs_trainer(const Job& job) {
  return job.forward() != nullptr && job.forward()->implementation.loop == LoopKind::trainer;
}

}  // namespace

// torchtitan 0.2.2, train.py: torch.device("meta"). transformers 5.17, TrainingArguments.
// _process_fsdp_args: cpu_ram_efficient_loading is off. PyTorch's tutorials: FSDP2's model is made
// on the meta device, FSDP1's on the host, with device_id.
ShardInit shard_init_of(const Job& job) {
  expect(job.parallelism.fsdp.has_value(), "FSDP alone has shards to make");
  if (const char* e = std::getenv("XINIT"))
    return std::string(e) == "meta"   ? ShardInit::meta
           : std::string(e) == "host" ? ShardInit::host
                                      : ShardInit::device;
  return job.parallelism.shards_flat() || runs_trainer(job) ? ShardInit::host : ShardInit::meta;
}

// FullyShardedDataParallel's own default is off.
bool syncs_states(const Job& job) {
  return job.parallelism.shards_flat() && std::getenv("XSYNC") != nullptr;
}

// accelerate 1.15, FullyShardedDataParallelPlugin.set_mixed_precision: output_dtype is param_dtype.
bool casts_loss(const Job& job) {
  return job.parallelism.shards_rows() && job.training && runs_trainer(job) &&
         job.training->recipe.gathered_units;
}

// accelerate 1.15, Accelerator.no_sync, which Trainer._inner_training_loop enters for all but a
// step's last batch.
bool reduces_last(const Job& job) {
  return job.parallelism.fsdp && job.training && job.training->gradient_accumulation > 1 &&
         runs_trainer(job);
}

}  // namespace memest
