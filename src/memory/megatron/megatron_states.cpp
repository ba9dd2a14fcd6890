#include "memory/megatron/megatron_states.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Weight decay is for matrices (_get_param_groups).
bool decays(const ParameterTensor& row) { return row.shape.size() > 1; }

}  // namespace

MegatronStates::MegatronStates(const MegatronModel& model, const Timeline& timeline)
    : job_(model.job),
      recipe_(job_.training->recipe),
      distributed_(std::get<MegatronBuffer>(sharding_of(job_)).divides_optimizer),
      rank_(model.rank),
      weights_(model, timeline) {
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
  if (!job_.parallelism.overlap_grad_reduce || rank_.pipeline > 0 || chunk > 0) return 0;
  return overlapped_bucket_elements(job_.parallelism.data);
}

void MegatronStates::lay_out_chunk(std::size_t chunk, std::size_t begin, std::size_t end) {
  const Parallelism& parallelism = job_.parallelism;
  // distributed_data_parallel.py: weights in fp8 are torch.uint8's in a buffer of their own.
  for (const auto& [of_experts, narrow] : {std::pair(false, false), std::pair(false, true),
                                           std::pair(true, false), std::pair(true, true)}) {
    Buffer buffer{of_experts, narrow, {}, {}};
    std::vector<FlatParameter> parameters;
    for (std::size_t i = begin; i < end; ++i) {
      // distributed_data_parallel.py: what wants no gradient is in no buffer, and stays.
      if (!row(i).trainable || row(i).expert_parallel != of_experts) continue;
      if (weights_.in_eight_bits(i) != narrow) continue;
      buffer.parameters.push_back(i);
      parameters.push_back({elements(i), row(i).shared_embedding && parallelism.pipeline > 1});
    }
    if (parameters.empty()) continue;
    const std::int64_t ranks =
        of_experts ? parallelism.expert_data_ranks() : parallelism.shard_ranks();
    buffer.flat = lay_out(parameters, {distributed_, ranks, bucket_of(chunk)});
    buffers_.push_back(std::move(buffer));
  }
}

/// Weights of MXFP8 are gathered in 16 bits into the gradients' buffer, and cast from there
/// (reuse_grad_buf_for_mxfp8_param_ag).
bool MegatronStates::has_weight_buffer(const Buffer& buffer) const {
  if (!distributed_) return false;
  return !buffer.in_eight_bits || job_.training->te_linears->recipe != TeRecipe::mxfp8;
}

void MegatronStates::make_buffers(Recorder& recorder) {
  weights_.cast(recorder);
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
      weights_.drop(buffer.parameters[i - 1]);
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
      if (!tensor.row->copied) normed_elements_.back().push_back(tensor.elements);
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

void MegatronStates::step(Recorder& recorder) {
  for (OptimizerRun& optimizer : optimizers_) optimizer.widen_gradients();
  if (job_.training->clip_gradients) {
    for (const auto& normed : normed_elements_) take_gradient_norm(normed, device_, recorder);
  }
  for (OptimizerRun& optimizer : optimizers_) optimizer.step();
}

void MegatronStates::zero_grad() {
  for (OptimizerRun& optimizer : optimizers_) optimizer.zero_grad();
}

std::int64_t MegatronStates::tensor_summed_elements() const {
  if (job_.parallelism.tensor == 1) return 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < weights_.count(); ++i) {
    const bool summed = row(i).trainable && summed_over_tensor_ranks(row(i), job_.parallelism);
    if (summed) total += elements(i);
  }
  return total;
}

}  // namespace memest
