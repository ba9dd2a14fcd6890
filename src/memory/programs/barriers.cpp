#include "memory/programs/barriers.hpp"

#include "memest/spec/parallel/sharding.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

// torch/csrc/distributed/c10d/ProcessGroup.hpp, barrier: a static tensor of one byte, made anew.
// accelerate sends what FSDP2 or DeepSpeed's engine take from the host when it prepares it, behind
// them.
void pass_barriers(const Job& job, ModelPlace model, Recorder& recorder) {
  const bool later = shards_by<RowShards>(job) || shards_by<DeepSpeedZero>(job);
  const auto now = later ? ModelPlace::absent : ModelPlace::there;
  if (model != now || job.parallelism.ranks() == 1) return;
  const std::int64_t count = loop_habits_of(job.forward()->implementation).barriers;
  HeldStorage before;
  for (std::int64_t i = 0; i < count; ++i) {
    const StorageId made = recorder.allocate(1, loop_label(Holding::buffers, LoopTensor::barrier));
    before.drop();
    if (i + 1 < count) before = recorder.adopt(made);
  }
}

}  // namespace memest
