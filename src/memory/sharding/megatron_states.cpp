#include "memory/sharding/megatron_states.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// The weights of a router, and of the gate of shared experts.
bool is_router(const ParameterTensor& row) { return row.module == ParameterModule::router; }

/// Weight decay is for matrices (_get_param_groups).
bool decays(const ParameterTensor& row) { return row.shape.size() > 1; }

/// The last stage's copy of a tied embedding, whose gradient counts in the first stage.
bool is_copy(const ParameterTensor& row) {
  return row.output_head && row.role == ParameterRole::matmul;
}

}  // namespace

MegatronStates::MegatronStates(const Model& model, const Timeline& timeline)
    : job_(model.job),
      graph_(model.graph),
      timeline_(timeline),
      recipe_(job_.training->recipe),
      distributed_(std::get<MegatronBuffer>(sharding_of(job_)).divides_optimizer),
      rank_(model.rank),
      weights_(timeline.parameters.size()) {
  const ForwardOrder& order = model.order;
  std::size_t begin = 0;
  std::size_t chunk = 0;
  for (const StageSites& stage : order.stages()) {
    const auto within = [&](const ParameterUse& use) {
      return use.instance >= order.sites()[stage.begin].instance &&
             use.instance <= order.sites()[stage.end - 1].instance;
    };
    const auto count = std::count_if(order.parameters().begin(), order.parameters().end(), within);
    lay_out_chunk(chunk++, begin, begin + static_cast<std::size_t>(count));
    begin += static_cast<std::size_t>(count);
  }
}

/// Whose gradients travel while others come are bucketed where a step waits for them: in the first
/// stage (DistributedDataParallel.__init__).
std::int64_t MegatronStates::bucket_of(std::size_t chunk) const {
  constexpr std::int64_t kLeast = 40'000'000;
  constexpr std::int64_t kOfARank = 1'000'000;
  if (!job_.parallelism.overlap_grad_reduce || rank_.pipeline > 0 || chunk > 0) return 0;
  return std::max(kLeast, checked_multiply(kOfARank, job_.parallelism.data));
}

void MegatronStates::lay_out_chunk(std::size_t chunk, std::size_t begin, std::size_t end) {
  const Parallelism& parallelism = job_.parallelism;
  // distributed_data_parallel.py: weights in fp8 are torch.uint8's in a buffer of their own.
  for (const auto& [of_experts, narrow] : {std::pair(false, false), std::pair(false, true),
                                           std::pair(true, false), std::pair(true, true)}) {
    Buffer buffer{of_experts, narrow, {}, {}};
    std::vector<FlatParameter> parameters;
    for (std::size_t i = begin; i < end; ++i) {
      if (row(i).expert_parallel != of_experts || in_eight_bits(i) != narrow) continue;
      buffer.parameters.push_back(i);
      parameters.push_back({elements(i), row(i).output_head && parallelism.pipeline > 1});
    }
    if (parameters.empty()) continue;
    const std::int64_t ranks =
        of_experts ? parallelism.expert_data_ranks() : parallelism.shard_ranks();
    buffer.flat = lay_out(parameters, {distributed_, ranks, bucket_of(chunk)});
    buffers_.push_back(std::move(buffer));
  }
}

const ParameterTensor& MegatronStates::row(std::size_t parameter) const {
  return graph_.parameters.parameters[timeline_.parameters[parameter].row];
}

std::int64_t MegatronStates::elements(std::size_t parameter) const {
  return timeline_.parameters[parameter].elements;
}

bool MegatronStates::in_eight_bits(std::size_t parameter) const {
  const std::optional<TeLinears>& linears = job_.training->te_linears;
  return linears && linears->param_gather && row(parameter).te_linear;
}

/// Weights of MXFP8 are gathered in 16 bits into the gradients' buffer, and cast from there
/// (reuse_grad_buf_for_mxfp8_param_ag).
bool MegatronStates::has_weight_buffer(const Buffer& buffer) const {
  if (!distributed_) return false;
  return !buffer.in_eight_bits || job_.training->te_linears->recipe != TeRecipe::mxfp8;
}

/// As the module makes it: of MXFP8 by rows and columns, else what the buffer will have.
std::int64_t MegatronStates::own_bytes(std::size_t parameter) const {
  if (!in_eight_bits(parameter))
    return checked_multiply(elements(parameter), size_of(recipe_.weights));
  const TeRecipe recipe = job_.training->te_linears->recipe;
  if (recipe != TeRecipe::mxfp8) return checked_multiply(elements(parameter), size_of(DType::fp8));
  return te_weight_bytes(elements(parameter), recipe, te_capability(job_.hardware.gpu));
}

/// torch.nn's own modules; Megatron's and Transformer Engine's make their weights on the device.
bool MegatronStates::made_on_host(std::size_t parameter) const {
  const ParameterTensor& tensor = row(parameter);
  const bool own_norms = job_.training->implementation.layers != LayerSpec::te;
  return is_router(tensor) || (own_norms && tensor.role == ParameterRole::norm) ||
         tensor.module == ParameterModule::positions;
}

