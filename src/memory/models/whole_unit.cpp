#include "memory/models/whole_unit.hpp"

#include <utility>

#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/optimizer/foreach_copies.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Each root has an FSDPCommContext; the trained model's is the first.
constexpr std::size_t kOwnStreams = 1;

}  // namespace

WholeUnit::WholeUnit(const Graph& graph, const Job& job, Recorder& recorder)
    : inventory_(graph.teacher_parameters),
      recorder_(recorder),
      stored_(job.training->teacher->weights),
      gathered_(job.training->recipe.casts_gathered() ? job.training->recipe.compute : stored_),
      ranks_(job.parallelism.shard_ranks()),
      multiprocessors_(job.hardware.gpu.multiprocessors ? job.hardware.gpu.multiprocessors->value
                                                        : 0),
      reshards_(std::get<RowShards>(sharding_of(job)).reshard == Reshard::always) {
  const ModelTensors whole = model_tensors(inventory_);
  const ModelTensors shares = model_tensors(sharded_by_rows(inventory_, job.parallelism));
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    parameters_.push_back({whole.parameters[i].elements, shares.parameters[i].elements});
  }
}

HeldStorage WholeUnit::make(Holding holding, std::int64_t elements, DType type, Stream stream) {
  return recorder_.make(checked_multiply(elements, size_of(type)),
                        loop_label(holding, LoopTensor::teacher), {stream, kOwnStreams});
}

/// _move_states_to_device of parameters and buffers, then FSDPParamGroup's constructor.
void WholeUnit::place() {
  HeldVector whole;
  for (const Elements& parameter : parameters_) {
    whole.push_back(make(Holding::weights, parameter.whole, stored_));
  }
  for (const TensorPlace& buffer : model_tensors(inventory_).buffers) {
    make(Holding::buffers, buffer.elements, inventory_.buffers[buffer.row].dtype).give_up();
  }
  for (const Elements& parameter : parameters_) {
    make(Holding::weights, parameter.share, stored_).give_up();
  }
}

void WholeUnit::before_forward(std::uint32_t instance) {
  if (instance > 0 || !weights_.empty()) return;
  std::int64_t elements = 0;
  CopyPieces pieces;
  for (const Elements& parameter : parameters_) {
    elements = checked_add(elements, parameter.share);
    pieces.add(checked_multiply(parameter.share, size_of(gathered_)));
  }
  {
    const std::int64_t cast = stored_ == gathered_ ? 0 : elements;
    const HeldStorage sent = make(Holding::gathered_weights, cast, gathered_, Stream::all_gather);
    output_ = make(Holding::gathered_weights, checked_multiply(elements, ranks_), gathered_,
                   Stream::all_gather);
  }
  for (const Elements& parameter : parameters_) {
    weights_.push_back(
        make(Holding::gathered_weights, checked_multiply(parameter.share, ranks_), gathered_));
  }
  recorder_.make_and_free(pieces.bytes_of_split_copy(ranks_, multiprocessors_),
                          loop_label(Holding::temporaries, LoopTensor::teacher));
}

/// FSDPState._post_forward: post_forward() of the unit before the cast to its output_dtype.
void WholeUnit::before_answer_cast() {
  if (reshards_) weights_.drop();
}

void WholeUnit::after_answer() {
  before_answer_cast();
  output_.drop();
}

}  // namespace memest
