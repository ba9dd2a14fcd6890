// Batches where PyTorch 2.11's torch.utils.data keeps them: dataloader.py, _utils/worker.py,
// _utils/fetch.py and _utils/pin_memory.py. A sample counts as one tensor.
#include "memory/loader_memory.hpp"

#include <string>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/page_locked.hpp"

namespace memest {
namespace {

constexpr const char* kFetch = "torch/utils/data/_utils/fetch.py, PyTorch 2.11";
constexpr const char* kIterator = "torch/utils/data/dataloader.py, PyTorch 2.11";
constexpr const char* kPinning =
    "_utils/pin_memory.py and ATen/core/CachingHostAllocator.h, PyTorch 2.11";

class LoaderTerms {
 public:
  LoaderTerms(const DataLoading& loading, const TakenBatches& taken)
      : loading_(loading), held_(taken.at_once ? taken.count : 1), samples_(taken.samples) {}

  std::vector<HostTerm> write() && {
    if (loading_.sample_bytes) write_batches(loading_.sample_bytes->value());
    if (loading_.dataset_bytes) write_dataset();
    return std::move(terms_);
  }

 private:
  void add(std::string name, std::int64_t bytes, std::string formula, const char* source) {
    if (bytes == 0) return;
    terms_.push_back({.name = std::move(name),
                      .bytes = Bytes(bytes),
                      .pinned = {},
                      .on_nvme = false,
                      .formula = std::move(formula),
                      .source = source});
  }

  void write_batches(std::int64_t sample) {
    const std::int64_t batch = checked_multiply(samples_, sample);
    const std::int64_t workers = loading_.workers;
    // _MapDatasetFetcher.fetch holds the list of a batch's samples until collate_fn has stacked it.
    add("samples of the batches that are made", checked_multiply(workers > 0 ? workers : 1, batch),
        workers > 0 ? "workers · batch" : "batch", kFetch);
    // _try_put_index keeps prefetch_factor · num_workers batches outstanding, beside those that the
    // loop has in its hands; a process that loads for itself makes one beside them.
    const std::int64_t ahead = workers > 0 ? checked_multiply(loading_.prefetch, workers) : 1;
    const std::string of_ahead = workers > 0 ? "prefetch · workers" : "1";
    const std::int64_t all = checked_add(ahead, held_);
    const std::string of_all = "(" + of_ahead + " + " + std::to_string(held_) + ")";
    const char* name = workers > 0 ? "batches in shared memory" : "batches";
    if (!loading_.pin_memory) {
      return add(name, checked_multiply(all, batch), of_all + " · batch", kIterator);
    }
    add(name, checked_multiply(ahead, batch), of_ahead + " · batch", kIterator);
    if (batch == 0) return;
    // The allocator keeps what it has given once, so that the most counts.
    terms_.push_back({.name = "page-locked batches",
                      .bytes = Bytes(checked_multiply(all, batch)),
                      .pinned = Bytes(checked_multiply(all, power_of_two_from(batch))),
                      .on_nvme = false,
                      .formula = of_all + " · batch",
                      .source = kPinning});
  }

  void write_dataset() {
    const bool shared = loading_.shared_dataset;
    add("data set", loading_.dataset_bytes->value(), shared ? "once a node" : "in every rank",
        "training.data.dataset_bytes");
    if (shared && !terms_.empty()) terms_.back().of_node = true;
  }

  const DataLoading& loading_;
  std::int64_t held_;  ///< batches, by the loop
  std::int64_t samples_;
  std::vector<HostTerm> terms_;
};

}  // namespace

std::vector<HostTerm> loader_terms(const Job& job) {
  const TrainingSpec& training = *job.training;
  return LoaderTerms(*training.data,
                     taken_batches(training, job.parallelism, training.gradient_accumulation))
      .write();
}

}  // namespace memest
