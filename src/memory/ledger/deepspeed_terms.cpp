#include "memory/ledger/deepspeed_terms.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memest/memory/flattening.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

constexpr const char* kSourceOfStages12 = "DeepSpeed 0.19, runtime/zero/stage_1_and_2.py";
constexpr const char* kBf16Optimizer = "DeepSpeed 0.19, runtime/bf16_optimizer.py";
constexpr const char* kSourceOfStage3 = "DeepSpeed 0.19, runtime/zero/stage3.py";
constexpr const char* kCoordinator =
    "DeepSpeed 0.19, runtime/zero/partitioned_param_coordinator.py: every module gathers ahead, "
    "until stage3_max_live_parameters are there";

constexpr std::int64_t kPartialNormBytes = size_of(kDeepSpeedNormType);

/// 0 where a partition has no piece of any parameter.
std::int64_t largest_of(const std::vector<std::int64_t>& pieces) {
  const auto most = std::max_element(pieces.begin(), pieces.end());
  return most == pieces.end() ? 0 : *most;
}

std::vector<std::int64_t> trained_in_order(const Inventory& inventory) {
  std::vector<std::int64_t> elements;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    if (placed.buffer || !inventory.parameters[placed.row].trainable) continue;
    elements.push_back(elements_of(inventory.parameters[placed.row]));
  }
  return elements;
}

}  // namespace

DeepSpeedTerms::DeepSpeedTerms(const Graph& graph, const Job& job)
    : job_(job),
      exist_(shards_by<DeepSpeedZero>(job)),
      zero_(exist_ ? std::get<DeepSpeedZero>(sharding_of(job))
                   : DeepSpeedZero{.stage = ZeroStage::none, .settings = {}}),
      weight_bytes_(size_of(job.training->recipe.weights)),
      gradient_bytes_(size_of(job.training->recipe.gradients)),
      partitions_(exist_ ? trained_in_order(graph.parameters) : std::vector<std::int64_t>{},
                  job.parallelism.data) {
  if (!exist_) return;
  for (const ParameterTensor& tensor : graph.parameters.parameters) {
    const std::int64_t elements = memest::elements_of(tensor);
    if (tensor.trainable) largest_ = std::max(largest_, elements);
    // DeepSpeedZeRoOffload.mark_persistent_parameters: with the default of 100,000 elements norms
    // and biases stay on every rank.
    if (elements > zero_.settings.persistence_threshold) continue;
    persistent_ = checked_add(persistent_, checked_multiply(elements, tensor.count));
  }
  for (const Block& block : graph.blocks) {
    block_elements_.push_back(narrow_to_int64(block.parameters().evaluate(graph.sizes)));
    std::int64_t largest = 0;
    for (const Tensor& tensor : block.tensors) {
      if (tensor.role != Role::parameter) continue;
      largest = std::max(largest, narrow_to_int64(tensor.elements().evaluate(graph.sizes)));
    }
    block_largest_.push_back(largest);
    is_layer_.push_back(block.checkpointable);
  }
  layers_ = graph.layers();
  reads_last_ = row_of(job.training->implementation.loop).takes_tiles;
}

LedgerTerm DeepSpeedTerms::bucket() const {
  // setup_buckets makes two: one is filled while the other is reduced. 5·10^8 elements of 2 B are 1
  // GB each.
  const bool twice = zero_.overlaps() && !shards_weights();
  return {"gradient bucket of DeepSpeed", TermGroup::gradients,
          Expr(twice ? 2 * weight_bytes_ : weight_bytes_) * Expr(Symbol::bucket),
          shards_weights() ? kSourceOfStage3 : kSourceOfStages12,
          "reduce_bucket_size, whatever the model's size; twice with overlap_comm"};
}

