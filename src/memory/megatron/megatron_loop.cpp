#include "memory/megatron/megatron_loop.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// The tensor that a stage's model takes of `input`, the stage before's; none in the first.
template <class Input>
StorageId given_to_model(const Input* input) {
  if (input == nullptr) return kNoStorage;
  return input->copy.is_of_storage() ? input->copy.id() : input->data.id();
}

}  // namespace

MegatronLoop::MegatronLoop(const Parts& parts)
    : job_(parts.job),
      training_(*parts.job.training),
      order_(parts.order),
      engine_(parts.engine),
      states_(parts.states),
      recorder_(parts.recorder),
      device_(parts.device),
      batches_(parts.job, parts.recorder),
      scales_(std::get<DecoderSpec>(job_.model.architecture), parts.recorder),
      by_deepspeed_(is_megatron_deepspeed(job_)),
      seq_len_(training_.seq_len / parts.job.parallelism.context),
      place_{parts.job.parallelism.pipeline, parts.rank, parts.job.parallelism.virtual_stages},
      model_inputs_(static_cast<std::size_t>(place_.chunks)),
      tokens_(static_cast<std::size_t>(place_.chunks)) {
  const std::int64_t shards = job_.parallelism.sequence ? job_.parallelism.tensor : 1;
  const auto& decoder = std::get<DecoderSpec>(job_.model.architecture);
  stream_bytes_ =
      checked_multiply(checked_multiply(training_.micro_batch, seq_len_ / shards),
                       checked_multiply(decoder.hidden_size, size_of(training_.recipe.weights)));
  if (training_.implementation.layers != LayerSpec::te) {
    mask_ =
        make(checked_multiply(seq_len_, seq_len_), Holding::buffers, LoopTensor::attention_mask);
  }
}

std::int64_t MegatronLoop::followed_micro_steps(const Job& job) {
  return std::min(job.training->gradient_accumulation,
                  checked_multiply(kMostMicroSteps, job.parallelism.pipeline));
}

HeldStorage MegatronLoop::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

HeldStorage MegatronLoop::scalar(LoopTensor tensor) {
  return make(size_of(DType::fp32), Holding::temporaries, tensor);
}

/// A sum of one fp32 number a token.
HeldStorage MegatronLoop::sum_of_tokens(LoopTensor tensor) {
  HeldStorage sum = scalar(tensor);
  if (!device_) return sum;
  const std::int64_t tokens = checked_multiply(training_.micro_batch, seq_len_);
  recorder_.launch(reduction_scratch(sum_of_all(tokens, size_of(DType::fp32)), *device_),
                   loop_label(Holding::temporaries, tensor));
  return sum;
}

bool MegatronLoop::is_first(std::int64_t chunk) const { return place_.rank == 0 && chunk == 0; }

bool MegatronLoop::is_last(std::int64_t chunk) const {
  return place_.rank == place_.ranks - 1 && chunk == place_.chunks - 1;
}

HeldStorage MegatronLoop::receive() {
  return make(stream_bytes_, Holding::batch, LoopTensor::received);
}

std::shared_ptr<MegatronLoop::Received> MegatronLoop::receive_input(std::int64_t chunk) {
  if (is_first(chunk)) return nullptr;
  auto input = std::make_shared<Received>();
  // pipe/engine.py: _exec_recv_activations clones pipe_recv_buf, which stays, and
  // _exec_forward_pass what lies in the pipe's buffer.
  if (by_deepspeed_ && !received_.is_of_storage()) received_ = receive();
  input->data = receive();
  if (by_deepspeed_) input->copy = receive();
  return input;
}

/// forward_step_func: the data iterator holds the tokens until the next, the rest of the batch is
/// its own. Answers the losses of all tokens, or what the stage sends on.
HeldStorage MegatronLoop::forward(Flight& flight, const std::shared_ptr<Received>& input) {
  HeldStorage& tokens = tokens_[static_cast<std::size_t>(flight.chunk)];
  MicroBatch batch = batches_.next(tokens, is_first(flight.chunk) || is_last(flight.chunk));
  flight.mask = std::move(batch.loss_mask);
  flight.attention_mask = std::move(batch.attention_mask);
  engine_.bind_input("token ids", tokens.id());
  engine_.bind_input("labels", batch.labels.id());
  engine_.bind_input("position ids", batch.positions.id());
  engine_.bind_input("attention mask", mask_.id());
  HeldStorage answer = recorder_.adopt(engine_.forward_stage(static_cast<std::size_t>(flight.chunk),
                                                             given_to_model(input.get()), input));
  if (is_last(flight.chunk)) recorder_.release(engine_.logits());
  batch.labels.drop();
  batch.positions.drop();
  if (!keeps_attention_mask(training_.recompute)) flight.attention_mask.drop();
  if (is_last(flight.chunk)) return answer;
  scales_.set();
  flight.mask.drop();
  return answer;
}

