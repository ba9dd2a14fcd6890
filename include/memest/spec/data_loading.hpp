// How a rank's batches are made: PyTorch's DataLoader, and what the spec says of a sample.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/units/quantity.hpp"

namespace memest {

/// A DataLoader of every rank; what is not written of a sample is not known.
struct DataLoading {
  std::int64_t workers = 0;   ///< num_workers: processes; 0: the rank's own makes the batches
  std::int64_t prefetch = 2;  ///< prefetch_factor: batches of a worker that are under way or ready
  bool pin_memory = false;
  std::optional<Bytes> sample_bytes;      ///< of a sample, ready to be sent
  std::optional<Seconds> sample_seconds;  ///< that one process needs to make it
  std::optional<Bytes> dataset_bytes;     ///< of samples held in memory
  bool shared_dataset = false;            ///< once a node, in place of once a rank
};

/// The batches that one training step takes from a rank's loader.
struct TakenBatches {
  std::int64_t count = 1;
  std::int64_t samples = 1;  ///< of one
  bool at_once = false;      ///< before the first forward, else each before its own
};

}  // namespace memest