/// A router's weight is in its type before it follows.
DType MegatronStates::type_on_host(std::size_t parameter) const {
  return is_router(row(parameter)) ? recipe_.weights : DType::fp32;
}

HeldStorage MegatronStates::weight(std::size_t parameter, DType dtype, Recorder& recorder) const {
  return recorder.make(checked_multiply(elements(parameter), size_of(dtype)),
                       parameter_label(Holding::weights, parameter, 0));
}

/// Zeros; of a rotation 1 / base ** (arange(0, d, 2) / d), expression by expression
/// (RotaryEmbedding).
void MegatronStates::place_buffer(std::size_t buffer, Recorder& recorder) const {
  const std::int64_t bytes =
      checked_multiply(timeline_.buffers[buffer].elements, size_of(DType::fp32));
  Label label;
  label.holding = Holding::buffers;
  label.origin = Origin::buffer;
  label.place = static_cast<std::uint32_t>(buffer);
  const auto make = [&](std::int64_t size) { return recorder.make(size, label); };
  const BufferTensor& described = graph_.parameters.buffers[timeline_.buffers[buffer].row];
  if (!described.rotary_frequencies) {
    make(bytes).give_up();
    return;
  }
  HeldStorage counted = make(bytes);
  HeldStorage exponents = make(bytes);
  counted.drop();
  const HeldStorage powers = make(bytes);
  make(size_of(DType::fp64)).drop();
  exponents.drop();
  const HeldStorage inverted = make(bytes);
  make(bytes).give_up();
}

void MegatronStates::place(const ModelTensors& tensors, Recorder& recorder) {
  for (const auto& [is_buffer, i] : tensors.order) {
    if (is_buffer) {
      place_buffer(i, recorder);
    } else if (!made_on_host(i)) {
      weights_[i] = recorder.make(own_bytes(i), parameter_label(Holding::weights, i, 0));
    }
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (made_on_host(i)) weights_[i] = weight(i, type_on_host(i), recorder);
  }
}

void MegatronStates::make_buffers(Recorder& recorder) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!made_on_host(i) || recipe_.weights == type_on_host(i)) continue;
    weights_[i] = weight(i, recipe_.weights, recorder);
  }
  for (const Buffer& buffer : buffers_) {
    const auto make = [&](DType dtype, Holding holding, LoopTensor tensor) {
      recorder.allocate(checked_multiply(buffer.flat.elements, size_of(dtype)),
                        loop_label(holding, tensor));
    };
    const bool has_weights = has_weight_buffer(buffer);
    if (has_weights) {
      make(buffer.in_eight_bits ? DType::uint8 : recipe_.weights, Holding::weights,
           LoopTensor::parameter_buffer);
    }
    make(recipe_.gradients, Holding::gradients, LoopTensor::gradient_buffer);
    if (!has_weights) continue;
    // _ParamAndGradBuffer goes over params[::-1], in whose order gradients come.
    for (std::size_t i = buffer.parameters.size(); i > 0; --i) {
      weights_[buffer.parameters[i - 1]].drop();
    }
  }
}

/// The shards that the rank steps, or every parameter. Ranks are numbered tensor, context, data;
/// for experts tensor (theirs), expert, data (parallel_state.py, RankGenerator).
std::vector<FlatShard> MegatronStates::stepped(bool experts, std::int64_t data_rank) const {
  const Parallelism& parallelism = job_.parallelism;
  const std::int64_t beside = parallelism.whole_experts() ? parallelism.tensor : 1;
  const std::int64_t share = data_rank / (experts ? parallelism.expert : beside);
  std::vector<FlatShard> list;
  for (const Buffer& buffer : buffers_) {
    if (buffer.of_experts != experts) continue;
    for (const FlatShard& shard : buffer.flat.pieces(share)) {
      list.push_back({buffer.parameters[shard.parameter], shard.elements});
    }
  }
  if (!distributed_) {
    std::stable_sort(list.begin(), list.end(), [](const FlatShard& left, const FlatShard& right) {
      return left.parameter < right.parameter;
    });
  }
  return list;
}

std::vector<std::int64_t> MegatronStates::stepped_elements(std::int64_t data_rank) const {
  std::vector<std::int64_t> stepped_elements;
  for (const bool experts : {false, true}) {
    const std::vector<FlatShard> shards = stepped(experts, data_rank);
    for (const bool decaying : {true, false}) {
      for (const FlatShard& shard : shards) {
        if (decays(row(shard.parameter)) == decaying) stepped_elements.push_back(shard.elements);
      }
      stepped_elements.push_back(0);  // ends the group
    }
  }
  return stepped_elements;
}

void MegatronStates::make_main_params(const std::optional<LaunchDevice>& device,
                                      Recorder& recorder) {
  device_ = device;
  for (const bool experts : {false, true}) {
    const bool any = std::any_of(buffers_.begin(), buffers_.end(), [experts](const Buffer& buffer) {
      return buffer.of_experts == experts;
    });
    if (any) make_optimizer(experts, recorder);
  }
}