/// sum(losses · mask) / sum(mask), which the step keeps for its report.
void MegatronLoop::add_loss(HeldStorage per_token, Flight& flight) {
  HeldStorage masked = make(order_.loss_bytes(), Holding::activations, LoopTensor::loss);
  HeldStorage sum = sum_of_tokens(LoopTensor::loss);
  masked.drop();
  flight.counted_loss = sum_of_tokens(LoopTensor::loss_mask);
  losses_.push_back(make(size_of(DType::fp32), Holding::activations, LoopTensor::loss));
  sum.drop();
  scales_.set();
  per_token.drop();
}

/// The loss is scaled, which takes the place of `loss`; backward begins with ones like it and goes
/// back through the scale and its sum, the number of micro-steps, the context ranks, the number of
/// losses, and the mask.
StorageId MegatronLoop::backward_of_loss(Flight& flight, HeldStorage& loss) {
  loss = scalar(LoopTensor::scaled_loss);
  const HeldStorage ones = scalar(LoopTensor::loss_gradient);
  HeldStorage gradient;
  constexpr int kFactors = 5;
  for (int i = 0; i < kFactors; ++i) gradient = scalar(LoopTensor::loss_gradient);
  flight.counted_loss.drop();
  HeldStorage spread =
      make(order_.loss_bytes(), Holding::passing_gradients, LoopTensor::loss_gradient);
  gradient.drop();
  flight.mask.drop();
  return backward_of_stage(flight, spread.give_up());
}

/// Answers the gradient of what another stage has sent.
StorageId MegatronLoop::backward_of_stage(Flight& flight, StorageId gradient) {
  const auto chunk = static_cast<std::size_t>(flight.chunk);
  if (!is_first(flight.chunk)) return engine_.backward_stage(chunk, gradient);
  for (const StorageId leaf : engine_.backward_first_stage(chunk, gradient)) {
    flight.leaves.push_back(recorder_.adopt(leaf));
  }
  return kNoStorage;
}

void MegatronLoop::micro_step(std::uint16_t number) {
  Flight flight;
  recorder_.begin(Phase::forward, number);
  HeldStorage per_token = forward(flight, nullptr);
  recorder_.end();
  recorder_.begin(Phase::backward, number);
  add_loss(std::move(per_token), flight);
  leaves_.drop();
  HeldStorage scaled;
  backward_of_loss(flight, scaled);
  scaled.drop();
  leaves_ = std::move(flight.leaves);
  flight.attention_mask.drop();
  recorder_.end();
}

/// The result takes the last one's name.
void MegatronLoop::run_forward(std::int64_t chunk, std::shared_ptr<Received> input) {
  Flight flight;
  flight.chunk = chunk;
  flight.state = engine_.fresh();
  if (input) model_inputs_[static_cast<std::size_t>(chunk)] = input;
  engine_.exchange(flight.state);
  HeldStorage result = forward(flight, input);
  if (is_last(chunk)) {
    add_loss(std::move(result), flight);
    result = recorder_.share(losses_.back().id());
  }
  engine_.exchange(flight.state);
  output_ = std::make_shared<Output>(std::move(input), std::move(result));
  flight.output = output_;
  flights_.push_back(std::move(flight));
}

/// deallocate_output_tensor: of the last result, which was sent, the program keeps one element.
/// DeepSpeed's keeps the whole of it for the backward.
void MegatronLoop::send_output(bool loss) {
  if (!output_ || by_deepspeed_) return;
  const DType type = loss ? DType::fp32 : training_.recipe.weights;
  output_->data = make(size_of(type), Holding::activations, LoopTensor::received);
}

/// `gradient`: of what the stage sent, for the engine. The input's takes the last one's name.
void MegatronLoop::run_backward(std::int64_t chunk, HeldStorage gradient) {
  const auto first = std::find_if(flights_.begin(), flights_.end(),
                                  [chunk](const Flight& flight) { return flight.chunk == chunk; });
  Flight flight = std::move(*first);
  flights_.erase(first);
  engine_.exchange(flight.state);
  // Interleaved, the scaled loss is a local of backward_step.
  HeldStorage scaled;
  const StorageId of_input =
      is_last(chunk) ? backward_of_loss(flight, place_.chunks > 1 ? scaled : flight.output->data)
                     : backward_of_stage(flight, gradient.give_up());
  flight.output->leaves = std::move(flight.leaves);
  scaled.drop();
  flight.attention_mask.drop();
  if (by_deepspeed_ && !is_last(chunk)) flight.output->data.drop();
  engine_.exchange(flight.state);
  sent_back_ = recorder_.share(of_input);
  if (flight.output->input) flight.output->input->gradient = recorder_.adopt(of_input);
  if (place_.chunks == 1) output_ = flight.output;
}

