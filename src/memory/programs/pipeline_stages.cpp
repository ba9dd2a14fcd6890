#include "memory/programs/pipeline_stages.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/overlapped_actions.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Bytes of the pickled shapes that a stage sends the next one, with the name of their type; larger
/// sizes take some bytes more, and all of them less than the allocator's smallest block.
constexpr std::int64_t kToldShapes = 111;  // torch.bfloat16
constexpr std::int64_t kToldInFp32 = 110;  // torch.float32
/// Buffers one by one; those behind them are one storage.
constexpr std::int64_t kMostBuffers = 1024;
/// schedules.py, _add_unshard_reshard: stages whose weights are gathered, the running one and those
/// that come next.
constexpr std::size_t kActiveStages = 3;

}  // namespace

PipelineStages::PipelineStages(const Parts& parts)
    : job_(parts.job),
      engine_(parts.engine),
      units_(parts.units),
      recorder_(parts.recorder),
      place_(place_of(parts.job.parallelism, parts.rank)),
      micro_batches_(parts.job.training->gradient_accumulation),
      followed_(std::min(micro_batches_, kMostMicroSteps * place_.ranks)),
      others_(parts.recorder),
      gathered_(static_cast<std::size_t>(place_.chunks)) {
  const TrainingSpec& training = *job_.training;
  const Parallelism& parallelism = job_.parallelism;
  const std::int64_t shards =
      checked_multiply(parallelism.context, parallelism.sequence ? parallelism.tensor : 1);
  const std::int64_t tokens = checked_multiply(training.micro_batch, training.seq_len / shards);
  const auto& decoder = std::get<DecoderSpec>(job_.model.architecture);
  stream_bytes_ = checked_multiply(
      tokens, checked_multiply(decoder.hidden_size, size_of(training.recipe.compute)));
  ids_bytes_ = checked_multiply(
      checked_multiply(training.micro_batch, training.seq_len / parallelism.context),
      size_of(DType::int64));
  if (!splits_backwards(parallelism.schedule)) return;
  expect(units_ != nullptr, "a backward in two parts is one of sharded units");
  for (std::size_t stage = 0; stage < gathered_.size(); ++stage) {
    splits_.push_back(plan_split(engine_.order(), stage, units_->uses_of(stage)));
  }
}

std::int64_t PipelineStages::index_of(std::size_t stage) const {
  return stage_index(place_, static_cast<std::int64_t>(stage));
}

bool PipelineStages::is_first(std::size_t stage) const { return index_of(stage) == 0; }

bool PipelineStages::is_last(std::size_t stage) const {
  return index_of(stage) + 1 == place_.ranks * place_.chunks;
}

bool PipelineStages::hands_on_here(std::size_t stage) const {
  return stage + 1 < buffers_.size() && index_of(stage + 1) == index_of(stage) + 1;
}

bool PipelineStages::is_handed_here(std::size_t stage) const {
  return stage > 0 && hands_on_here(stage - 1);
}

HeldStorage PipelineStages::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

/// Every stage greets its neighbours with two numbers, which live until all are ready.
void PipelineStages::initialize() {
  buffers_.resize(static_cast<std::size_t>(place_.chunks));
  // _get_init_p2p_neighbors_ops: zeros(1) to send and to receive.
  HeldVector greetings;
  for (std::int64_t i = 0; i < 2 * place_.chunks; ++i) {
    greetings.push_back(make(size_of(DType::fp32), Holding::temporaries, LoopTensor::shapes));
  }
  for (std::size_t stage = 0; stage < buffers_.size(); ++stage) {
    learn_shapes(stage);
    // _prepare_forward_infra: a buffer for every micro-batch of the step, not for those in flight
    // alone.
    if (!is_first(stage)) buffers_[stage].inputs = receive_buffers();
  }
  for (std::size_t stage = 0; stage < buffers_.size(); ++stage) {
    // _prepare_backward_infra, behind all stages' forwards.
    if (!is_last(stage)) buffers_[stage].gradients = receive_buffers();
  }
}

/// PipelineStage._shape_inference: the shapes come from the stage before and are told to the next.
void PipelineStages::learn_shapes(std::size_t stage) {
  const auto passing = [this](std::int64_t bytes) {
    return make(bytes, Holding::temporaries, LoopTensor::shapes);
  };
  const std::int64_t told_bytes =
      job_.training->recipe.compute == DType::fp32 ? kToldInFp32 : kToldShapes;
  if (!is_first(stage) && !is_handed_here(stage)) {
    HeldStorage size = passing(size_of(DType::int64));
    const HeldStorage told = passing(told_bytes);
    size.drop();
  }
  HeldStorage zeros = passing(is_first(stage) ? ids_bytes_ : stream_bytes_);
  FlightState state = engine_.fresh();
  engine_.exchange(state);
  engine_.bind_input("token ids", zeros.id());
  const HeldStorage answer =
      recorder_.adopt(engine_.evaluate_stage(stage, is_first(stage) ? kNoStorage : zeros.id()));
  engine_.exchange(state);
  if (!is_last(stage) && !hands_on_here(stage)) {
    const HeldStorage told = passing(told_bytes);
    HeldStorage size = passing(size_of(DType::int64));
    const HeldStorage sizes = passing(size_of(DType::int64));
    size.drop();
  }
  zeros.drop();
}

