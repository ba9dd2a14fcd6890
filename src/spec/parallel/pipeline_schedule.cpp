#include "memest/spec/parallel/pipeline_schedule.hpp"

#include <algorithm>
#include <cstddef>

#include "memest/diag/expect.hpp"
#include "spec/v_schedules.hpp"

namespace memest {
namespace {

/// The k-th forward of an interleaved rank: p micro-batches through chunk 0, then through chunk 1,
/// and so on.
PipelineAction interleaved_forward(std::int64_t k, const PipelinePlace& place) {
  // schedules.py: forward_stage_index(step) = (step // microbatches_per_round) % n_local_stages. p
  // 4, v 2: micro-batches 0 to 3 in chunk 0, 0 to 3 in chunk 1, then 4 to 7.
  const std::int64_t group = place.ranks * place.chunks;
  const std::int64_t within = k % group;
  return {true, k / group * place.ranks + within % place.ranks, within / place.ranks};
}

/// The k-th backward begins with the last chunk.
PipelineAction interleaved_backward(std::int64_t k, const PipelinePlace& place) {
  PipelineAction action = interleaved_forward(k, place);
  return {false, action.micro_batch, place.chunks - 1 - action.chunk};
}

/// A backward makes the inputs' gradients at once, the weights' `rank` backwards later.
std::vector<PipelineAction> zero_bubble_actions(const PipelinePlace& place,
                                                std::int64_t micro_batches) {
  const std::int64_t all = micro_batches * place.chunks;
  const std::int64_t warmup = warmup_of(Schedule::zero_bubble, place, micro_batches);
  std::vector<PipelineAction> actions;
  std::int64_t backward = 0;
  std::int64_t weights = 0;
  const auto run = [&](std::int64_t k, BackwardPart part) {
    actions.push_back(interleaved_backward(k, place));
    actions.back().part = part;
  };
  const auto run_back = [&] {
    run(backward++, BackwardPart::inputs);
    // ZB-H1 delays a rank's weights' gradients by its number: the last rank's by p - 1 backwards.
    if (backward > place.rank) run(weights++, BackwardPart::weights);
  };
  for (std::int64_t k = 0; k < all; ++k) {
    actions.push_back(interleaved_forward(k, place));
    if (k >= warmup) run_back();
  }
  while (backward < all) run_back();
  while (weights < all) run(weights++, BackwardPart::weights);
  return actions;
}

/// So many micro-batches fill and empty a V, and more of them repeat its middle.
std::int64_t fill_of(const PipelinePlace& place, std::int64_t micro_batches) {
  return std::min(micro_batches, 4 * place.ranks);
}

std::int64_t leading_forwards(const std::vector<PipelineAction>& actions) {
  const auto end = std::find_if(actions.begin(), actions.end(),
                                [](const PipelineAction& action) { return !action.forward; });
  return end - actions.begin();
}

}  // namespace

StageSplit::StageSplit(std::int64_t layers, const Parallelism& layout, std::int64_t ends)
    : layers_(layers),
      ranks_(layout.pipeline),
      chunks_(layout.virtual_stages),
      first_(ranks_ > 1 ? layout.first_stage_layers : 0),
      last_(ranks_ > 1 ? layout.last_stage_layers : 0),
      embedding_(ends + (layout.account_for_embedding ? 1 : 0)),
      loss_(ends + (layout.account_for_loss ? 1 : 0)) {
  if (static_cast<std::int64_t>(layout.stage_layers.size()) != stages()) return;
  listed_ = {0};
  for (const std::int64_t count : layout.stage_layers) listed_.push_back(listed_.back() + count);
}

LayerSpan StageSplit::stage(std::int64_t index) const {
  const std::int64_t first = first_of(index);
  return {first, first_of(index + 1) - first};
}

std::int64_t StageSplit::first_of(std::int64_t index) const {
  if (!listed_.empty()) return listed_[static_cast<std::size_t>(index)];
  if (first_ + last_ > 0) {
    // Megatron-core 0.16, get_transformer_layer_offset: 14 layers over 3 ranks of two chunks, 2 of
    // them on the first rank and 4 on the last, are 1, 4, 2 and again 1, 4, 2.
    const std::int64_t rank = index % ranks_;
    const std::int64_t others = ranks_ - (first_ > 0 ? 1 : 0) - (last_ > 0 ? 1 : 0);
    const std::int64_t of_other = others > 0 ? (layers_ - first_ - last_) / others / chunks_ : 0;
    const std::int64_t before = first_ > 0 && rank > 0 ? first_ / chunks_ - of_other : 0;
    return index / ranks_ * (layers_ / chunks_) + before + rank * of_other;
  }
  // The first all % stages stages get one more, as in torchtitan's generate_llm_fqn_per_model_part.
  const std::int64_t all = layers_ + embedding_ + loss_;
  const std::int64_t before = all / stages() * index + std::min(index, all % stages());
  return std::clamp<std::int64_t>(before - embedding_, 0, layers_);
}

PipelinePlace place_of(const Parallelism& parallelism, std::int64_t rank) {
  return {.ranks = parallelism.pipeline,
          .rank = rank,
          .chunks = parallelism.virtual_stages,
          .v_shaped = is_v_shaped(parallelism.schedule)};
}

std::int64_t stage_index(const PipelinePlace& place, std::int64_t chunk) {
  // generate_rank_to_stage_mapping(style="v"): rank 0 of 4 has stages 0 and 7.
  if (place.v_shaped && chunk == 1) return 2 * place.ranks - 1 - place.rank;
  return chunk * place.ranks + place.rank;
}

std::vector<LayerSpan> stages_of(const StageSplit& split, const PipelinePlace& place) {
  std::vector<LayerSpan> spans;
  for (std::int64_t chunk = 0; chunk < place.chunks; ++chunk) {
    spans.push_back(split.stage(stage_index(place, chunk)));
  }
  return spans;
}

bool splits_backwards(Schedule schedule) {
  return schedule == Schedule::zero_bubble || is_v_shaped(schedule);
}

bool has_chunks(Schedule schedule) {
  return schedule == Schedule::interleaved || splits_backwards(schedule);
}

bool is_v_shaped(Schedule schedule) {
  return schedule == Schedule::zbv || schedule == Schedule::dual_pipe_v;
}

std::int64_t warmup_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches) {
  const std::int64_t all = micro_batches * place.chunks;
  const std::int64_t behind = place.ranks - place.rank - 1;
  switch (schedule) {
    case Schedule::one_f_one_b:
      return std::min(behind, all);
    case Schedule::zero_bubble:
      // _get_warmup_ops with multiply_factor 1 (ScheduleInterleavedZeroBubble) and 2
      // (ScheduleInterleaved1F1B); Megatron's get_pp_rank_microbatches has the latter.
      return std::min(behind + (place.chunks - 1) * place.ranks, all);
    case Schedule::interleaved:
      return std::min(2 * behind + (place.chunks - 1) * place.ranks, all);
    case Schedule::zbv:
    case Schedule::dual_pipe_v:
      return leading_forwards(actions_of(schedule, place, fill_of(place, micro_batches)));
    case Schedule::gpipe:
      return all;
  }
  unreachable("every schedule has its order");
}