std::vector<PipelineAction> MegatronLoop::actions() const {
  return actions_of(job_.parallelism.schedule, place_, micro_steps_);
}

/// forward_backward_pipelining_without_interleaving: a gradient is received behind the forward that
/// stands before its backward.
void MegatronLoop::run_one_by_one() {
  // Returns one more name than the schedule's own.
  const auto receive_gradient = [this] {
    const bool has_one = by_deepspeed_ && gradient_.is_of_storage();  // grad_layer, for good
    if (!is_last(0) && !has_one) gradient_ = receive();
    return recorder_.share(gradient_.id());
  };
  const std::vector<PipelineAction> list = actions();
  const std::int64_t warmup =
      warmup_of(job_.parallelism.schedule, place_, static_cast<std::int64_t>(list.size()) / 2);
  std::int64_t done = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].forward) {
      output_ = flights_.front().output;
      run_backward(0, receive_gradient());
      continue;
    }
    run_forward(0, receive_input(0));
    const bool steady = ++done > warmup;
    HeldStorage gradient = steady ? receive_gradient() : HeldStorage();
    send_output(is_last(0));
    if (!steady) continue;
    run_backward(0, std::move(gradient));
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
  HeldStorage gradient = is_last(backward->chunk) ? HeldStorage() : receive();
  gradients_[static_cast<std::size_t>(backward->chunk)].push_back(recorder_.share(gradient.id()));
  gradient_ = std::move(gradient);
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
  leaves_.drop();
  if (!by_deepspeed_) gradient_.drop();
  sent_back_.drop();
}

/// finalize_model_grads: what ranks have parts of is summed flat.
void MegatronLoop::finish_gradients() {
  states_.finish_gradients();
  const std::int64_t elements = states_.tensor_summed_elements();
  if (elements == 0) return;
  const std::int64_t bytes = checked_multiply(elements, size_of(training_.recipe.gradients));
  recorder_.make_and_free(bytes, loop_label(Holding::temporaries, LoopTensor::gradient_buffer));
}

/// FullCudaGraphWrapper: the generators of the random state tracker are registered, each with a
/// seed and an offset; torch.cuda.graph empties the cache, and PyTorch's own generator has its two
/// in the stream of the capture (CUDAGraph::capture_begin).
void MegatronLoop::begin_capture() {
  constexpr int kTracked = 3;  // of the data's, the model's and the experts' ranks
  constexpr int kOfEach = 2;
  const Label label = loop_label(Holding::buffers, LoopTensor::generator_state);
  for (int i = 0; i < kTracked * kOfEach; ++i) recorder_.allocate(size_of(DType::int64), label);
  recorder_.empty_cache();
  for (int i = 0; i < kOfEach; ++i) {
    recorder_.allocate(size_of(DType::int64), label, Stream::capture);
  }
  engine_.change_stream();
  recorder_.capture(true);
}

void MegatronLoop::step(std::uint16_t number) {
  recorder_.begin_step(number);
  if (number > 1) {
    recorder_.begin(Phase::zero_grad);
    states_.zero_grad();
    recorder_.end();
  }
  batches_.stay(is_first(0) || is_last(place_.chunks - 1));
  const bool graph = training_.implementation.cuda_graph.full_iteration;
  const bool captures = graph && number > training_.steps;
  // A capture gives back nothing that another stream awaits: each of its micro-steps takes more.
  micro_steps_ = captures ? training_.gradient_accumulation : followed_micro_steps(job_);
  if (captures) begin_capture();
  HeldStorage tokens = make(size_of(DType::int32), Holding::buffers, LoopTensor::token_count);
  if (place_.ranks > 1) {
    recorder_.begin(Phase::backward);
    if (place_.chunks > 1) {
      run_interleaved();
    } else {
      run_one_by_one();
    }
  } else {
    for (std::int64_t i = 1; i <= micro_steps_; ++i) micro_step(static_cast<std::uint16_t>(i));
  }
  finish_gradients();
  end_pipeline();
  tokens.drop();
  for (HeldStorage& one : tokens_) one.drop();
  // FullCudaGraphWrapper.result names them until the next step's.
  if (graph) reported_ = std::move(losses_);
  losses_.drop();
  recorder_.capture(false);
  recorder_.end();
  recorder_.begin(Phase::optimizer);
  states_.step(recorder_);
  recorder_.end();
}

}  // namespace memest
