#include "memory/litgpt/validation.hpp"

#include <utility>
#include <variant>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

const DecoderSpec& decoder_of(const Job& job) {
  return std::get<DecoderSpec>(job.model.architecture);
}

}  // namespace

LitgptValidation::LitgptValidation(const Job& job, Recorder& recorder)
    : recorder_(recorder),
      weights_(job.training->recipe.weights),
      rms_(decoder_of(job).norm.kind == NormKind::rmsnorm),
      quantized_(job.model.quantized.has_value()),
      sequences_(job.training->micro_batch),
      tokens_(checked_multiply(job.training->micro_batch, job.training->seq_len)),
      hidden_size_(decoder_of(job).hidden_size),
      vocab_size_(decoder_of(job).vocab_size) {}

HeldStorage LitgptValidation::make(std::int64_t elements, DType dtype) {
  return recorder_.make(checked_multiply(elements, size_of(dtype)),
                        loop_label(Holding::temporaries, LoopTensor::next_logits));
}

/// RMSNorm.forward, line by line.
HeldStorage LitgptValidation::rms_norm(HeldStorage hidden) {
  const std::int64_t elements = checked_multiply(tokens_, hidden_size_);
  const bool widens = weights_ != DType::fp32;
  const HeldStorage wide = widens ? make(elements, DType::fp32) : std::move(hidden);
  HeldStorage square = make(elements, DType::fp32);
  const HeldStorage mean = make(tokens_, DType::fp32);
  square.drop();
  HeldStorage root = make(tokens_, DType::fp32);
  root = make(tokens_, DType::fp32);
  const HeldStorage normalized = make(elements, DType::fp32);
  root.drop();
  HeldStorage gain = widens ? make(hidden_size_, DType::fp32) : HeldStorage();
  HeldStorage scaled = make(elements, DType::fp32);
  gain.drop();
  return widens ? make(elements, weights_) : std::move(scaled);
}

HeldStorage LitgptValidation::normalized(HeldStorage hidden) {
  if (rms_) return rms_norm(std::move(hidden));
  HeldStorage out = make(checked_multiply(tokens_, hidden_size_), weights_);
  const HeldStorage mean = make(tokens_, DType::fp32);
  const HeldStorage deviation = make(tokens_, DType::fp32);
  return out;
}

HeldStorage LitgptValidation::answer(HeldStorage hidden) {
  const std::int64_t elements = checked_multiply(tokens_, vocab_size_);
  const HeldStorage rows = normalized(std::move(hidden));
  // The output head's weight is made from its codes.
  HeldStorage head =
      quantized_ ? make(checked_multiply(vocab_size_, hidden_size_), weights_) : HeldStorage();
  HeldStorage logits = make(elements, weights_);
  head.drop();
  if (weights_ == DType::fp32) return logits;
  return make(elements, DType::fp32);
}

void LitgptValidation::take_loss() {
  const std::int64_t rows = tokens_ - sequences_;
  const std::int64_t elements = checked_multiply(rows, vocab_size_);
  HeldStorage logits = sequences_ > 1 ? make(elements, DType::fp32) : HeldStorage();
  HeldStorage targets = sequences_ > 1 ? make(rows, DType::int64) : HeldStorage();
  HeldStorage log_probabilities = make(elements, DType::fp32);
  const HeldStorage loss = make(1, DType::fp32);
  recorder_.make_and_free(size_of(DType::fp32), loop_label(Holding::temporaries, LoopTensor::loss));
  log_probabilities.drop();
  logits.drop();
  targets.drop();
}

}  // namespace memest
