#include "memory/programs/megatron_loop.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"

namespace memest {

MegatronLoop::MegatronLoop(const Parts& parts)
    : job_(parts.job),
      training_(*parts.job.training),
      order_(parts.order),
      engine_(parts.engine),
      states_(parts.states),
      recorder_(parts.recorder),
      device_(parts.device),
      seq_len_(training_.seq_len / parts.job.parallelism.context),
      place_{parts.job.parallelism.pipeline, parts.rank, parts.job.parallelism.virtual_stages},
      model_inputs_(static_cast<std::size_t>(place_.chunks)),
      tokens_(static_cast<std::size_t>(place_.chunks), kNoStorage) {
  const std::int64_t shards = job_.parallelism.sequence ? job_.parallelism.tensor : 1;
  const auto& decoder = std::get<DecoderSpec>(job_.model.architecture);
  stream_bytes_ =
      checked_multiply(checked_multiply(training_.micro_batch, seq_len_ / shards),
                       checked_multiply(decoder.hidden_size, size_of(training_.recipe.weights)));
  if (training_.implementation.layers == LayerSpec::local) {
    mask_ =
        make(checked_multiply(seq_len_, seq_len_), Holding::buffers, LoopTensor::attention_mask);
  }
}

/// The training program's data loader makes a mask of every sequence, which long sequences do
/// without; the library alone is given one for all.
bool MegatronLoop::loads_masks() const {
  return training_.implementation.layers == LayerSpec::te && job_.parallelism.context == 1;
}

MegatronLoop::Received::~Received() {
  if (recorder == nullptr) return;
  recorder->release(gradient);
  recorder->release(data);
}

/// Storages that the model holds stay when the last step is done.
MegatronLoop::~MegatronLoop() {
  for (const std::shared_ptr<Received>& input : model_inputs_) {
    if (input) input->recorder = nullptr;
  }
}

StorageId MegatronLoop::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(bytes, label);
}

StorageId MegatronLoop::scalar(LoopTensor tensor) {
  return make(size_of(DType::fp32), Holding::temporaries, tensor);
}

/// A sum of one fp32 number a token.
StorageId MegatronLoop::sum_of_tokens(LoopTensor tensor) {
  const StorageId sum = scalar(tensor);
  if (!device_) return sum;
  const std::int64_t tokens = checked_multiply(training_.micro_batch, seq_len_);
  std::vector<StorageId> made;
  for (const ScratchStep& step :
       reduction_scratch(sum_of_all(tokens, size_of(DType::fp32)), *device_)) {
    if (step.kind == ScratchStep::Kind::release) {
      recorder_.release(made[static_cast<std::size_t>(step.block)]);
    } else {
      made.push_back(make(step.bytes, Holding::temporaries, tensor));
    }
  }
  return sum;
}

bool MegatronLoop::is_first(std::int64_t chunk) const { return place_.rank == 0 && chunk == 0; }

bool MegatronLoop::is_last(std::int64_t chunk) const {
  return place_.rank == place_.ranks - 1 && chunk == place_.chunks - 1;
}

StorageId MegatronLoop::receive() {
  return make(stream_bytes_, Holding::batch, LoopTensor::received);
}

std::shared_ptr<MegatronLoop::Received> MegatronLoop::receive_input(std::int64_t chunk) {
  if (is_first(chunk)) return nullptr;
  return std::make_shared<Received>(&recorder_, receive());
}

