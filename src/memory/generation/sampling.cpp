// GenerationMixin._sample(): a token a sequence, the likeliest or a drawn one.
#include <utility>

#include "memory/generation/generation_loop.hpp"

namespace memest {
namespace {

/// GenerationConfig's default.
constexpr std::int64_t kTopK = 50;

class Sampler {
 public:
  explicit Sampler(const Decoding& decoding)
      : sizes_(decoding.sizes), tensors_(decoding.tensors), rows_(sizes_.sequences()) {}

  /// TopKLogitsWarper: scores below the 50th are masked.
  [[nodiscard]] HeldStorage warped() const {
    HeldStorage below;
    {
      auto [values, indices] =
          tensors_.top_k(kName, rows_, sizes_.vocabulary, std::min(kTopK, sizes_.vocabulary));
      indices.drop();
      below = tensors_.make(kName, rows_ * sizes_.vocabulary, DType::boolean);
      values.drop();
    }
    return tensors_.make(kName, rows_ * sizes_.vocabulary, DType::fp32);
  }

  /// torch.multinomial(probs, 1): checks the probabilities, then takes the largest of quotients by
  /// exponential numbers.
  [[nodiscard]] HeldStorage drawn() const {
    HeldStorage result = tensors_.make(kName, rows_, DType::int64);
    HeldStorage valid = valid_probabilities();
    HeldStorage empty = any_row_is_empty();
    tensors_.pass(kName, 1, DType::boolean);
    tensors_.pass(kName, rows_ * sizes_.vocabulary, DType::fp32);
    empty.drop();
    valid.drop();
    return result;
  }

 private:
  static constexpr LoopTensor kName = LoopTensor::scores;

  [[nodiscard]] HeldStorage flag() const { return tensors_.make(kName, 1, DType::boolean); }

  /// is_valid = (self.max() < INFINITY) & (self.min() >= 0).
  [[nodiscard]] HeldStorage valid_probabilities() const {
    const std::int64_t elements = rows_ * sizes_.vocabulary;
    HeldStorage largest = tensors_.reduce_all(kName, elements);
    HeldStorage finite = flag();
    HeldStorage smallest = tensors_.reduce_all(kName, elements);
    HeldStorage positive = flag();
    HeldStorage both = flag();
    positive.drop();
    smallest.drop();
    finite.drop();
    largest.drop();
    return both;
  }

  /// (self.sum(1) == 0).any().
  [[nodiscard]] HeldStorage any_row_is_empty() const {
    HeldStorage sums = tensors_.sum_rows(kName, rows_, sizes_.vocabulary);
    HeldStorage zero = tensors_.make(kName, rows_, DType::boolean);
    HeldStorage any = flag();
    zero.drop();
    sums.drop();
    return any;
  }

  const GenerationSizes& sizes_;
  const GenerationTensors& tensors_;
  std::int64_t rows_;
};

}  // namespace

HeldStorage sample(const Decoding& decoding, HeldStorage ids, ModelKwargs kwargs, bool samples) {
  const auto& [sizes, tensors, model, recorder] = decoding;
  const std::int64_t rows = sizes.sequences();
  const Sampler sampler(decoding);
  constexpr LoopTensor kScores = LoopTensor::scores;
  constexpr LoopTensor kSequences = LoopTensor::sequences;
  HeldStorage unfinished = tensors.make(LoopTensor::stopping, rows, DType::int64);
  HeldStorage outputs = decoding.prefill(ids, kwargs);
  ModelInputs inputs;
  HeldStorage logits;
  HeldStorage scores;
  HeldStorage probabilities;
  HeldStorage next;
  for (std::int64_t length = sizes.prompt + 1; length <= sizes.longest(); ++length) {
    if (length > sizes.prompt + 1) {
      decoding.prepare(inputs, kwargs);
      outputs = model.decode(inputs, length - 2);
    }
    decoding.update(kwargs, length);
    logits = tensors.make(LoopTensor::next_logits, rows * sizes.vocabulary, DType::fp32);
    scores = samples ? sampler.warped() : tensors.share(logits);
    if (samples) {
      probabilities = tensors.make(kScores, rows * sizes.vocabulary, DType::fp32);
      next = sampler.drawn();
    } else {
      next = tensors.make(kScores, rows, DType::int64);
    }
    {
      // next_tokens * unfinished_sequences + pad_token_id * (1 - unfinished_sequences)
      HeldStorage running = tensors.make(kSequences, rows, DType::int64);
      HeldStorage padding = tensors.make(kSequences, rows, DType::int64);
      tensors.replace(padding, kSequences, rows, DType::int64);
      HeldStorage sum = tensors.make(kSequences, rows, DType::int64);
      running.drop();
      padding.drop();
      next = std::move(sum);
    }
    ids = tensors.make(kSequences, rows * length, DType::int64);
    {
      HeldStorage done = decoding.stopping(rows);
      tensors.replace(done, LoopTensor::stopping, rows, DType::boolean);  // ~done
      HeldStorage still = tensors.make(LoopTensor::stopping, rows, DType::int64);
      done.drop();
      unfinished = std::move(still);
    }
    {
      // StopCheck: bool(unfinished_sequences.max() == 0)
      HeldStorage most = tensors.make(LoopTensor::stopping, 1, DType::int64);
      HeldStorage none = tensors.make(LoopTensor::stopping, 1, DType::boolean);
      most.drop();
    }
    outputs.drop();
  }
  model.drop_cache();
  return ids;
}

}  // namespace memest