std::vector<PipelineAction> actions_of(Schedule schedule, const PipelinePlace& place,
                                       std::int64_t micro_batches) {
  if (schedule == Schedule::zero_bubble) return zero_bubble_actions(place, micro_batches);
  if (schedule == Schedule::zbv) return zbv_actions(place, micro_batches);
  if (schedule == Schedule::dual_pipe_v) return dual_pipe_v_actions(place, micro_batches);
  const std::int64_t all = micro_batches * place.chunks;
  const std::int64_t warmup = warmup_of(schedule, place, micro_batches);
  std::vector<PipelineAction> actions;
  actions.reserve(static_cast<std::size_t>(2 * all));
  std::int64_t backward = 0;
  for (std::int64_t k = 0; k < all; ++k) {
    actions.push_back(interleaved_forward(k, place));
    if (k >= warmup) actions.push_back(interleaved_backward(backward++, place));
  }
  while (backward < all) actions.push_back(interleaved_backward(backward++, place));
  return actions;
}

std::int64_t most_in_flight(const std::vector<PipelineAction>& actions) {
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const PipelineAction& action : actions) {
    // A product's input is kept for its weight's gradient, so the first part frees nothing here.
    if (action.part == BackwardPart::inputs) continue;
    now += action.forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::int64_t most_in_flight(Schedule schedule, const PipelinePlace& place,
                            std::int64_t micro_batches) {
  if (is_v_shaped(schedule)) {
    return most_in_flight(actions_of(schedule, place, fill_of(place, micro_batches)));
  }
  // Whose weights' gradients are still to come counts.
  if (schedule == Schedule::zero_bubble) {
    return std::min(place.ranks, micro_batches) * place.chunks;
  }
  return std::min(warmup_of(schedule, place, micro_batches) + 1, micro_batches * place.chunks);
}

}  // namespace memest