/// forward_step_func: the data iterator holds the tokens until the next, the rest of the batch is
/// its own. Answers the losses of all tokens, or what the stage sends on.
StorageId MegatronLoop::forward(Flight& flight, const std::shared_ptr<Received>& input) {
  const std::int64_t count = checked_multiply(training_.micro_batch, seq_len_);
  const auto of = [&](std::int64_t elements, DType type, LoopTensor tensor) {
    return make(checked_multiply(elements, size_of(type)), Holding::batch, tensor);
  };
  StorageId& tokens = tokens_[static_cast<std::size_t>(flight.chunk)];
  recorder_.release(std::exchange(tokens, of(count, DType::int64, LoopTensor::batch)));
  const StorageId labels = of(count, DType::int64, LoopTensor::labels);
  flight.mask = of(count, DType::fp32, LoopTensor::loss_mask);
  const StorageId positions = of(seq_len_, DType::int64, LoopTensor::position_ids);
  const bool at_end = is_first(flight.chunk) || is_last(flight.chunk);
  if (loads_masks() && at_end) {
    flight.attention_mask =
        of(checked_multiply(count, seq_len_), DType::boolean, LoopTensor::attention_mask);
  }
  engine_.bring("token ids", tokens);
  engine_.bring("labels", labels);
  engine_.bring("position ids", positions);
  engine_.bring("attention mask", mask_);
  const StorageId answer = engine_.forward_stage(static_cast<std::size_t>(flight.chunk),
                                                 input ? input->data : kNoStorage, input);
  if (is_last(flight.chunk)) recorder_.release(engine_.logits());
  recorder_.release(labels);
  recorder_.release(positions);
  // Fused attention does not read it; checkpoints hold it with their arguments.
  const bool kept = !std::holds_alternative<NoRecompute>(training_.recompute);
  if (!kept) recorder_.release(std::exchange(flight.attention_mask, kNoStorage));
  if (is_last(flight.chunk)) return answer;
  scale_auxiliary_loss();
  recorder_.release(std::exchange(flight.mask, kNoStorage));
  return answer;
}

/// sum(losses · mask) / sum(mask), which the step keeps for its report.
void MegatronLoop::add_loss(StorageId per_token, Flight& flight) {
  const StorageId masked = make(order_.loss_bytes(), Holding::activations, LoopTensor::loss);
  const StorageId sum = sum_of_tokens(LoopTensor::loss);
  recorder_.release(masked);
  flight.counted_loss = sum_of_tokens(LoopTensor::loss_mask);
  losses_.push_back(make(size_of(DType::fp32), Holding::activations, LoopTensor::loss));
  recorder_.release(sum);
  scale_auxiliary_loss();
  recorder_.release(per_token);
}

/// MoEAuxLossAutoScaler.set_loss_scale, whether routers have such a loss or none: the first scale
/// stays, later ones are copied into it.
void MegatronLoop::scale_auxiliary_loss() {
  const auto& kinds = std::get<DecoderSpec>(job_.model.architecture).kinds;
  const bool routes = std::any_of(kinds.begin(), kinds.end(), [](const LayerKind& kind) {
    return std::holds_alternative<MixtureOfExperts>(kind.feed_forward);
  });
  if (!routes) return;
  const StorageId ones = scalar(LoopTensor::scaled_loss);
  const StorageId scale = scalar(LoopTensor::scaled_loss);
  recorder_.release(ones);
  const StorageId of_ranks = scalar(LoopTensor::scaled_loss);
  const StorageId of_steps = scalar(LoopTensor::scaled_loss);
  recorder_.release(of_ranks);
  if (std::exchange(has_auxiliary_scale_, true)) recorder_.release(of_steps);
  recorder_.release(scale);
}

/// The loss is scaled, which takes the place of `loss`; backward begins with ones like it and goes
/// back through the scale and its sum, the number of micro-steps, the context ranks, the number of
/// losses, and the mask.
StorageId MegatronLoop::backward_of_loss(Flight& flight, StorageId& loss) {
  const StorageId scaled = scalar(LoopTensor::scaled_loss);
  recorder_.release(std::exchange(loss, scaled));
  const StorageId ones = scalar(LoopTensor::loss_gradient);
  StorageId gradient = kNoStorage;
  constexpr int kFactors = 5;
  for (int i = 0; i < kFactors; ++i) {
    const StorageId product = scalar(LoopTensor::loss_gradient);
    recorder_.release(std::exchange(gradient, product));
  }
  recorder_.release(std::exchange(flight.counted_loss, kNoStorage));
  const StorageId spread =
      make(order_.loss_bytes(), Holding::passing_gradients, LoopTensor::loss_gradient);
  recorder_.release(gradient);
  recorder_.release(std::exchange(flight.mask, kNoStorage));
  const StorageId of_input = engine_.backward_stage(static_cast<std::size_t>(flight.chunk), spread);
  recorder_.release(ones);
  return of_input;
}