std::vector<LedgerTerm> DeepSpeedTerms::residents() const {
  if (!exist_) return {};
  std::vector<LedgerTerm> terms;
  const Recipe& recipe = job_.training->recipe;
  const bool offloads = job_.parallelism.offload.optimizer;
  if (!recipe.master && recipe.weights == DType::fp32 && !offloads) {
    terms.push_back({"DeepSpeed's copy of the weights (fp32)", TermGroup::optimizer,
                     4 * Expr(Symbol::parameters) / Symbol::data,
                     "DeepSpeed 0.19 steps a copy in fp32, beside fp32 weights too", ""});
  }
  // async_accumulate_grad_in_cpu_via_gpu copies the host's sum here, to be added to a new gradient.
  if (!shards_weights() && offloads) {
    terms.push_back({"buffer for gradients from the host", TermGroup::gradients,
                     Expr(checked_multiply(weight_bytes_, partitions_.largest())),
                     kSourceOfStages12,
                     "temp_grad_buffer_for_gpu_offload, as large as the largest parameter"});
  }
  if (!shards_weights()) return terms;
  if (zero_.settings.contiguous_gradients) terms.push_back(bucket());
  if (persistent_ > 0) {
    terms.push_back({"weights that stay gathered", TermGroup::weights,
                     Expr(checked_multiply(weight_bytes_, persistent_)), kSourceOfStage3,
                     "all of at most stage3_param_persistence_threshold elements"});
  }
  return terms;
}

std::vector<LedgerTerm> DeepSpeedTerms::gathered(const Site& site, bool backward) const {
  if (!exist_ || !shards_weights()) return {};
  std::int64_t there = block_elements_[site.block];
  for (std::size_t i = 0; i < block_elements_.size(); ++i) {
    there = checked_add(there, checked_multiply(site.before[i], block_elements_[i]));
    if (!backward) there = checked_add(there, checked_multiply(site.after[i], block_elements_[i]));
  }
  // The weights that the outermost module reads in the last block outlive its backward.
  const bool beside = reads_last_ && site.after.back() > 0;
  const std::int64_t read = beside ? block_elements_.back() : 0;
  if (backward) there = checked_add(there, read);
  // PartitionedParameterCoordinator.fetch_sub_module stops at stage3_max_live_parameters, but a
  // module that runs needs its own weights however many they are.
  const std::int64_t live =
      std::max(zero_.settings.max_live_parameters, checked_add(block_largest_[site.block], read));
  const std::int64_t elements = std::min(there, live);
  return {{"gathered weights of ZeRO 3", TermGroup::weights,
           Expr(checked_multiply(weight_bytes_, elements)), kCoordinator,
           "min(weights not yet done with, stage3_max_live_parameters)"}};
}

std::vector<LedgerTerm> DeepSpeedTerms::reducing(const Site& site, const Moment& moment) const {
  if (!exist_) return {};
  std::int64_t behind = 0;
  for (std::size_t i = 0; i < block_elements_.size(); ++i) {
    behind = checked_add(behind, checked_multiply(site.after[i], block_elements_[i]));
  }
  if (behind == 0 && moment.gradient_elements.is_zero()) return {};
  if (sums_whole_gradients(job_)) {
    const std::int64_t arrived = checked_add(behind, block_elements_[site.block]);
    return {{"gradients beside their sums", TermGroup::gradients,
             Expr(checked_multiply(weight_bytes_, arrived)), kBf16Optimizer, ""}};
  }
  std::vector<LedgerTerm> terms;
  if (!shards_weights() && zero_.settings.contiguous_gradients) terms.push_back(bucket());
  const std::int64_t largest = block_largest_[site.block];
  // extra_large_param_to_reduce: a gradient larger than the bucket is reduced where it is, and not
  // copied into the bucket. The first of all, where the last block has one weight, waits behind it.
  const bool first = shards_weights() && reads_last_ && site.after.back() == 0;
  if (!first && site.layers_before > 0 && largest > zero_.settings.reduce_bucket_size) {
    terms.push_back({"gradient larger than the bucket", TermGroup::gradients,
                     Expr(checked_multiply(weight_bytes_, largest)), kSourceOfStages12,
                     "waits for the next parameter's"});
  }
  const HostOffload& offload = job_.parallelism.offload;
  if (offload.optimizer) terms.push_back(sent_to_host(sent_at(site, moment)));
  if (offload.optimizer_on_nvme) terms.push_back(sent_to_nvme(behind));
  return terms;
}

/// All of a bucket, of which each gradient is widened while those before it wait.
LedgerTerm DeepSpeedTerms::sent_to_nvme(std::int64_t behind) const {
  const std::int64_t reduced = std::min(behind, zero_.settings.reduce_bucket_size);
  const std::int64_t share = piece_of(reduced, job_.parallelism.data);
  return {"gradients of a bucket on their way to NVMe", TermGroup::gradients,
          Expr(checked_multiply(size_of(DType::fp32), share)), kSourceOfStage3,
          "fp32, all of a bucket at once; read in the source, unverified"};
}

