#include "time/laws/collectives.hpp"

#include <algorithm>
#include <cmath>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"

namespace memest {
namespace {

/// FSDP's shards lie over neighbours, their replicas (HSDP) beside them.
struct ShardPlaces {
  GroupPlace shards;
  GroupPlace replicas;
};
ShardPlaces shard_places(const ReplicatedPart& part, const GroupPlace& all) {
  const Parallelism& parallelism = part.parallelism;
  const Sharding sharding = sharding_of(part.training, parallelism);
  const GatheredUnits* units = units_of(sharding);
  if (units == nullptr || units->replicas == 1) return {all, {}};
  const std::int64_t shards = all.ranks / units->replicas;
  // HSDP's mesh is (replicate, shard), shard innermost: 4 shards on a node of 8 leave room for 2
  // replicas in it.
  const std::int64_t beside = std::max<std::int64_t>(
      1, part.linked_gpus / (parallelism.tensor * parallelism.shard_ranks()));
  return {{shards, std::min(shards, all.in_node), all.stride},
          {units->replicas, std::min(units->replicas, beside)}};
}

/// Where weights, or experts' of the expert-parallel ranks, and their replicas lie.
ShardPlaces places_of_all(const ReplicatedPart& part) {
  return shard_places(part, group_place_of(RankGroup::data, part.parallelism, part.linked_gpus));
}
ShardPlaces places_of_experts(const ReplicatedPart& part) {
  return shard_places(part, place_of_expert_replicas(part.parallelism, part.linked_gpus));
}

/// Prices pieces of one group after another, and remembers how they are known.
class Pieces {
 public:
  Pieces(const Links& links, Outlook outlook, LawOrigin& origin)
      : links_(links), outlook_(outlook), origin_(origin) {}

  /// `bytes` in so many equal messages.
  double seconds(MessageKind kind, const GroupPlace& place, double bytes, double pieces) const {
    // Each piece pays its latency: 100 pieces of 25 MiB are slower than one of 2.5 GB.
    if (bytes == 0 || place.ranks == 1) return 0;
    const CallPrice piece = links_.price(kind, place, bytes / pieces);
    origin_ = piece.origin;
    return pieces * piece.at(outlook_);
  }