void MegatronLoop::micro_step(std::uint16_t number) {
  Flight flight;
  recorder_.begin(Phase::forward, number);
  const StorageId per_token = forward(flight, nullptr);
  recorder_.end();
  recorder_.begin(Phase::backward, number);
  add_loss(per_token, flight);
  StorageId scaled = kNoStorage;
  backward_of_loss(flight, scaled);
  recorder_.release(scaled);
  recorder_.release(flight.attention_mask);
  recorder_.end();
}

/// The result takes the last one's name.
void MegatronLoop::run_forward(std::int64_t chunk, std::shared_ptr<Received> input) {
  Flight flight;
  flight.chunk = chunk;
  flight.state = engine_.fresh();
  if (input) model_inputs_[static_cast<std::size_t>(chunk)] = input;
  engine_.exchange(flight.state);
  StorageId result = forward(flight, input);
  if (is_last(chunk)) {
    add_loss(result, flight);
    result = losses_.back();
  }
  engine_.exchange(flight.state);
  output_ = std::make_shared<Output>(recorder_, result, std::move(input));
  if (is_last(chunk)) recorder_.retain(result);
  flight.output = output_;
  flights_.push_back(std::move(flight));
}

/// deallocate_output_tensor: of the last result, which was sent, the program keeps one element.
void MegatronLoop::send_output(bool loss) {
  if (!output_) return;
  const DType type = loss ? DType::fp32 : training_.recipe.weights;
  const StorageId left = make(size_of(type), Holding::activations, LoopTensor::received);
  recorder_.release(std::exchange(output_->data, left));
}

/// The gradient of what a stage sent takes the last one's name.
void MegatronLoop::name_gradient(StorageId received) {
  recorder_.release(std::exchange(gradient_, received));
}

void MegatronLoop::run_backward(std::int64_t chunk, StorageId gradient) {
  const auto first = std::find_if(flights_.begin(), flights_.end(),
                                  [chunk](const Flight& flight) { return flight.chunk == chunk; });
  Flight flight = std::move(*first);
  flights_.erase(first);
  engine_.exchange(flight.state);
  // Interleaved, the scaled loss is a local of backward_step.
  StorageId scaled = kNoStorage;
  const StorageId of_input =
      is_last(chunk) ? backward_of_loss(flight, place_.chunks > 1 ? scaled : flight.output->data)
                     : engine_.backward_stage(static_cast<std::size_t>(chunk), gradient);
  recorder_.release(scaled);
  recorder_.release(flight.attention_mask);
  engine_.exchange(flight.state);
  recorder_.retain(of_input);
  recorder_.release(std::exchange(sent_back_, of_input));
  if (flight.output->input) flight.output->input->gradient = of_input;
  if (place_.chunks == 1) output_ = flight.output;
}

std::vector<PipelineAction> MegatronLoop::actions() const {
  const std::int64_t count =
      std::min(training_.gradient_accumulation, kMostMicroSteps * place_.ranks);
  return actions_of(job_.parallelism.schedule, place_, count);
}

/// forward_backward_pipelining_without_interleaving: a gradient is received behind the forward that
/// stands before its backward.
void MegatronLoop::run_one_by_one() {
  const auto receive_gradient = [this] {
    if (!is_last(0)) name_gradient(receive());
    recorder_.retain(gradient_);
  };
  const std::vector<PipelineAction> list = actions();
  const std::int64_t warmup =
      warmup_of(job_.parallelism.schedule, place_, static_cast<std::int64_t>(list.size()) / 2);
  std::int64_t done = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].forward) {
      output_ = flights_.front().output;
      receive_gradient();
      run_backward(0, gradient_);
      continue;
    }
    run_forward(0, receive_input(0));
    const bool steady = ++done > warmup;
    if (steady) receive_gradient();
    send_output(is_last(0));
    if (!steady) continue;
    run_backward(0, gradient_);
    ++i;
  }
}

