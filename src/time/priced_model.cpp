#include "memest/time/priced_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/time/kernel_law.hpp"
#include "memest/time/loading.hpp"
#include "time/host_step.hpp"
#include "time/launch_rate.hpp"
#include "time/laws/collectives.hpp"
#include "time/part_costs.hpp"
#include "time/recomputation.hpp"
#include "time/step_share.hpp"

namespace memest {
namespace {

/// So many stages of all ranks together need no allocation.
constexpr std::size_t kFewStages = 128;

/// Spreads over all alike the copies that a framework holds, of which the blocks know nothing.
void scale_weights(PartCost& part, double all, double trained) {
  part.weights *= all;
  part.trained *= trained;
  part.trained_experts *= trained;
}

/// Parameters of a table that the first and the last stage have each: a tied one, and the embedding
/// that layers of multi-token prediction read.
double parameters_of_two_stages(const Job& job, const StepWork& work) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  // Beside an adapter the table is frozen.
  if (decoder == nullptr || job.model.adapter) return 0;
  if (!decoder->tied_embeddings && decoder->mtp_layers == 0) return 0;
  const auto ranks = static_cast<double>(job.parallelism.tensor);
  return static_cast<double>(decoder->vocab_size) / ranks *
         static_cast<double>(work.graph->sizes.at(Symbol::hidden_size));
}

/// Whether a rank computes on while its messages to the next stage are on their way. Legacy layers
/// are of a Megatron-LM that waited for all.
bool sends_beside_work(const Job& job, Schedule schedule) {
  const Implementation& implementation = job.training->implementation;
  return row_of(implementation.framework).sends_beside_work && schedule == Schedule::interleaved &&
         implementation.layers != LayerSpec::legacy && !is_megatron_deepspeed(job);
}

}  // namespace

/// One layout of a model, added up.
class StepAccount {
 public:
  StepAccount(const PricedModel& model, const Parallelism& parallelism, std::int64_t micro_steps)
      : model_(model),
        parallelism_(parallelism),
        sharding_(sharding_of(*model.job_->training, parallelism)),
        split_(model.split_of(parallelism)),
        step_{parallelism.schedule, parallelism.pipeline, parallelism.virtual_stages, micro_steps} {
    if (static_cast<std::size_t>(count()) > kFewStages) {
      many_.resize(static_cast<std::size_t>(count()));
    }
    send_ = parallelism.pipeline > 1 ? model.send_seconds(parallelism) : 0;
    if (sends_beside_work(*model.job_, step_.schedule)) {
      travel_ = std::exchange(send_, 0);
    }
    for (std::int64_t index = 0; index < count(); ++index) {
      const PassTimes passes = model.stage(split_, index).passes;
      at(index) = {.forward = passes.forward + sent_between(index),
                   .backward = passes.backward + passes.recompute + sent_between(index - 1),
                   .weights = passes.weights,
                   .travel = index + 1 < count() ? travel_ : 0};
    }
  }

  [[nodiscard]] StepSeconds closed() const { return account(closed_makespan(step_, stages())); }
  [[nodiscard]] StepSeconds simulated() const { return account(makespan(step_, stages())); }

 private:
  [[nodiscard]] std::int64_t count() const { return step_.ranks * step_.chunks; }
  [[nodiscard]] std::span<const StageSeconds> stages() const {
    return {many_.empty() ? few_.data() : many_.data(), static_cast<std::size_t>(count())};
  }
  [[nodiscard]] StageSeconds& at(std::int64_t index) {
    return (many_.empty() ? few_.data() : many_.data())[index];
  }
  [[nodiscard]] PipelinePlace place_at(std::int64_t rank) const {
    return {step_.ranks, rank, step_.chunks, is_v_shaped(step_.schedule)};
  }
  /// Seconds of a stage's message to the next one, unless a rank has both: at the tip of a V.
  [[nodiscard]] double sent_between(std::int64_t index) const {
    // A V runs down the ranks and back up: stages p - 1 and p lie on the last rank.
    const bool is_tip = is_v_shaped(step_.schedule) && index + 1 == step_.ranks;
    return index >= 0 && index + 1 < count() && !is_tip ? send_ : 0;
  }
  [[nodiscard]] double micro_steps() const { return static_cast<double>(step_.micro_batches); }

