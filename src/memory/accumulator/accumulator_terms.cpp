#include "memory/accumulator/accumulator_terms.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/dtype.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/sharding/coalesced_broadcast.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

constexpr const char* kCollectives =
    "nanotron, distributed.py: flat copies for torch's collectives";

/// The gradients in the order in which a backward makes them.
std::vector<BucketTensor> arriving_gradients(const Inventory& inventory, DType type) {
  std::vector<BucketTensor> gradients;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    if (placed.buffer) continue;
    const std::int64_t elements = elements_of(inventory.parameters[placed.row]);
    gradients.push_back({type, checked_multiply(size_of(type), elements)});
  }
  std::reverse(gradients.begin(), gradients.end());
  return gradients;
}

}  // namespace

AccumulatorTerms::AccumulatorTerms(const Graph& graph, const Job& job) : job_(job), graph_(graph) {
  const Sharding sharding = sharding_of(job);
  const auto* accumulator = std::get_if<GradientAccumulator>(&sharding);
  if (accumulator == nullptr) return;
  exists_ = true;
  divides_ = accumulator->divides_optimizer && accumulator->buckets;
  if (!divides_) return;
  const bool alone =
      graph.stages.empty() || (graph.trains && job.parallelism.schedule == Schedule::one_f_one_b);
  flies_beside_ = !alone;
  const DType weights = job.training->recipe.weights;
  const std::int64_t element = size_of(weights);
  const std::int64_t cap = accumulator->buckets->bucket_cap.value();
  for (const TensorBucket& bucket :
       buckets_of(arriving_gradients(graph.parameters, weights), {cap, cap})) {
    buckets_.push_back(bucket.bytes / element);
  }
  for (const Block& block : graph.blocks) {
    block_elements_.push_back(narrow_to_int64(block.parameters().evaluate(graph.sizes)));
  }
}

std::vector<LedgerTerm> AccumulatorTerms::residents() const {
  if (!exists_) return {};
  const Expr tokens = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len);
  constexpr std::int64_t kMasks = 2;
  return {{"labels and masks", TermGroup::buffers,
           Expr(size_of(DType::int64) + kMasks * size_of(DType::boolean)) * tokens,
           "nanotron, engine.py: the micro-batch's dictionary", ""}};
}

/// reduce_scatter_coalesced: a part, all parts, and all of them in one.
LedgerTerm AccumulatorTerms::copies(std::int64_t elements) const {
  const Expr all = Expr(checked_multiply(size_of(DType::fp32), elements));
  return {"flat copies of reduced gradients", TermGroup::gradients,
          all / Expr(Symbol::data) + Expr(2) * all, kCollectives, ""};
}

LedgerTerm AccumulatorTerms::whole(const char* name, DType type) const {
  return {name, TermGroup::gradients, size_of(type) * Expr(Symbol::parameters),
          "nanotron, optim/gradient_accumulator.py", ""};
}

std::vector<LedgerTerm> AccumulatorTerms::reducing(const Site& site, const Expr& own) const {
  if (!divides_ || flies_beside_) return {};
  std::int64_t arrived = narrow_to_int64(own.evaluate(graph_.sizes));
  for (std::size_t i = 0; i < block_elements_.size(); ++i) {
    arrived = checked_add(arrived, checked_multiply(site.after[i], block_elements_[i]));
  }
  std::int64_t filled = 0;
  for (const std::int64_t bucket : buckets_) {
    if (bucket > arrived) break;
    arrived -= bucket;
    filled = bucket;
  }
  if (filled == 0) return {};
  return {copies(filled)};
}

std::vector<AccumulatorTerms::Together> AccumulatorTerms::steps(const Graph& graph) const {
  if (!divides_) return {};
  const Recipe& recipe = job_.training->recipe;
  const std::vector<LedgerTerm> gradients = {whole("sums of gradients (fp32)", DType::fp32),
                                             whole("gradients of a backward", recipe.weights)};
  // The first backward has one bucket, which ends with it; there are no states yet.
  std::vector<LedgerTerm> first = weight_terms(job_, graph.parameters);
  const auto add = [&first](std::vector<LedgerTerm> terms) {
    first.insert(first.end(), terms.begin(), terms.end());
  };
  add(master_terms(job_, graph.parameters));
  add(buffer_terms(graph.parameters));
  add(workspace_terms(graph, job_));
  add(resident_bucket_terms(job_, graph.parameters));
  add(gradients);
  first.push_back(copies(elements_of(graph.parameters)));
  std::vector<LedgerTerm> later = gradients;
  later.push_back(copies(buckets_.back()));
  const Expr weights = size_of(recipe.weights) * Expr(Symbol::parameters);
  return {{"the first step's gradients reduced", std::move(first), false},
          {"the last gradients reduced", std::move(later), true},
          {"weights gathered behind the step",
           {gradients.front(),
            {"flat copies of gathered weights", TermGroup::weights,
             weights / Expr(Symbol::data) + Expr(2) * weights, kCollectives, ""}},
           true}};
}

}  // namespace memest