LedgerTerm DeepSpeedTerms::sent_to_host(std::int64_t elements) const {
  return {"copies of a gradient on its way to the host", TermGroup::gradients,
          Expr(checked_multiply(kPartialNormBytes, elements)),
          shards_weights() ? kSourceOfStage3 : kSourceOfStages12,
          "in fp64 for its norm, then in fp32"};
}

/// Elements of the largest piece that goes to the host as the next gradient comes: of the site's
/// own block, or for its first of the block behind.
std::int64_t DeepSpeedTerms::sent_at(const Site& site, const Moment& moment) const {
  if (moment.new_gradient_elements.is_zero()) return 0;
  const bool own = !(moment.gradient_elements - moment.new_gradient_elements).is_zero();
  std::int64_t largest = own ? block_largest_[site.block] : 0;
  std::int64_t behind = 0;
  for (std::size_t i = 0; i < is_layer_.size(); ++i) {
    behind = checked_add(behind, checked_multiply(site.after[i], block_elements_[i]));
    const bool just_behind =
        site.after[i] > 0 && (is_layer_[i] || site.layers_before + 1 >= layers_);
    if (just_behind && !own) largest = std::max(largest, block_largest_[i]);
  }
  const std::int64_t ranks = job_.parallelism.data;
  if (shards_weights()) return piece_of(largest, ranks);
  // Gradients arrive from the last parameter on. Only those in this rank's partition go to its
  // host.
  const bool own_come =
      zero_.stage == ZeroStage::optimizer_gradients && behind < partitions_.partition();
  return own_come ? std::min(largest, partitions_.partition()) : 0;
}

LedgerTerm DeepSpeedTerms::own_gradients() const {
  // Stage 3 has reduce-scattered shards; stage 2 keeps `averaged_gradients`, whole tensors in the
  // type of the weights.
  if (shards_weights() || gradient_bytes_ > weight_bytes_) {
    return {"gradients of the rank's shard", TermGroup::gradients,
            gradient_bytes_ * Expr(Symbol::parameters) / Symbol::data, kSourceOfStage3, ""};
  }
  return {"gradients of the parameters in the rank's partition", TermGroup::gradients,
          Expr(checked_multiply(weight_bytes_, partitions_.reaching(rank()))), kSourceOfStages12,
          "whole tensors, of every parameter that reaches into it"};
}

/// Elements of the shard that is stepped at once.
std::int64_t DeepSpeedTerms::stepped_elements() const {
  const std::int64_t share = partitions_.partition();
  return shards_weights() ? std::min(share, zero_.settings.sub_group_size) : share;
}

/// All sums and the gradients beside them, which stay until the step has ended.
std::vector<LedgerTerm> DeepSpeedTerms::whole_gradients() const {
  return {{"gradients beside their sums", TermGroup::gradients,
           weight_bytes_ * Expr(Symbol::parameters), kBf16Optimizer, ""},
          {"sums of the gradients", TermGroup::gradients,
           gradient_bytes_ * Expr(Symbol::parameters), kBf16Optimizer, ""}};
}

/// Stage 1 reduces and sends them one behind the other while the rest waits.
std::vector<DeepSpeedTerms::Instant> DeepSpeedTerms::after_backward_to_host() const {
  if (zero_.stage != ZeroStage::optimizer) return {};
  const std::vector<std::int64_t> pieces = partitions_.pieces(rank());
  return {{"gradients sent to the host",
           {LedgerTerm{"gradients that wait to be sent", TermGroup::gradients,
                       weight_bytes_ * Expr(Symbol::parameters), kSourceOfStages12, ""},
            bucket(), sent_to_host(largest_of(pieces))}}};
}

