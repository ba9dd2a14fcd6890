// Tensors that DeepSpeed's ZeRO keeps beside the textbook's shares of the states: buckets,
// partitions whose gradients are whole tensors, gathered weights, and the copies of its step.
// deepspeed/runtime/zero, DeepSpeed 0.19; held to recorded runs (tests/truth).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/engine/sites.hpp"
#include "memory/moments/moments.hpp"
#include "memory/states/flat_partitions.hpp"

namespace memest {

class DeepSpeedTerms {
 public:
  /// Every list is empty for a job without DeepSpeed. `job` outlives this.
  DeepSpeedTerms(const Graph& graph, const Job& job);
  [[nodiscard]] bool exist() const { return exist_; }

  /// Terms that are there from the constructor, or the first forward, on.
  [[nodiscard]] std::vector<LedgerTerm> residents() const;
  /// Stage 3's weights while the block of `site` runs; backward those behind it have gone.
  [[nodiscard]] std::vector<LedgerTerm> gathered(const Site& site, bool backward) const;
  /// Buckets, from the first gradient of a backward on, and what waits beside them in a layer.
  [[nodiscard]] std::vector<LedgerTerm> reducing(const Site& site, const Moment& moment) const;

  struct Instant {
    std::string name;
    std::vector<LedgerTerm> terms;
    bool beside_residents = true;
  };
  /// Instants behind the backward, and before the first step.
  [[nodiscard]] std::vector<Instant> steps(const Graph& graph) const;

 private:
  [[nodiscard]] bool shards_weights() const { return zero_.shards_weights(); }
  [[nodiscard]] std::vector<Instant> after_backward() const;
  [[nodiscard]] std::vector<Instant> after_backward_to_host() const;
  [[nodiscard]] Instant flattening(const Graph& graph) const;
  [[nodiscard]] std::vector<LedgerTerm> stepping() const;
  [[nodiscard]] std::int64_t stepped_elements() const;
  [[nodiscard]] LedgerTerm bucket() const;
  [[nodiscard]] LedgerTerm own_gradients() const;
  [[nodiscard]] LedgerTerm sent_to_host(std::int64_t elements) const;
  [[nodiscard]] LedgerTerm sent_to_nvme(std::int64_t behind) const;
  [[nodiscard]] std::int64_t sent_at(const Site& site, const Moment& moment) const;
  [[nodiscard]] std::vector<LedgerTerm> whole_gradients() const;
  /// Whose partition is looked at.
  [[nodiscard]] std::int64_t rank() const { return deepspeed_rank(job_); }

  const Job& job_;
  bool exist_;
  DeepSpeedZero zero_;
  std::int64_t weight_bytes_;
  std::int64_t gradient_bytes_;
  FlatPartitions partitions_;
  std::vector<std::int64_t> block_elements_;  // of each block of the graph
  std::vector<std::int64_t> block_largest_;   // its largest parameter
  std::vector<bool> is_layer_;
  std::int64_t layers_ = 0;
  bool reads_last_ = false;      // the last block's weights, outside of their modules
  std::int64_t persistent_ = 0;  // elements that stay gathered
  std::int64_t largest_ = 0;     // of the trained parameters
};

}  // namespace memest
