#include "memory/torchtune/rotations.hpp"

#include <variant>

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

const DecoderSpec& decoder_in(const Job& job) {
  return std::get<DecoderSpec>(job.model.architecture);
}

}  // namespace

TorchtuneRotations::TorchtuneRotations(const TorchtuneParts& parts)
    : pairs_(std::get<RotaryPosition>(decoder_in(parts.job).position).rotary_dim / 2),
      positions_(decoder_in(parts.job).max_positions > 0 ? decoder_in(parts.job).max_positions
                                                         : parts.job.training->seq_len),
      tensors_(parts.tensors),
      placement_(parts.placement),
      recorder_(parts.recorder) {}

HeldStorage TorchtuneRotations::temporary(std::int64_t elements, DType dtype) {
  return recorder_.make(checked_multiply(elements, size_of(dtype)),
                        loop_label(Holding::temporaries, LoopTensor::rotations));
}

/// RotaryPositionalEmbeddings.rope_init().
void TorchtuneRotations::make() {
  HeldStorage exponents = temporary(pairs_, DType::int64);
  exponents = temporary(pairs_, DType::fp32);
  exponents = temporary(pairs_, DType::fp32);  // / self.dim
  HeldStorage powers = temporary(pairs_, DType::fp32);
  HeldStorage base = temporary(1, DType::int64);
  base.drop();
  exponents.drop();
  HeldStorage reciprocal = temporary(pairs_, DType::fp32);
  placement_.place_buffer(next_buffer_, DType::fp32);
  reciprocal.drop();
  powers.drop();
  make_cache();
  next_buffer_ += kBuffersOfTable;
}

/// build_rope_cache(): angles of all positions, and their cosines and sines, which torch.stack
/// copies to the cache. Qwen2's has the angles of both halves of the channels.
void TorchtuneRotations::make_cache() {
  const std::int64_t numbers = tensors_.buffers[next_buffer_ + 1].elements / 2;
  const std::int64_t angles = checked_multiply(positions_, pairs_);
  HeldStorage indices = temporary(positions_, DType::fp32);
  HeldStorage angle = temporary(angles, DType::fp32);
  HeldStorage both_halves;
  if (numbers != angles) both_halves = temporary(numbers, DType::fp32);
  HeldStorage cosines = temporary(numbers, DType::fp32);
  HeldStorage sines = temporary(numbers, DType::fp32);
  placement_.place_buffer(next_buffer_ + 1, DType::fp32);
  sines.drop();
  cosines.drop();
  indices.drop();
  angle.drop();
}

}  // namespace memest