std::vector<HeldStorage> PipelineStages::receive_buffers() {
  const std::int64_t count = std::min(micro_batches_, std::max(kMostBuffers, followed_));
  std::vector<HeldStorage> buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.push_back(make(stream_bytes_, Holding::batch, LoopTensor::received));
  }
  recorder_.allocate(checked_multiply(micro_batches_ - count, stream_bytes_),
                     loop_label(Holding::batch, LoopTensor::received));
  return buffers;
}

/// The stages that run next, of which those that came earlier make room.
void PipelineStages::gather_ahead(const std::vector<PipelineAction>& actions, std::size_t from) {
  std::vector<std::size_t> next;
  for (std::size_t i = from; i < actions.size() && next.size() < kActiveStages; ++i) {
    const auto stage = static_cast<std::size_t>(actions[i].chunk);
    if (std::find(next.begin(), next.end(), stage) == next.end()) next.push_back(stage);
  }
  for (std::size_t stage = 0; stage < gathered_.size(); ++stage) {
    const bool comes = std::find(next.begin(), next.end(), stage) != next.end();
    if (!gathered_[stage] || comes) continue;
    units_->give_stage_back(stage);
    gathered_[stage] = false;
  }
  for (const std::size_t stage : next) {
    if (!gathered_[stage]) units_->gather_stage(stage);
    gathered_[stage] = true;
  }
}

/// torchtitan 0.2.2, overlap_callback: forward_one_chunk() without the schedule's
/// save_forward_output, and so the last stage keeps what it answers for a merge that does not come,
/// until clear_runtime_states().
void PipelineStages::save_output(const Flight& flight) {
  if (!is_last(flight.stage)) return;
  output_chunks_.push_back(recorder_.share(flight.answer.id()));
}

void PipelineStages::forward(const PipelineAction& action) {
  Flight flight;
  flight.stage = static_cast<std::size_t>(action.chunk);
  flight.micro_batch = action.micro_batch;
  flight.state = engine_.fresh();
  engine_.exchange(flight.state);
  engine_.bind_input("token ids", inputs_);
  engine_.bind_input("labels", labels_);
  const auto index = static_cast<std::size_t>(action.micro_batch);
  const StorageId input =
      is_first(flight.stage) ? kNoStorage : buffers_[flight.stage].inputs[index].id();
  flight.answer = recorder_.adopt(engine_.forward_stage(flight.stage, input));
  if (!is_interleaved()) output_ = recorder_.share(flight.answer.id());
  if (is_last(flight.stage)) losses_.push_back(recorder_.adopt(engine_.take_loss()));
  if (hands_on_here(flight.stage)) {
    // A stage of the same rank takes what it is given in place of its buffer.
    buffers_[flight.stage + 1].inputs[index] = recorder_.share(flight.answer.id());
  }
  engine_.exchange(flight.state);
  flights_.push_back(std::move(flight));
}

std::deque<PipelineStages::Flight>::iterator PipelineStages::flight_of(
    const PipelineAction& action) {
  const auto stage = static_cast<std::size_t>(action.chunk);
  return std::find_if(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return flight.stage == stage && flight.micro_batch == action.micro_batch;
  });
}

/// The gradient buffer of the stage before, for the flight's micro-batch.
HeldStorage& PipelineStages::gradient_buffer(const Flight& flight) {
  return buffers_[flight.stage - 1].gradients[static_cast<std::size_t>(flight.micro_batch)];
}

/// Returns the gradient of what the stage answered, for the engine; of the loss the schedule's own
/// name stays in `flight`.
HeldStorage PipelineStages::gradient_for(Flight& flight) {
  if (!is_last(flight.stage)) {
    const auto index = static_cast<std::size_t>(flight.micro_batch);
    return recorder_.share(buffers_[flight.stage].gradients[index].id());
  }
  flight.loss_gradient =
      make(size_of(DType::fp32), Holding::passing_gradients, LoopTensor::loss_gradient);
  return recorder_.share(flight.loss_gradient.id());
}

