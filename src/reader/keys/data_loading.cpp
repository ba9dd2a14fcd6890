// The keys of `training.data`.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr Key kDataKeys[] = {
    {.name = "workers",
     .shapes = {count(0, 10'000)},
     .fallback = "0",
     .doc = "Processes of every rank's loader (num_workers); 0: its own."},
    {.name = "prefetch",
     .shapes = {count(1, 10'000)},
     .doc = "Batches of a worker that are under way or ready (prefetch_factor); 2 where left out."},
    {.name = "pin_memory",
     .shapes = {flag()},
     .doc = "Batches wait in page-locked memory; as the Trainer does where left out."},
    {.name = "sample_bytes",
     .shapes = {quantity(Dimension::size)},
     .doc = "Size of a sample in memory, ready to be sent."},
    {.name = "sample_seconds",
     .shapes = {quantity(Dimension::duration)},
     .doc = "Time that one process needs for a sample; without it no step is timed."},
    {.name = "dataset_bytes",
     .shapes = {quantity(Dimension::size)},
     .doc = "Size of a data set that is held in memory, by every rank."},
    {.name = "shared_dataset",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The ranks of a node map one copy of it (shared memory, memory-mapped files)."},
};

}  // namespace

std::span<const Key> data_keys() { return kDataKeys; }

}  // namespace memest