std::vector<DeepSpeedTerms::Instant> DeepSpeedTerms::after_backward() const {
  if (job_.parallelism.offload.optimizer) return after_backward_to_host();
  if (sums_whole_gradients(job_)) {
    std::vector<LedgerTerm> terms = whole_gradients();
    terms.push_back({"gradients put together to be reduced", TermGroup::gradients,
                     weight_bytes_ * Expr(Symbol::parameters), kBf16Optimizer, ""});
    return {{"last reduction", std::move(terms)}};
  }
  const std::vector<std::int64_t> pieces = partitions_.pieces(rank());
  // get_grad_norm_direct widens one gradient at a time.
  const std::int64_t normed =
      shards_weights() ? piece_of(largest_, job_.parallelism.data) : largest_of(pieces);
  const LedgerTerm norm = LedgerTerm{"fp64 copy of a gradient, for its norm", TermGroup::gradients,
                                     Expr(checked_multiply(kPartialNormBytes, normed)),
                                     "DeepSpeed 0.19, get_grad_norm_direct", ""};
  const std::int64_t stepped = stepped_elements();
  const LedgerTerm flat =
      LedgerTerm{"gradients put together", TermGroup::optimizer,
                 Expr(checked_multiply(gradient_bytes_, stepped)), "DeepSpeed 0.19, step()", ""};
  // step(): flatten() of the averaged gradients, then .to() of the master's type: parts, flat
  // tensor and its fp32 copy are alive together.
  std::vector<LedgerTerm> widening{own_gradients(), flat};
  if (gradient_bytes_ < size_of(DType::fp32)) {
    widening.push_back({"fp32 copies of the gradients", TermGroup::optimizer,
                        Expr(checked_multiply(size_of(DType::fp32), stepped)),
                        "DeepSpeed 0.19, step()", ""});
  }
  std::vector<Instant> instants{{"gradient norm", {own_gradients(), norm}},
                                {"gradients put together", std::move(widening)}};
  if (shards_weights()) return instants;
  const std::int64_t reduced = std::min(zero_.settings.reduce_bucket_size, partitions_.elements());
  std::vector<LedgerTerm> last{{"gradients put together to be reduced", TermGroup::gradients,
                                Expr(checked_multiply(weight_bytes_, reduced)), kSourceOfStages12,
                                ""}};
  if (zero_.settings.contiguous_gradients) last.push_back(bucket());
  if (zero_.stage == ZeroStage::optimizer_gradients) last.push_back(own_gradients());
  instants.push_back({"last reduction", std::move(last)});
  return instants;
}

std::vector<DeepSpeedTerms::Instant> DeepSpeedTerms::steps(const Graph& graph) const {
  if (!exist_) return {};
  std::vector<Instant> instants = after_backward();
  std::vector<LedgerTerm> terms =
      job_.parallelism.offload.optimizer ? std::vector<LedgerTerm>{} : stepping();
  if (makes_states_in_step(*job_.training)) {
    for (LedgerTerm& state : state_terms(job_, graph.parameters)) terms.push_back(std::move(state));
  }
  instants.push_back({"optimizer step", std::move(terms)});
  for (Instant& instant : instants) instant.terms.push_back(batch_term(graph));
  if (job_.parallelism.offload.optimizer && !shards_weights() && !flattens_on_host(graph, job_)) {
    instants.push_back(flattening(graph));
  }
  return instants;
}

/// Where no states stand beside them, the weights and what takes their place may be the peak.
DeepSpeedTerms::Instant DeepSpeedTerms::flattening(const Graph& graph) const {
  std::vector<LedgerTerm> terms = weight_terms(job_, graph.parameters);
  for (LedgerTerm& buffer : buffer_terms(graph.parameters)) terms.push_back(std::move(buffer));
  terms.push_back({"flat copy of the weights", TermGroup::weights,
                   weight_bytes_ * Expr(Symbol::parameters), kSourceOfStages12, ""});
  return {"weights made flat", std::move(terms), false};
}

/// While the optimizer runs.
std::vector<LedgerTerm> DeepSpeedTerms::stepping() const {
  const StepTransient& transient = implementation_of(*job_.training).transient;
  const std::int64_t fp32 = checked_multiply(size_of(DType::fp32), stepped_elements());
  // The optimizer steps one flat tensor: copies of all parameters and of the largest one are equal.
  const std::int64_t copies = transient.whole_copies + transient.largest_copies +
                              (transient.running_pair ? std::int64_t{2} : std::int64_t{0});
  std::vector<LedgerTerm> terms;
  if (sums_whole_gradients(job_)) {
    terms = whole_gradients();
  } else {
    terms.push_back({"fp32 copies of the gradients", TermGroup::optimizer, Expr(fp32),
                     "DeepSpeed 0.19, step()", ""});
  }
  if (shards_weights()) terms.push_back(own_gradients());
  if (copies > 0) {
    terms.push_back({"temporaries of the step", TermGroup::optimizer,
                     Expr(checked_multiply(copies, fp32)), job_.training->optimizer.source,
                     "of the flat shard, which is one tensor"});
  }
  return terms;
}

}  // namespace memest
