#include "memory/torchtune/sharded_construction.hpp"

#include <utility>

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"
#include "memory/states/model_states.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

constexpr std::int64_t kRandomState = 16;  // bytes: a seed and an offset
constexpr std::size_t kUncut = 2;          // of those the first: the values and the scales' mean

}  // namespace

TorchtuneShards::TorchtuneShards(const TorchtuneParts& parts, ShareCutter cutter)
    : parts_(parts), cutter_(std::move(cutter)), rotations_(parts) {}

const ParameterTensor& TorchtuneShards::row(std::size_t parameter) const {
  return parts_.whole.parameters[parts_.tensors.parameters[parameter].row];
}

std::int64_t TorchtuneShards::whole_elements(std::size_t parameter) const {
  return elements_of(row(parameter));
}

void TorchtuneShards::make_and_free(std::int64_t bytes) {
  parts_.recorder.make_and_free(bytes, loop_label(Holding::temporaries, LoopTensor::shapes));
}

void TorchtuneShards::write() {
  // init_gpu_context, in the weights' type.
  make_and_free(size_of(parts_.job.training->recipe.weights));
  make_adapters();
  load();
}

/// LoRALinear's to_empty() and initialize_parameters(), module by module; a table of rotations
/// behind the attention's.
void TorchtuneShards::make_adapters() {
  std::int64_t rotated = 0;  // the layer whose table is made
  for (std::size_t i = 0; i < parts_.tensors.parameters.size(); ++i) {
    const std::int64_t layer = parts_.tensors.parameters[i].layer;
    const bool behind_attention = layer > 0 && !row(i).name.starts_with("attn.");
    if (behind_attention && layer > rotated && (rotated == 0 || rotations_.by_layer())) {
      rotations_.make();
      rotated = layer;
    }
    if (row(i).wants_gradient()) make_pair_of_matrices(i++);
  }
}

/// to_empty() of both matrices, and kaiming_uniform_() of A: torch/distributed/tensor/_random.py,
/// OffsetBasedRNGTracker, which is made at the first random operation on a DTensor and sets the
/// device's state for each. B's zeros_() is none.
void TorchtuneShards::make_pair_of_matrices(std::size_t first) {
  parts_.placement.place(first);
  parts_.placement.place(first + 1);
  if (!std::exchange(has_random_state_, true)) {
    const auto state = [this] {
      return parts_.recorder.make(kRandomState,
                                  loop_label(Holding::temporaries, LoopTensor::shapes));
    };
    HeldStorage own = state();
    HeldStorage sent = state();
    state().drop();
    own.drop();
    sent.drop();
  }
  make_and_free(kRandomState);
}

/// to_nf4() of the whole weight, of whose chunk the rank has a copy. Its values and the mean of its
/// scales are the share's too; the rest goes with `before`'s successor.
HeldVector TorchtuneShards::load_codes(std::size_t parameter, HeldVector before) {
  HeldStorage whole = parts_.placement.make_uncoded(parameter, whole_elements(parameter));
  HeldVector made = parts_.placement.make_nf4(parameter, whole_elements(parameter));
  whole.drop();
  before.drop();
  parts_.placement.place_nf4_shares(parameter);
  HeldVector chunk;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (i < kUncut) {
      made[i].give_up();
    } else {
      chunk.push_back(std::move(made[i]));
    }
  }
  return chunk;
}

void TorchtuneShards::load() {
  HeldVector chunk;  // a name of the loop's: the last weight that became codes
  for (std::size_t i = 0; i < parts_.tensors.parameters.size(); ++i) {
    if (row(i).wants_gradient()) continue;
    if (row(i).quantized) {
      chunk = load_codes(i, std::move(chunk));
    } else {
      cutter_.load_tensor(i);
    }
  }
}

}  // namespace memest