 private:
  const Links& links_;
  Outlook outlook_;
  LawOrigin& origin_;
};

/// Megatron's DDP, which reduces and gathers behind its passes unless it is told otherwise.
bool has_gradient_buffer(const ReplicatedPart& part) {
  const FrameworkRow& row = row_of(part.training.implementation.framework);
  const bool in_units = units_of(sharding_of(part.training, part.parallelism)) != nullptr;
  return row.gradient_buffer && !row.adds_behind_backward && !in_units;
}

/// Bytes that casting an element of `size` bytes to fp8 writes and reads once: its absolute, in
/// fp32 where it is not, scaled, clamped, and in fp8 (float8_shares.cpp).
double cast_traffic(std::int64_t size) {
  constexpr std::int64_t kWide = size_of(DType::fp32);
  const std::int64_t made = size + (size < kWide ? kWide : 0) + 2 * kWide + size_of(DType::fp8);
  return static_cast<double>(2 * made);
}

/// Counts over the whole model: no pipeline divides one that gathers in fp8.
Float8Gathers float8_gathers(const StepWork& work, const TrainingSpec& training) {
  Float8Gathers gathers;
  if (!training.float8 || !training.float8->all_gather) return gathers;
  const Graph& graph = *work.graph;
  for (const BlockRun& run : graph.order) {
    for (const Tensor& tensor : graph.blocks[run.block].tensors) {
      if (tensor.role != Role::parameter || tensor.dtype != DType::fp8) continue;
      const auto times = static_cast<double>(run.repeat);
      gathers.tensors += times;
      gathers.elements += times * static_cast<double>(tensor.elements().evaluate(graph.sizes));
    }
  }
  return gathers;
}

/// Megatron gathers weights that live in fp8 so, but MXFP8's (param_and_grad_buffer.py) and frozen
/// ones, as many of a part as of the model.
Float8Gathers te_gathers(const StepWork& work, const TrainingSpec& training, double weights) {
  const std::optional<TeLinears>& linears = training.te_linears;
  if (!linears || !linears->param_gather || linears->recipe == TeRecipe::mxfp8) return {};
  const double narrow = static_cast<double>(trained_te_elements(work.graph->parameters));
  return {.elements = weights * narrow / work.parameters};
}

/// So many messages reduce `bytes` of gradients of `size` bytes each.
double buckets_of(const ReplicatedPart& part, double bytes, double size) {
  // reducer.hpp, kDefaultBucketBytesCap: 25 MiB. The first bucket of 1 MiB
  // (kDefaultFirstBucketBytes) is one call more and is left out.
  if (!has_gradient_buffer(part)) {
    return std::max(1.0, bytes / part.parallelism.ddp.bucket_cap.as_double());
  }
  // Without overlap Megatron sets bucket_size to None: the buffer is one bucket.
  if (!part.parallelism.overlap_grad_reduce) return 1;
  const auto elements =
      static_cast<double>(overlapped_bucket_elements(part.parallelism.shard_ranks()));
  return std::max(1.0, bytes / (elements * size));
}

/// Forwards of a micro-step that gather as many weights as the model has: a reference's, too.
double gathering_forwards(const TrainingSpec& training) {
  const Teacher* const teacher = training.teacher.get();
  return teacher != nullptr && teacher->use != TeacherUse::distillation ? 2 : 1;
}

}  // namespace

Float8Gathers gathers_in_fp8(const StepWork& work, const TrainingSpec& training, double weights) {
  return training.te_linears ? te_gathers(work, training, weights) : float8_gathers(work, training);
}

double bytes_saved_by_codes(const StepWork& work, const Job& job, const Sharding& sharding,
                            double weights) {
  const auto& quantized = job.model.quantized;
  if (!quantized || zero_stage_of(sharding) != ZeroStage::optimizer_gradients_weights) return 0;
  constexpr double kBitsOfByte = 8;
  const bool gathers = quantized->in_shards() || std::holds_alternative<DeepSpeedZero>(sharding);
  const double code =
      gathers ? static_cast<double>(row_of(quantized->format).bits) / kBitsOfByte : 0;
  const auto passed = static_cast<double>(size_of(job.training->recipe.passed_weights()));
  const auto coded = static_cast<double>(coded_elements(work.graph->parameters));
  return weights * coded / work.parameters * (passed - code);
}

double exposed(double transfer, double compute, double tail) {
  // The last piece is ready only when the backward has ended (the first one must be there before
  // the forward begins), so no pass hides it.
  return std::max(transfer - compute, std::min(tail, transfer));
}

CollectiveSeconds collective_seconds(const ReplicatedPart& part, const Links& links,
                                     Outlook outlook) {
  CollectiveSeconds result;
  const ShardPlaces places = places_of_all(part);
  if (places.shards.ranks * places.replicas.ranks == 1) return result;
  const Recipe& recipe = part.training.recipe;
  const ZeroStage stage = zero_stage_of(sharding_of(part.training, part.parallelism));
  const auto size = static_cast<double>(size_of(recipe.reduced_gradients()));
  const double experts = part.held.trained_experts * size;
  // Experts have replicas of their own, in fewer ranks, and so a collective of their own.
  const double gradients = part.held.trained * size - experts;
  const auto passed = static_cast<double>(size_of(recipe.passed_weights()));
  const double narrowed =
      part.in_fp8.elements * (passed - static_cast<double>(size_of(DType::fp8))) + part.saved_bytes;
  const bool by_unit = stage == ZeroStage::optimizer_gradients_weights;
  // Whole weights are gathered where the ranks have stepped a share each: not frozen ones.
  const double weights = (by_unit ? part.held.weights : part.held.trained) * passed - narrowed;
  const double buckets = by_unit ? part.units : buckets_of(part, gradients, size);
  const double units = by_unit ? part.units : part.parallelism.overlap_param_gather ? buckets : 1;
  // Without shards every rank needs the whole sum; a rank that steps a shard needs the sum of that.
  const MessageKind reduction =
      stage == ZeroStage::none ? MessageKind::all_reduce : MessageKind::reduce_scatter;

  const ShardPlaces of_experts = places_of_experts(part);
  const Pieces pieces(links, outlook, result.origin);
  result.reduce = pieces.seconds(reduction, places.shards, gradients, buckets);
  const auto shards = static_cast<double>(places.shards.ranks);
  // HSDP (foreach_reduce): a reduce-scatter among the shards, then an all-reduce of each shard over
  // its replicas, of 1 / shards of the bytes.
  result.reduce +=
      pieces.seconds(MessageKind::all_reduce, places.replicas, gradients / shards, buckets);
  if (experts > 0) {
    result.reduce += pieces.seconds(reduction, of_experts.shards, experts, buckets);
    result.reduce +=
        pieces.seconds(MessageKind::all_reduce, of_experts.replicas,
                       experts / static_cast<double>(of_experts.shards.ranks), buckets);
  }
  result.last_reduce = result.reduce / buckets;
  if (stage == ZeroStage::none) return result;
  const double expert_weights = by_unit ? part.held.trained_experts * passed : 0;
  result.gather =
      pieces.seconds(MessageKind::all_gather, places.shards, weights - expert_weights, units) +
      pieces.seconds(MessageKind::all_gather, of_experts.shards, expert_weights, units);
  if (part.in_fp8.tensors > 0) {
    // tensor_to_amax with reduce_amax: the ranks agree on each weight's largest value first.
    const double scales = part.in_fp8.tensors * static_cast<double>(size_of(DType::fp32));
    result.gather +=
        pieces.seconds(MessageKind::all_reduce, places.shards, scales, part.in_fp8.tensors);
    StreamShape casts{.op = StreamOp::cast, .dtype = DType::fp32};
    casts.bytes =
        std::llround(part.in_fp8.elements / shards * cast_traffic(size_of(recipe.weights)));
    result.casts = links.laws().price(casts).at(outlook);
  }
  result.first_gather = result.gather / units;
  return result;
}

ExposedSeconds exposed_seconds(const ReplicatedPart& part, const PassSeconds& passes,
                               const CollectiveSeconds& collectives, double micro_steps) {
  const double reduce = collectives.reduce;
  const double gather = collectives.gather;
  const double reducing = exposed(reduce, passes.backward, collectives.last_reduce);
  if (has_gradient_buffer(part)) {
    const Parallelism& parallelism = part.parallelism;
    return {.gradients = parallelism.overlap_grad_reduce ? reducing : reduce,
            .weights = parallelism.overlap_param_gather
                           ? exposed(gather, passes.forward, collectives.first_gather)
                           : gather};
  }
  // A pipeline's stages reduce behind the step's last backward (perform_reduce_grad).
  const double times = part.parallelism.pipeline > 1 ? 1 : micro_steps;
  switch (zero_stage_of(sharding_of(part.training, part.parallelism))) {
    case ZeroStage::none:
    case ZeroStage::optimizer:
      return {.gradients = reducing, .weights = gather};
    case ZeroStage::optimizer_gradients:
      return {.gradients = times * reducing, .weights = gather};
    case ZeroStage::optimizer_gradients_weights: {
      const double forwards = gathering_forwards(part.training);
      const double forward =
          exposed(forwards * gather, passes.forward, forwards * collectives.first_gather);
      if (part.parallelism.pipeline > 1) return {.gradients = reducing, .weights = forward};
      // Both cross one link, so their times add up beside the backward.
      const double backward = exposed(gather + reduce, passes.backward,
                                      collectives.first_gather + collectives.last_reduce);
      // The backward's wait is shared by both collectives in proportion.
      const double reduced = backward * reduce / std::max(gather + reduce, 1e-30);
      // Both passes gather, and no pass hides what its own GPU casts before.
      const double casts = 2 * collectives.casts;
      return {.gradients = times * reduced,
              .weights = times * (forward + backward - reduced + casts)};
    }
  }
  unreachable("every ZeRO stage has its collectives");
}

}  // namespace memest
