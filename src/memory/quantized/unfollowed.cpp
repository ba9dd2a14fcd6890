#include "memest/memory/unfollowed.hpp"

#include <algorithm>
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/lowered_images.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"

namespace memest {
namespace {

/// Graphs that live at once, and the share of a model's layers that each has nodes of.
struct LivingGraphs {
  std::int64_t whole = 0;
  std::int64_t of_layers = 0;  ///< of one layer each
};

LivingGraphs living_graphs(const Job& job, std::int64_t layers) {
  if (!job.training) return {};
  const TrainingSpec& training = *job.training;
  const LoopHabits& habits = loop_habits_of(training.implementation);
  LivingGraphs living{.whole = 1};
  if (habits.keeps_step_loss() && training.steps > 1) ++living.whole;
  if (habits.keeps_micro_step_loss() && training.gradient_accumulation > 1) ++living.whole;
  const CheckpointPlan plan = checkpoint_plan_of(training, layers);
  if (plan.length == 0) return living;
  // A checkpoint's second forward has a graph of its own. A reentrant one's first has none.
  living.of_layers = plan.length;
  const bool all = std::holds_alternative<FullRecompute>(training.recompute);
  if (plan.holds_answer && all) living.whole = 0;
  return living;
}

/// Layers of a rank times the micro-steps that each has in flight: no chunk has more of either than
/// the rank's largest and all of them together.
std::int64_t most_captured_layers(const Job& job, const DecoderSpec& decoder) {
  const Parallelism& layout = job.parallelism;
  const StageSplit split(decoder.layers(), layout, 0);
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < layout.pipeline; ++rank) {
    const PipelinePlace place = place_of(layout, rank);
    std::int64_t layers = 0;
    for (std::int64_t chunk = 0; chunk < place.chunks; ++chunk) {
      const std::int64_t stage = stage_index(place, chunk);
      // A layer that predicts is captured as the decoder's are.
      const std::int64_t predicting = stage + 1 == split.stages() ? decoder.mtp_layers : 0;
      layers = std::max(layers, split.stage(stage).count + predicting);
    }
    const std::int64_t in_flight =
        most_in_flight(layout.schedule, place, job.training->gradient_accumulation);
    most = std::max(most, checked_multiply(layers, in_flight));
  }
  return most;
}

}  // namespace

Bytes most_outlier_bytes(const Job& job) {
  const auto& quantized = job.model.quantized;
  const ForwardSpec* const forward = job.forward();
  if (!quantized || quantized->format != WeightFormat::int8 || quantized->threshold == 0 ||
      forward == nullptr) {
    return {};
  }
  const std::int64_t type = size_of(forward->recipe.weights);
  const std::int64_t tokens = checked_multiply(forward->micro_batch, forward->seq_len);
  std::int64_t columns = 0;  // of all inputs
  std::int64_t passing = 0;
  for (const ParameterTensor& tensor : parameters_of(job.model).parameters) {
    if (!tensor.quantized) continue;
    const std::int64_t out = tensor.shape.front();
    const std::int64_t in = tensor.shape.back();
    columns = checked_add(columns, checked_multiply(in, tensor.count));
    // int8_mixed_scaled_mm: CB[:, outlier_cols], its product with SCB in fp32, that scaled, and in
    // the input's type; addmm's result beside the product's.
    constexpr std::int64_t kOfWeight = 1 + 2 * size_of(DType::fp32);
    const std::int64_t of_weight = checked_multiply(checked_multiply(in, out), kOfWeight + type);
    const std::int64_t of_result = checked_multiply(checked_multiply(tokens, out), type);
    const std::int64_t of_input = checked_multiply(checked_multiply(tokens, in), type);
    passing = std::max(passing, checked_add(checked_add(of_weight, of_result), of_input));
  }
  // ctx.tensors has A[:, outlier_cols] of each, as long as its graph.
  const auto* const decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const std::int64_t layers = decoder == nullptr ? 1 : std::max<std::int64_t>(decoder->layers(), 1);
  const LivingGraphs living = living_graphs(job, layers);
  const std::int64_t a_graph = checked_multiply(checked_multiply(tokens, columns), type);
  const std::int64_t of_layers = checked_multiply(a_graph / layers, living.of_layers);
  const std::int64_t kept = checked_add(checked_multiply(a_graph, living.whole), of_layers);
  return Bytes(checked_add(kept, passing));
}

Bytes most_graph_bytes(const Job& job) {
  if (!job.training || !job.training->implementation.cuda_graph.of_layers()) return {};
  const TrainingSpec& training = *job.training;
  const Parallelism& layout = job.parallelism;
  const auto& decoder = std::get<DecoderSpec>(job.model.architecture);
  const std::int64_t ranks = layout.context * (layout.sequence ? layout.tensor : 1);
  const std::int64_t tokens = checked_multiply(training.micro_batch, training.seq_len / ranks);
  const std::int64_t stream = checked_multiply(checked_multiply(tokens, decoder.hidden_size),
                                               size_of(training.recipe.weights));
  constexpr std::int64_t kOfGraph = 4;  // input, output, and the gradients of both
  return Bytes(
      checked_multiply(checked_multiply(stream, kOfGraph), most_captured_layers(job, decoder)));
}

Bytes most_text_cache_bytes(const Job& job) {
  const auto* const decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const bool in_trainer =
      job.training && row_of(job.training->implementation.loop).accelerate && job.model.vision;
  if (!in_trainer || decoder == nullptr ||
      std::holds_alternative<FullRecompute>(job.training->recompute)) {
    return {};
  }
  const TrainingSpec& training = *job.training;
  const SoftmaxAttention heads = heads_of(decoder->attention);
  const std::int64_t tokens = checked_multiply(training.micro_batch, training.seq_len);
  const std::int64_t of_keys =
      checked_multiply(tokens, checked_multiply(heads.kv_heads, heads.head_dim));
  // DynamicLayer.lazy_initialization makes an empty tensor of the keys' type, in which torch.cat
  // answers: fp32 where rotary embeddings have widened them.
  const DType type = training.recipe.autocast ? DType::fp32 : training.recipe.weights;
  const std::int64_t of_layer = checked_multiply(2 * size_of(type), of_keys);
  return Bytes(checked_multiply(of_layer, decoder->layers()));
}

Bytes most_unfollowed_bytes(const Job& job) {
  return most_convolution_workspace(job) + most_outlier_bytes(job) + most_graph_bytes(job) +
         most_text_cache_bytes(job);
}

}  // namespace memest
