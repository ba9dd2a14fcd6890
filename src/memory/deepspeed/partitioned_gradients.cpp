#include "memory/deepspeed/partitioned_gradients.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

std::int64_t PartitionedGradients::piece(std::size_t parameter) const {
  return piece_of(elements_[parameter], settings_.ranks);
}

/// The last ranks' pieces are padded: 10 elements over 4 ranks are 3, 3, 3 and 1.
std::int64_t PartitionedGradients::own_elements(std::size_t parameter) const {
  const std::int64_t before = checked_multiply(piece(parameter), settings_.rank);
  return std::clamp<std::int64_t>(elements_[parameter] - before, 0, piece(parameter));
}

Stream PartitionedGradients::stream() const {
  return settings_.rules.overlaps() ? Stream::reduce_scatter : Stream::compute;
}

HeldStorage PartitionedGradients::make(Holding holding, std::int64_t elements, DType type,
                                       Stream stream) {
  const LoopTensor tensor =
      holding == Holding::gradients ? LoopTensor::gradient_buffer : LoopTensor::gradient_bucket;
  return recorder_.make(checked_multiply(elements, size_of(type)), loop_label(holding, tensor),
                        stream);
}

/// _setup_for_real_optimizer.
void PartitionedGradients::construct() {
  if (settings_.rules.settings.contiguous_gradients) {
    make(Holding::collective_buffers, settings_.rules.settings.reduce_bucket_size,
         settings_.arriving, Stream::compute)
        .give_up();
  }
  if (settings_.to_host) return;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < elements_.size(); ++i) all = checked_add(all, piece(i));
  make(Holding::gradients, all, settings_.summed, Stream::compute).give_up();
}

/// reduce_independent_p_g_buckets_and_remove_grads.
void PartitionedGradients::take(std::size_t parameter, HeldStorage gradient) {
  const std::int64_t elements = elements_[parameter];
  const std::int64_t size = settings_.rules.settings.reduce_bucket_size;
  if (filled_elements_ + elements > size) reduce();
  if (settings_.rules.settings.contiguous_gradients && filled_elements_ + elements <= size)
    gradient.drop();
  filled_.push_back({parameter, std::move(gradient)});
  filled_elements_ = checked_add(filled_elements_, elements);
}

/// __avg_scatter_grads: of what waits by itself, as wide as it came, a copy in the bucket's type.
HeldList PartitionedGradients::narrow() {
  HeldList narrowed;
  if (settings_.given == settings_.arriving) return narrowed;
  for (const Filled& one : filled_) {
    if (!one.gradient.is_of_storage()) continue;
    narrowed.push_back(
        make(Holding::temporaries, elements_[one.parameter], settings_.arriving, stream()));
  }
  return narrowed;
}

/// reduce_scatter_coalesced: a single gradient that divides into the ranks' pieces is reduced where
/// it lies.
HeldStorage PartitionedGradients::put_together() {
  if (filled_.size() == 1 && elements_[filled_.front().parameter] % settings_.ranks == 0) return {};
  std::int64_t pieces = 0;
  for (const Filled& one : filled_) pieces = checked_add(pieces, piece(one.parameter));
  return make(Holding::temporaries, checked_multiply(pieces, settings_.ranks), settings_.arriving,
              stream());
}

/// __reduce_and_partition_ipg_grads, in the order of the parameters.
void PartitionedGradients::reduce() {
  if (filled_.empty()) return;
  std::sort(filled_.begin(), filled_.end(), [](const Filled& left, const Filled& right) {
    return left.parameter < right.parameter;
  });
  HeldList narrowed = narrow();
  HeldStorage flat = put_together();
  if (flat.is_of_storage()) narrowed.drop();
  HeldList widened;
  if (settings_.summed != settings_.arriving) {
    for (const Filled& one : filled_) {
      widened.push_back(
          make(Holding::temporaries, own_elements(one.parameter), settings_.summed, stream()));
    }
    flat.drop();
  }
  hand_on();
  widened.drop();
  flat.drop();
  narrowed.drop();
  filled_.clear();
  filled_elements_ = 0;
}

/// partition_grads drops at once what the rank has no part of.
void PartitionedGradients::hand_on() {
  HeldStorage own;
  for (Filled& one : filled_) {
    if (settings_.to_host && own_elements(one.parameter) > 0) send(one, own);
    one.gradient.drop();
  }
}

/// `own`: the sum on the device, which lasts until the next. With the last micro-step it is copied
/// to fp64 (_constant_buffered_norm2), then to fp32 (_offload_grad_partition_at_boundary).
void PartitionedGradients::send(const Filled& one, HeldStorage& own) {
  const std::int64_t elements = own_elements(one.parameter);
  if (micro_step_ == 1) own.drop();
  own = make(Holding::temporaries, elements, settings_.summed, stream());
  if (micro_step_ < settings_.micro_steps) return;
  make(Holding::temporaries, elements, kDeepSpeedNormType, stream()).drop();
  if (settings_.summed == DType::fp32) return;
  make(Holding::temporaries, elements, DType::fp32, stream()).drop();
}

void PartitionedGradients::end_backward() {
  reduce();
  micro_step_ = micro_step_ == settings_.micro_steps ? 1 : micro_step_ + 1;
}

}  // namespace memest