  [[nodiscard]] StepSeconds account(double makespan) const {
    StepSeconds result;
    for (std::int64_t rank = 0; rank < step_.ranks; ++rank) {
      const StepSeconds works = work_of(rank);
      // The slowest rank is described; others wait for it.
      if (works.total() > result.total()) result = works;
    }
    // One rank alone waits for nobody; the difference would be a rounding.
    if (step_.ranks > 1) result.bubble = std::max(0.0, makespan - result.total());
    add_ends(result);
    const TrainingSpec& training = *model_.job_->training;
    result.loading =
        loading_wait(training, taken_batches(training, parallelism_, step_.micro_batches),
                     {result.computed(), result.passes()});
    return result;
  }

  /// Seconds of one rank, over all micro-steps.
  [[nodiscard]] StepSeconds work_of(std::int64_t rank) const {
    StepSeconds result;
    result.rank = rank;
    for (std::int64_t chunk = 0; chunk < step_.chunks; ++chunk) {
      const std::int64_t index = stage_index(place_at(rank), chunk);
      const StageSeconds& stage = stages()[static_cast<std::size_t>(index)];
      const double after = sent_between(index);
      const double before = sent_between(index - 1);
      result.forward += micro_steps() * (stage.forward - after);
      result.backward += micro_steps() * (stage.backward - before);
      result.sends += micro_steps() * (after + before);
    }
    return result;
  }

  /// Everything a rank holds; the last rank holds its own copy of a tied table.
  [[nodiscard]] PartCost held_by(std::int64_t rank) const {
    PartCost held;
    for (std::int64_t chunk = 0; chunk < step_.chunks; ++chunk) {
      held += model_.stage(split_, stage_index(place_at(rank), chunk));
    }
    // Megatron's first and last stage both hold the word embeddings, whose gradients they
    // all-reduce (_allreduce_word_embedding_grads).
    if (rank > 0 && rank + 1 == step_.ranks) {
      held.weights += model_.tied_;
      held.trained += model_.tied_;
    }
    return held;
  }

  /// The first rank ends last; the last one has what lies behind its last backward for its own.
  void add_ends(StepSeconds& result) const {
    const PartCost first = held_by(0);
    add_collectives(result, first, 0);
    PartCost most = first;
    if (step_.ranks > 1) {
      const PartCost last = held_by(step_.ranks - 1);
      double lead = 0;
      for (std::int64_t rank = 0; rank + 1 < step_.ranks; ++rank) {
        // The last stage's last backward ends before those of all others, one after another: in
        // that time it can reduce.
        lead += stages()[static_cast<std::size_t>(rank)].backward;
      }
      add_collectives(result, last, lead);
      if (last.trained > first.trained) most = last;
      add_tied_embeddings(result);
    }
    const StepWork& work = *model_.work_;
    // The rank with the most parameters steps longest: with pipelines, one with an embedding.
    const double part = work.trainable > 0 ? stepped(most) / work.trainable : 0;
    const double optimizer_bytes = part * work.optimizer_bytes / shards();
    const double clipping_bytes = part * work.clipping_bytes / shards();
    // Ranks that share states share the products: the rows of a result each (DTensor's mm).
    const double shared = part / shards();
    result.products = shared * model_.products_.seconds / model_.share_;
    result.product_flops = shared * model_.products_.flops;
    result.product_bytes = shared * model_.products_.bytes;
    result.accumulation =
        streamed(StreamOp::add, (micro_steps() - 1) * accumulated_bytes(most.trained));
    if (!parallelism_.offload.optimizer) {
      result.optimizer = streamed(StreamOp::adamw, optimizer_bytes);
      result.clipping = streamed(StreamOp::scale, clipping_bytes);
    }
    if (parallelism_.offload.any()) add_host(result, most, {optimizer_bytes, clipping_bytes});
    result.host += micro_steps() * saved_tensor_seconds(*work.graph, *model_.job_->training,
                                                        model_.links_->laws(), model_.outlook_);
    const PassTimes& layers = model_.before_.back().passes;
    const OffloadedModel offloaded{
        *work.graph, *model_.job_->training, {layers.forward, layers.backward}};
    result.host +=
        micro_steps() * offloaded_layer_seconds(offloaded, model_.links_->laws(), model_.outlook_);
  }

  /// The traffic of a micro-step behind the first, whose gradients stay as they are: AccumulateGrad
  /// reads them and those before, and writes the sums. FSDP adds up what it has reduced. DeepSpeed,
  /// Megatron and nanotron have buffers of their own.
  [[nodiscard]] double accumulated_bytes(double trained) const {
    constexpr double kTensors = 3;
    const TrainingSpec& training = *model_.job_->training;
    if (row_of(training.implementation.framework).gradient_buffer ||
        std::holds_alternative<DeepSpeedZero>(sharding_)) {
      return 0;
    }
    const auto* const flat = std::get_if<FlatShards>(&sharding_);
    const bool whole = zero_stage_of(sharding_) < ZeroStage::optimizer_gradients ||
                       (flat != nullptr && flat->no_sync);
    return kTensors * trained * static_cast<double>(size_of(training.recipe.gradients)) /
           (whole ? 1 : shards());
  }