void PipelineStages::backward(const PipelineAction& action) {
  const auto found = flight_of(action);
  Flight flight = std::move(*found);
  flights_.erase(found);
  // GPipe's function gives up one name of the last gradient for the next it receives.
  const bool early = job_.parallelism.schedule == Schedule::gpipe;
  if (early) sending_.drop();
  HeldStorage gradient = gradient_for(flight);
  engine_.exchange(flight.state);
  HeldStorage of_input = recorder_.adopt(engine_.backward_stage(flight.stage, gradient.give_up()));
  engine_.exchange(flight.state);
  flight.loss_gradient.drop();
  flight.answer.drop();
  if (is_handed_here(flight.stage)) gradient_buffer(flight) = recorder_.share(of_input.id());
  send_back(std::move(of_input));
}

/// The first stage, which has no input that wants a gradient, leaves all to the second part. The
/// last one's logits go; other outputs wait.
void PipelineStages::backward_inputs(const PipelineAction& action) {
  const auto flight = flight_of(action);
  if (is_first(flight->stage)) return;
  HeldStorage gradient = gradient_for(*flight);
  engine_.exchange(flight->state);
  input_gradients_.push_back(recorder_.adopt(engine_.backward_inputs(
      splits_[flight->stage], flight->stage, gradient.give_up(), flight->kept)));
  engine_.exchange(flight->state);
  if (is_handed_here(flight->stage)) {
    gradient_buffer(*flight) = recorder_.share(input_gradients_.back().id());
  }
  if (!is_last(flight->stage)) return;
  flight->loss_gradient.drop();
  flight->answer.drop();
}

void PipelineStages::backward_weights(const PipelineAction& action) {
  const auto found = flight_of(action);
  if (is_first(found->stage)) return backward(action);
  Flight flight = std::move(*found);
  flights_.erase(found);
  engine_.exchange(flight.state);
  engine_.backward_weights(splits_[flight.stage], flight.kept);
  engine_.exchange(flight.state);
}

void PipelineStages::send_back(HeldStorage gradient) {
  if (!is_interleaved()) sending_ = std::move(gradient);
}

void PipelineStages::reduce(std::size_t stage) {
  if (units_ != nullptr) units_->reduce_stage(stage);
  gathered_[stage] = false;
}

void PipelineStages::act(const PipelineAction& action) {
  if (action.forward) return forward(action);
  switch (action.part) {
    case BackwardPart::whole:
      return backward(action);
    case BackwardPart::inputs:
      return backward_inputs(action);
    case BackwardPart::weights:
      return backward_weights(action);
  }
  unreachable("every part of a backward runs");
}

/// Whether it has taken the place of a buffer: of every micro-batch there is one of these.
bool PipelineStages::is_received(StorageId storage) const {
  const auto has = [storage](const std::vector<HeldStorage>& list) {
    return std::any_of(list.begin(), list.end(),
                       [storage](const HeldStorage& one) { return one.id() == storage; });
  };
  return std::any_of(buffers_.begin(), buffers_.end(), [&has](const Buffers& buffers) {
    return has(buffers.inputs) || has(buffers.gradients);
  });
}

void PipelineStages::stand_in_for_others() {
  if (micro_batches_ == followed_) return;
  std::vector<StorageId> left = others_.left_by_model();
  std::erase_if(left, [this](StorageId storage) { return is_received(storage); });
  others_.add(left, micro_batches_ - followed_);
}

HeldVector PipelineStages::run(StorageId inputs, StorageId labels) {
  inputs_ = inputs;
  labels_ = labels;
  input_gradients_.drop();
  output_chunks_.drop();
  others_.end_with_model();
  if (buffers_.empty()) initialize();
  const std::vector<PipelineAction> actions =
      actions_of(job_.parallelism.schedule, place_, followed_);
  // Neither is of the beginning or of the end, and the one has left what it leaves before the
  // other.
  const std::int64_t model = followed_ / 4;
  const std::int64_t behind = 3 * followed_ / 4;
  bool others_stand = false;
  std::vector<std::int64_t> left(buffers_.size(), followed_);  // backwards, by stage
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto stage = static_cast<std::size_t>(actions[i].chunk);
    if (!others_stand && actions[i].micro_batch == behind) {
      stand_in_for_others();
      others_stand = true;
    }
    if (is_interleaved() && units_ != nullptr) {
      gather_ahead(actions, i);
      units_->take_stage_apart(stage);
    }
    if (actions[i].micro_batch == model) others_.begin_model();
    act(actions[i]);
    if (overlaps_backward(job_.parallelism.schedule, actions, i)) save_output(flights_.back());
    if (actions[i].micro_batch == model) others_.end_model();
    if (others_stand) others_.end_with_model();
    if (actions[i].forward || actions[i].part == BackwardPart::inputs) continue;
    if (--left[stage] == 0) reduce(stage);
  }
  output_.drop();
  sending_.drop();
  return std::exchange(losses_, {});
}

}  // namespace memest
