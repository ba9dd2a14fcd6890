#include "memory/programs/pipeline_stages.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/overlapped_actions.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"

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
    splits_.push_back(engine_.plan_split(stage, units_->uses_of(stage)));
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

StorageId PipelineStages::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(bytes, label);
}

/// Every stage greets its neighbours with two numbers, which live until all are ready.
void PipelineStages::initialize() {
  buffers_.resize(static_cast<std::size_t>(place_.chunks));
  std::vector<StorageId> greetings;
  for (std::int64_t i = 0; i < 2 * place_.chunks; ++i) {
    greetings.push_back(make(size_of(DType::fp32), Holding::temporaries, LoopTensor::shapes));
  }
  for (std::size_t stage = 0; stage < buffers_.size(); ++stage) {
    learn_shapes(stage);
    if (!is_first(stage)) buffers_[stage].inputs = receive_buffers();
  }
  for (std::size_t stage = 0; stage < buffers_.size(); ++stage) {
    if (!is_last(stage)) buffers_[stage].gradients = receive_buffers();
  }
  for (const StorageId greeting : greetings) recorder_.release(greeting);
}

/// PipelineStage._shape_inference: the shapes come from the stage before and are told to the next.
void PipelineStages::learn_shapes(std::size_t stage) {
  const auto passing = [this](std::int64_t bytes) {
    return make(bytes, Holding::temporaries, LoopTensor::shapes);
  };
  const std::int64_t told_bytes =
      job_.training->recipe.compute == DType::fp32 ? kToldInFp32 : kToldShapes;
  if (!is_first(stage) && !is_handed_here(stage)) {
    const StorageId size = passing(size_of(DType::int64));
    const StorageId told = passing(told_bytes);
    recorder_.release(size);
    recorder_.release(told);
  }
  const StorageId zeros = passing(is_first(stage) ? ids_bytes_ : stream_bytes_);
  Engine::InFlight state = engine_.fresh();
  engine_.exchange(state);
  engine_.bring("token ids", zeros);
  const StorageId answer = engine_.evaluate_stage(stage, is_first(stage) ? kNoStorage : zeros);
  engine_.exchange(state);
  if (!is_last(stage) && !hands_on_here(stage)) {
    const StorageId told = passing(told_bytes);
    const StorageId size = passing(size_of(DType::int64));
    const StorageId sizes = passing(size_of(DType::int64));
    recorder_.release(size);
    recorder_.release(sizes);
    recorder_.release(told);
  }
  recorder_.release(zeros);
  recorder_.release(answer);
}

std::vector<StorageId> PipelineStages::receive_buffers() {
  const std::int64_t count = std::min(micro_batches_, std::max(kMostBuffers, followed_));
  std::vector<StorageId> buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.push_back(make(stream_bytes_, Holding::batch, LoopTensor::received));
  }
  make(checked_multiply(micro_batches_ - count, stream_bytes_), Holding::batch,
       LoopTensor::received);
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
  recorder_.retain(flight.answer);
  output_chunks_.push_back(flight.answer);
}