  /// Adds the optimizer's and the clipping's traffic, where the host does them.
  void add_host(StepSeconds& result, const PartCost& held, std::pair<double, double> moved) const {
    const PassSeconds passes{held.passes.forward, held.passes.backward + held.passes.recompute};
    const HostSeconds host = host_seconds({.weights = held.weights / shards(),
                                           .trained = held.trained / shards(),
                                           .optimizer_bytes = moved.first,
                                           .clipping_bytes = moved.second,
                                           .units = static_cast<double>(model_.layers()),
                                           .micro_steps = micro_steps(),
                                           .training = *model_.job_->training,
                                           .parallelism = parallelism_,
                                           .gpus_per_node = model_.job_->hardware.gpus_per_node,
                                           .nvme = model_.job_->hardware.nvme},
                                          passes, model_.links_->laws(), model_.outlook_);
    result.host = host.transfers;
    result.optimizer += host.optimizer;
    result.clipping += host.clipping;
  }

  void add_collectives(StepSeconds& result, const PartCost& held, double lead) const {
    const TrainingSpec& training = *model_.job_->training;
    const double layers = static_cast<double>(model_.layers()) / static_cast<double>(step_.ranks);
    const ReplicatedPart part{
        .held = reduced_of(held),
        .units = std::max(1.0, layers),
        .training = training,
        .parallelism = parallelism_,
        .linked_gpus = model_.job_->hardware.linked_gpus(),
        .in_fp8 = gathers_in_fp8(*model_.work_, training, held.weights),
        .saved_bytes = bytes_saved_by_codes(*model_.work_, *model_.job_, sharding_, held.weights)};
    const PassSeconds passes{held.passes.forward, held.passes.backward + held.passes.recompute};
    CollectiveSeconds collectives = collective_seconds(part, *model_.links_, model_.outlook_);
    collectives.casts /= model_.share_;
    const ExposedSeconds exposed = exposed_seconds(part, passes, collectives, micro_steps());
    result.gradients = std::max(result.gradients, exposed.gradients - lead);
    result.weights = std::max(result.weights, exposed.weights);
    result.collectives = collectives.origin;
  }

  /// FSDP1 reduces the flat tensor of a layer whole, the frozen weights beside an adapter too.
  [[nodiscard]] PartCost reduced_of(PartCost held) const {
    if (!reduces_frozen_weights(*model_.job_)) return held;
    held.trained = held.weights - model_.front_.weights - model_.back_.weights;
    return held;
  }

  void add_tied_embeddings(StepSeconds& result) const {
    if (model_.tied_ == 0) return;
    const Recipe& recipe = model_.job_->training->recipe;
    GroupPlace place =
        group_place_of(RankGroup::pipeline, parallelism_, model_.job_->hardware.linked_gpus());
    // First and last stage alone, which lie in one node only where the whole pipeline does.
    place = {.ranks = 2, .in_node = place.nodes() == 1 ? 2 : 1};
    const double bytes = model_.tied_ * static_cast<double>(size_of(recipe.gradients));
    result.embeddings =
        model_.links_->price(MessageKind::all_reduce, place, bytes).at(model_.outlook_);
  }

  /// Ranks that share the optimizer's states.
  [[nodiscard]] double shards() const {
    const bool whole = zero_stage_of(sharding_) == ZeroStage::none;
    return whole ? 1.0 : static_cast<double>(parallelism_.shard_ranks());
  }

  /// Parameters of `held` that are trained, of which a rank steps one of shards(): an expert has as
  /// many fewer shares as other expert-parallel ranks have other experts.
  [[nodiscard]] double stepped(const PartCost& held) const {
    if (shards() == 1) return held.trained;
    const auto fewer = static_cast<double>(parallelism_.expert) /
                       static_cast<double>(parallelism_.whole_experts() ? parallelism_.tensor : 1);
    return held.trained + (fewer - 1) * held.trained_experts;
  }

  /// So many bytes of a rank's own, read and written.
  [[nodiscard]] double streamed(StreamOp op, double bytes) const {
    if (bytes == 0) return 0;
    const DType weights = model_.job_->training->recipe.weights;
    const StreamShape shape{.op = op, .dtype = weights, .bytes = std::llround(bytes)};
    return model_.links_->laws().price(shape).at(model_.outlook_) / model_.share_;
  }