/// Receives both tensors of one exchange with both neighbours: the next forward's input, the next
/// backward's gradient.
void MegatronLoop::receive_next(const PipelineAction* forward, const PipelineAction* backward) {
  if (forward != nullptr) {
    inputs_[static_cast<std::size_t>(forward->chunk)].push_back(receive_input(forward->chunk));
  }
  if (backward == nullptr) return;
  const StorageId gradient = is_last(backward->chunk) ? kNoStorage : receive();
  recorder_.retain(gradient);
  gradients_[static_cast<std::size_t>(backward->chunk)].push_back(gradient);
  name_gradient(gradient);
}

/// forward_backward_pipelining_with_interleaving: inputs and gradients are received ahead, behind
/// the action before.
void MegatronLoop::run_interleaved() {
  inputs_.resize(static_cast<std::size_t>(place_.chunks));
  gradients_.resize(static_cast<std::size_t>(place_.chunks));
  const std::vector<PipelineAction> list = actions();
  const auto next = [&list](std::size_t from, bool forward) -> const PipelineAction* {
    for (std::size_t i = from; i < list.size(); ++i) {
      if (list[i].forward == forward) return &list[i];
    }
    return nullptr;
  };
  const auto take = [](auto& waiting) {
    auto front = std::move(waiting.front());
    waiting.pop_front();
    return front;
  };
  const auto run_back = [&](const PipelineAction& action) {
    run_backward(action.chunk, take(gradients_[static_cast<std::size_t>(action.chunk)]));
  };
  const auto forwards = static_cast<std::int64_t>(list.size()) / 2;
  const std::int64_t warmup =
      warmup_of(job_.parallelism.schedule, place_, forwards / place_.chunks);
  std::int64_t done = 0;
  receive_next(&list.front(), nullptr);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const PipelineAction& action = list[i];
    if (!action.forward) {
      run_back(action);
      receive_next(nullptr, next(i + 1, false));
      continue;
    }
    run_forward(action.chunk, take(inputs_[static_cast<std::size_t>(action.chunk)]));
    if (is_last(action.chunk)) output_.reset();  // a loss is not sent
    const bool steady = ++done > warmup;
    if (steady) run_back(list[++i]);
    const bool asks = done >= warmup;
    receive_next(next(i + 1, true), asks ? next(i + 1, false) : nullptr);
    send_output(false);
    if (done == forwards) send_output(false);
  }
}

void MegatronLoop::end_pipeline() {
  output_.reset();
  name_gradient(kNoStorage);
  recorder_.release(std::exchange(sent_back_, kNoStorage));
}

/// finalize_model_grads: what ranks have parts of is summed flat.
void MegatronLoop::finish_gradients() {
  const std::int64_t elements = states_.tensor_summed_elements();
  if (elements == 0) return;
  const std::int64_t bytes = checked_multiply(elements, size_of(training_.recipe.gradients));
  recorder_.release(make(bytes, Holding::temporaries, LoopTensor::gradient_buffer));
}

void MegatronLoop::step(std::uint16_t number) {
  recorder_.begin_step(number);
  if (number > 1) {
    recorder_.begin(Phase::zero_grad);
    states_.zero_grad();
    recorder_.end();
  }
  const StorageId tokens = make(size_of(DType::int32), Holding::buffers, LoopTensor::token_count);
  if (place_.ranks > 1) {
    recorder_.begin(Phase::backward);
    if (place_.chunks > 1) {
      run_interleaved();
    } else {
      run_one_by_one();
    }
  } else {
    const std::int64_t count = std::min(training_.gradient_accumulation, kMostMicroSteps);
    for (std::int64_t i = 1; i <= count; ++i) micro_step(static_cast<std::uint16_t>(i));
  }
  finish_gradients();
  end_pipeline();
  recorder_.release(tokens);
  for (StorageId& one : tokens_) recorder_.release(std::exchange(one, kNoStorage));
  for (const StorageId loss : std::exchange(losses_, {})) recorder_.release(loss);
  recorder_.end();
  recorder_.begin(Phase::optimizer);
  states_.step(recorder_);
  recorder_.end();
}

}  // namespace memest