void PipelineStages::forward(const PipelineAction& action) {
  Flight flight;
  flight.stage = static_cast<std::size_t>(action.chunk);
  flight.micro_batch = action.micro_batch;
  flight.state = engine_.fresh();
  engine_.exchange(flight.state);
  engine_.bring("token ids", inputs_);
  engine_.bring("labels", labels_);
  const auto index = static_cast<std::size_t>(action.micro_batch);
  const StorageId input =
      is_first(flight.stage) ? kNoStorage : buffers_[flight.stage].inputs[index];
  flight.answer = engine_.forward_stage(flight.stage, input);
  if (!is_interleaved()) {
    recorder_.retain(flight.answer);
    recorder_.release(std::exchange(output_, flight.answer));
  }
  if (is_last(flight.stage)) losses_.push_back(engine_.take_loss());
  if (hands_on_here(flight.stage)) {
    put(buffers_[flight.stage + 1].inputs[index], flight.answer);
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

/// A stage of the same rank takes what it is given in place of its buffer.
void PipelineStages::put(StorageId& buffer, StorageId given) {
  recorder_.retain(given);
  recorder_.release(std::exchange(buffer, given));
}

/// The gradient buffer of the stage before, for the flight's micro-batch.
StorageId& PipelineStages::gradient_buffer(const Flight& flight) {
  return buffers_[flight.stage - 1].gradients[static_cast<std::size_t>(flight.micro_batch)];
}

/// Returns the gradient with a reference for the engine; for a loss also the caller's.
StorageId PipelineStages::gradient_for(const Flight& flight) {
  const StorageId gradient =
      is_last(flight.stage)
          ? make(size_of(DType::fp32), Holding::passing_gradients, LoopTensor::loss_gradient)
          : buffers_[flight.stage].gradients[static_cast<std::size_t>(flight.micro_batch)];
  recorder_.retain(gradient);
  return gradient;
}

void PipelineStages::backward(const PipelineAction& action) {
  const auto found = flight_of(action);
  Flight flight = std::move(*found);
  flights_.erase(found);
  // GPipe's function gives up one name of the last gradient for the next it receives.
  const bool early = job_.parallelism.schedule == Schedule::gpipe;
  if (early) recorder_.release(std::exchange(sending_, kNoStorage));
  const StorageId gradient = gradient_for(flight);
  engine_.exchange(flight.state);
  const StorageId of_input = engine_.backward_stage(flight.stage, gradient);
  engine_.exchange(flight.state);
  if (is_last(flight.stage)) recorder_.release(gradient);
  recorder_.release(flight.answer);
  if (is_handed_here(flight.stage)) put(gradient_buffer(flight), of_input);
  send_back(of_input);
}

/// The first stage, which has no input that wants a gradient, leaves all to the second part. The
/// last one's logits go; other outputs wait.
void PipelineStages::backward_inputs(const PipelineAction& action) {
  const auto flight = flight_of(action);
  if (is_first(flight->stage)) return;
  const StorageId gradient = gradient_for(*flight);
  engine_.exchange(flight->state);
  input_gradients_.push_back(
      engine_.backward_inputs(splits_[flight->stage], flight->stage, gradient, flight->kept));
  engine_.exchange(flight->state);
  if (is_handed_here(flight->stage)) put(gradient_buffer(*flight), input_gradients_.back());
  if (!is_last(flight->stage)) return;
  recorder_.release(gradient);
  recorder_.release(std::exchange(flight->answer, kNoStorage));
}

void PipelineStages::backward_weights(const PipelineAction& action) {
  const auto found = flight_of(action);
  if (is_first(found->stage)) return backward(action);
  Flight flight = std::move(*found);
  flights_.erase(found);
  engine_.exchange(flight.state);
  engine_.backward_weights(splits_[flight.stage], flight.kept);
  engine_.exchange(flight.state);
  recorder_.release(flight.answer);
}

void PipelineStages::send_back(StorageId gradient) {
  if (is_interleaved()) return recorder_.release(gradient);
  recorder_.release(std::exchange(sending_, gradient));
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
  const auto has = [storage](const std::vector<StorageId>& list) {
    return std::find(list.begin(), list.end(), storage) != list.end();
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

std::vector<StorageId> PipelineStages::run(StorageId inputs, StorageId labels) {
  inputs_ = inputs;
  labels_ = labels;
  for (const StorageId gradient : std::exchange(input_gradients_, {})) recorder_.release(gradient);
  for (const StorageId logits : std::exchange(output_chunks_, {})) recorder_.release(logits);
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
  recorder_.release(std::exchange(output_, kNoStorage));
  recorder_.release(std::exchange(sending_, kNoStorage));
  return std::exchange(losses_, {});
}

}  // namespace memest