  const PricedModel& model_;
  const Parallelism& parallelism_;
  Sharding sharding_;
  StageSplit split_;
  PipelineStep step_;
  double send_ = 0;    ///< that a rank waits for
  double travel_ = 0;  ///< beside its work
  std::array<StageSeconds, kFewStages> few_;
  std::vector<StageSeconds> many_;
};

PricedModel::PricedModel(const PricedWork& priced, const Job& job, const Links& links,
                         Outlook outlook)
    : work_(&priced.work), job_(&job), links_(&links), outlook_(outlook) {
  const auto& [work, prices] = priced;
  share_ = step_share(platform_of(job), outlook);
  const OpCosts costs{work, prices, outlook, share_};
  const std::vector<PartCost> blocks = costs.of_blocks();
  between_ends_ = costs.of_sums_between_ends();
  // Prefix sums over the layers: any stage is a difference of two of them, in constant time.
  before_ = {PartCost{}};
  for (const BlockRun& run : work.graph->order) {
    const bool is_layer = work.graph->blocks[run.block].checkpointable;
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      if (is_layer) {
        before_.push_back(before_.back());
        // A block between two layers belongs to the layer behind it; behind the last one it is the
        // end's.
        before_.back() += std::exchange(back_, {});
        before_.back() += blocks[run.block];
      } else {
        (before_.size() == 1 ? front_ : back_) += blocks[run.block];
      }
    }
  }
  // A teacher's weights are none of the model's: no rank gathers, sums or steps them.
  for (const BlockRun& run : work.graph->teacher) {
    for (std::int64_t i = 0; i < run.repeat; ++i) back_.passes += blocks[run.block].passes;
  }
  match_weights(work);
  for (const OptimizerProduct& product : work.optimizer_products) {
    products_.seconds += product.times * links.laws().price(product.shape).at(outlook);
    products_.flops += product.times * flops_of(product.shape);
    products_.bytes += product.times * bytes_of(product.shape);
  }
  tied_ = parameters_of_two_stages(job, work);
  checkpoints_ = checkpoint_plan_of(*job.training, layers());
}

void PricedModel::match_weights(const StepWork& work) {
  const PartCost whole = stage(StageSplit(layers()), 0);
  if (whole.weights == 0) {
    front_.weights = work.parameters;
    front_.trained = work.trainable;
    return;
  }
  const double all = work.parameters / whole.weights;
  const double trained = whole.trained > 0 ? work.trainable / whole.trained : 1;
  for (PartCost& part : before_) scale_weights(part, all, trained);
  scale_weights(front_, all, trained);
  scale_weights(back_, all, trained);
}

std::int64_t PricedModel::layers() const { return static_cast<std::int64_t>(before_.size()) - 1; }

StageSplit PricedModel::split_of(const Parallelism& parallelism) const {
  return job_->stage_split(layers(), parallelism);
}

PartCost PricedModel::stage(const StageSplit& split, std::int64_t index) const {
  const LayerSpan span = split.stage(index);
  PartCost part = before_[static_cast<std::size_t>(span.first + span.count)];
  part -= before_[static_cast<std::size_t>(span.first)];
  if (checkpoints_.most > 0) {
    const double more = over_single_stage(checkpoints_, span.count, layers());
    part.passes.recompute *= more;
    part.passes.launches.recompute *= more;
  }
  if (index == 0) part += front_;
  if (index == 0 && split.stages() > 1) part -= between_ends_;
  if (index + 1 == split.stages()) part += back_;
  wait_for_launches(part.passes, launch_rates(job_->training->implementation), outlook_);
  return part;
}

double PricedModel::send_seconds(const Parallelism& parallelism) const {
  const GroupPlace place =
      group_place_of(RankGroup::pipeline, parallelism, job_->hardware.linked_gpus());
  return links_->price(MessageKind::send, place, work_->stream_bytes).at(outlook_);
}

StepSeconds PricedModel::step(const Parallelism& parallelism, std::int64_t micro_steps) const {
  // The closed form is of stages that differ by an end of the model; those of a list may differ by
  // anything, and a search has few such layouts.
  const StepAccount account(*this, parallelism, micro_steps);
  return parallelism.stage_layers.empty() ? account.closed() : account.simulated();
}

StepSeconds PricedModel::simulated_step(const Parallelism& parallelism,
                                        std::int64_t micro_steps) const {
  return StepAccount(*this, parallelism, micro_steps).simulated();
}

Seconds expected_step_time(const PricedModel& model, const Parallelism& parallelism,
                           std::int64_t micro_steps) {
  return Seconds(model.step(parallelism, micro_steps).total());
}

}  // namespace memest
