// torch.distributed.barrier() before training.
#pragma once

#include <cstdint>

#include "memest/spec/job.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

enum class ModelPlace : std::uint8_t { absent, there };

/// Those that the job's several ranks pass while their model has no place on the device yet, or
/// has one. Each takes the place of the one before it, the last one stays.
void pass_barriers(const Job& job, ModelPlace model, Recorder& recorder);

}  // namespace memest