void MegatronStates::make_quantized_weights(Recorder& recorder) {
  const std::optional<TeLinears>& linears = job_.training->te_linears;
  if (!linears) return;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!row(i).te_linear) continue;
    std::int64_t bytes =
        te_weight_bytes(elements(i), linears->recipe, te_capability(job_.hardware.gpu));
    if (linears->param_gather) bytes -= own_bytes(i);
    if (bytes > 0) recorder.allocate(bytes, parameter_label(Holding::weights, i, 0));
  }
}

void MegatronStates::make_optimizer(bool experts, Recorder& recorder) {
  const auto scalar = [&] {
    recorder.allocate(size_of(DType::fp32),
                      loop_label(Holding::optimizer_states, LoopTensor::loss_scale));
  };
  // MixedPrecisionOptimizer looks for overflows of all types but bf16.
  if (distributed_ && recipe_.weights == DType::fp32) scalar();
  scalar();
  std::vector<ParameterGroup> groups(2);
  // Ranks with the same shards of an optimizer have the same experts, or all of them.
  if (normed_elements_.empty() || !distributed_) normed_elements_.emplace_back();
  for (const FlatShard& shard : stepped(experts, rank_.data)) {
    ParameterTensor tensor = row(shard.parameter);
    const bool decaying = decays(tensor);
    if (distributed_) tensor.shape = {shard.elements};
    shards_.push_back(std::move(tensor));
    groups[decaying ? 0 : 1].push_back(
        {static_cast<std::uint32_t>(shard.parameter), shard.elements, &shards_.back()});
  }
  for (const ParameterGroup& group : groups) {
    for (const SteppedTensor& tensor : group) {
      if (!is_copy(*tensor.row)) normed_elements_.back().push_back(tensor.elements);
      if (!recipe_.master) continue;
      const HeldStorage shard =
          recorder.make(checked_multiply(tensor.elements, size_of(recipe_.weights)),
                        loop_label(Holding::temporaries, LoopTensor::parameter_shard));
      recorder.allocate(checked_multiply(tensor.elements, size_of(*recipe_.master)),
                        parameter_label(Holding::optimizer_states, tensor.parameter, kMasterCopy));
    }
  }
  optimizers_.emplace_back(job_, std::move(groups), device_, recorder);
}

HeldStorage MegatronStates::norm_of(std::int64_t elements, Recorder& recorder) const {
  constexpr std::int64_t kBytes = size_of(DType::fp32);
  // local_multi_tensor_l2_norm, which stands in where neither Transformer Engine nor Apex is
  // installed.
  HeldStorage norm =
      recorder.make(kBytes, loop_label(Holding::temporaries, LoopTensor::norm_of_a_tensor));
  if (device_) {
    recorder.launch(reduction_scratch(sum_of_all(elements, kBytes), *device_),
                    loop_label(Holding::temporaries, LoopTensor::partial_norms));
  }
  return norm;
}

/// get_grad_norm_fp32: the norms of all tensors, theirs on the host, and its square. Gradients are
/// scaled in place.
void MegatronStates::clip(const std::vector<std::int64_t>& normed, Recorder& recorder) {
  const auto scalar = [&] {
    return recorder.make(size_of(DType::fp32), loop_label(Holding::temporaries, LoopTensor::norm));
  };
  HeldStorage overflow = scalar();
  HeldVector norms;
  for (const std::int64_t count : normed) norms.push_back(norm_of(count, recorder));
  const HeldStorage norm = scalar();
  norms.drop();
  scalar().drop();  // the square
  overflow.drop();
}

void MegatronStates::step(Recorder& recorder) {
  for (OptimizerRun& optimizer : optimizers_) optimizer.widen_gradients();
  if (job_.training->clip_gradients) {
    for (const auto& normed : normed_elements_) clip(normed, recorder);
  }
  for (OptimizerRun& optimizer : optimizers_) optimizer.step();
}

void MegatronStates::zero_grad() {
  for (OptimizerRun& optimizer : optimizers_) optimizer.zero_grad();
}

std::int64_t MegatronStates::tensor_summed_elements() const {
  const Parallelism& parallelism = job_.parallelism;
  if (parallelism.tensor == 1) return 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const ParameterTensor& tensor = row(i);
    // _allreduce_non_tensor_model_parallel_grads: every tensor rank has a part of the sum where its
    // heads, or under sequence parallelism its tokens, are others than its neighbours'.
    const bool sums = tensor.module == ParameterModule::attention_output ||
                      tensor.module == ParameterModule::feed_forward_down;
    const bool on_shards = tensor.role == ParameterRole::norm ||
                           (tensor.role == ParameterRole::bias && sums) ||
                           tensor.module == ParameterModule::into_latents || is_router(tensor);
    if (tensor.module == ParameterModule::head_norm || (parallelism.sequence && on_shards))
      total += elements(i);
  }
  return total;
}

}  // namespace memest
