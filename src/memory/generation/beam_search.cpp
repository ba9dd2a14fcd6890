// GenerationMixin._beam_search(): of every prompt the best continuations of all of its beams. Beams
// that ended are kept beside those that run, all of them as long as the longest may get.
#include <utility>

#include "memory/generation/generation_loop.hpp"

namespace memest {
namespace {

/// Tensors by prompt and beam.
struct Beams {
  HeldStorage sequences;
  HeldStorage scores;
  HeldStorage indices;  ///< of the beam that each token came from
  HeldStorage flags;    ///< finished, or one that hits a stopping criterion
};

class BeamSearch {
 public:
  explicit BeamSearch(const Decoding& decoding)
      : sizes_(decoding.sizes), tensors_(decoding.tensors), decoding_(decoding) {}

  HeldStorage run(HeldStorage ids, ModelKwargs kwargs) {
    // top_num_beam_mask: K = (number of end tokens + 1) · num_beams candidates.
    const HeldStorage top = tensors_.make(kBeams, kept(), DType::boolean);
    begin();
    flat_ = tensors_.share(ids);
    HeldStorage outputs = decoding_.prefill(ids, kwargs);
    ModelInputs inputs;
    HeldStorage logits;
    HeldStorage log_probabilities;
    for (std::int64_t length = sizes_.prompt + 1; length <= sizes_.longest(); ++length) {
      if (length > sizes_.prompt + 1) {
        flat_ = tensors_.share(running_.sequences);
        decoding_.prepare(inputs, kwargs);
        outputs = decoding_.model.decode(inputs, length - 2);
      }
      decoding_.update(kwargs, length);
      const std::int64_t scored = sizes_.sequences() * sizes_.vocabulary;
      logits = tensors_.make(LoopTensor::next_logits, scored, DType::fp32);
      log_probabilities = tensors_.make(LoopTensor::scores, scored, DType::fp32);
      outputs.drop();
      log_probabilities = tensors_.make(LoopTensor::scores, scored, DType::fp32);
      step(length);
    }
    return finish();
  }

 private:
  static constexpr LoopTensor kBeams = LoopTensor::beams;
  static constexpr LoopTensor kScores = LoopTensor::beam_scores;

  [[nodiscard]] std::int64_t kept() const { return 2 * sizes_.beams; }
  [[nodiscard]] HeldStorage flags(std::int64_t count) const {
    return tensors_.make(LoopTensor::stopping, count, DType::boolean);
  }

  /// The static-shaped placeholders.
  void begin() {
    const std::int64_t rows = sizes_.sequences();
    running_.sequences =
        tensors_.make(LoopTensor::sequences, rows * sizes_.longest(), DType::int64);
    finished_.sequences =
        tensors_.make(LoopTensor::sequences, rows * sizes_.longest(), DType::int64);
    running_.scores = tensors_.make(kScores, rows, DType::fp32);
    finished_.scores = tensors_.make(kScores, rows, DType::fp32);
    finished_.flags = flags(rows);
    may_improve_ = flags(sizes_.prompts);
    running_.flags = flags(rows);
    running_.indices = tensors_.make(kBeams, rows * sizes_.tokens, DType::int32);
    finished_.indices = tensors_.make(kBeams, rows * sizes_.tokens, DType::int32);
  }

  void step(std::int64_t length) {
    rename_each(best_, take_best());
    running_.flags = decoding_.stopping(sizes_.prompts * kept());
    take_running();
    update_finished();
    // beam_idx is a view of the running beams' indices.
    chosen_ = tensors_.share(running_.indices);
    decoding_.model.reorder_cache(length - 1);
    check_heuristic();
    check_unfinished();
  }

  /// One name after the other, each when the next is there.
  static void rename_each(Beams& names, Beams next) {
    names.scores = std::move(next.scores);
    names.sequences = std::move(next.sequences);
    names.indices = std::move(next.indices);
  }

  /// torch.take_along_dim(x, indices, dim=1) of `width` elements a beam: the indices as wide.
  [[nodiscard]] HeldStorage gathered(LoopTensor name, std::int64_t count, std::int64_t width,
                                     DType dtype) const {
    const std::int64_t elements = sizes_.prompts * count * width;
    HeldStorage indices = tensors_.make(kBeams, elements, DType::int64);
    HeldStorage result = tensors_.make(name, elements, dtype);
    return result;
  }

  /// _get_top_k_continuations().
  [[nodiscard]] Beams take_best() const {
    const std::int64_t count = sizes_.prompts * kept();
    Beams best;
    auto [values, indices] =
        tensors_.top_k(kBeams, sizes_.prompts, sizes_.beams * sizes_.vocabulary, kept());
    HeldStorage beams = tensors_.make(kBeams, count, DType::int64);
    best.indices = gathered(kBeams, kept(), sizes_.tokens, DType::int32);
    best.sequences = gathered(LoopTensor::sequences, kept(), sizes_.longest(), DType::int64);
    HeldStorage ids = tensors_.make(kBeams, count, DType::int64);
    HeldStorage offset = tensors_.make(kBeams, sizes_.prompts, DType::int64);
    tensors_.replace(offset, kBeams, sizes_.prompts, DType::int64);
    HeldStorage in_batch = tensors_.make(kBeams, count, DType::int64);
    indices.drop();
    beams.drop();
    ids.drop();
    offset.drop();
    in_batch.drop();
    best.scores = std::move(values);
    return best;
  }

  /// _get_running_beams_for_next_iteration().
  void take_running() {
    const std::int64_t count = sizes_.prompts * kept();
    HeldStorage scores = tensors_.make(kScores, count, DType::fp32);
    tensors_.replace(scores, kScores, count, DType::fp32);
    tensors_.replace(scores, kScores, count, DType::fp32);
    auto [values, indices] = tensors_.top_k(kBeams, sizes_.prompts, kept(), sizes_.beams);
    values.drop();
    Beams next = gathered_beams();
    scores.drop();
    indices.drop();
    running_.sequences = std::move(next.sequences);
    running_.scores = std::move(next.scores);
    running_.indices = std::move(next.indices);
  }

  [[nodiscard]] Beams gathered_beams() const {
    Beams next;
    next.sequences = gathered(LoopTensor::sequences, sizes_.beams, sizes_.longest(), DType::int64);
    next.scores = gathered(kScores, sizes_.beams, 1, DType::fp32);
    next.indices = gathered(kBeams, sizes_.beams, sizes_.tokens, DType::int32);
    return next;
  }

  /// Adds `count` flags times −1e9 to the scores in place.
  void punish(std::int64_t count) const {
    HeldStorage numbers = tensors_.make(kScores, count, DType::fp32);
    tensors_.replace(numbers, kScores, count, DType::fp32);
  }

  /// _update_finished_beams().
  void update_finished() {
    const std::int64_t count = sizes_.prompts * kept();
    const std::int64_t merged = sizes_.prompts * (kept() + sizes_.beams);
    HeldStorage just_finished = flags(count);
    HeldStorage scores = tensors_.make(kScores, count, DType::fp32);
    HeldStorage full = flags(sizes_.prompts);
    tensors_.replace(full, LoopTensor::stopping, sizes_.prompts, DType::boolean);
    punish(sizes_.prompts);
    {
      HeldStorage stopped = flags(sizes_.prompts);
      HeldStorage numbers = tensors_.make(kScores, sizes_.prompts, DType::fp32);
      stopped.drop();
      tensors_.replace(numbers, kScores, sizes_.prompts, DType::fp32);
    }
    {
      HeldStorage running = flags(count);
      HeldStorage numbers = tensors_.make(kScores, count, DType::fp32);
      running.drop();
    }
    HeldStorage all_sequences =
        tensors_.make(LoopTensor::sequences, merged * sizes_.longest(), DType::int64);
    HeldStorage all_scores = tensors_.make(kScores, merged, DType::fp32);
    HeldStorage all_indices = tensors_.make(kBeams, merged * sizes_.tokens, DType::int32);
    HeldStorage all_flags = flags(merged);
    auto [values, indices] =
        tensors_.top_k(kBeams, sizes_.prompts, kept() + sizes_.beams, sizes_.beams);
    values.drop();
    Beams next = gathered_beams();
    next.flags = gathered(LoopTensor::stopping, sizes_.beams, 1, DType::boolean);
    scores.drop();
    for (HeldStorage* local :
         {&just_finished, &full, &all_sequences, &all_scores, &all_indices, &all_flags, &indices}) {
      local->drop();
    }
    finished_.sequences = std::move(next.sequences);
    finished_.scores = std::move(next.scores);
    finished_.indices = std::move(next.indices);
    finished_.flags = std::move(next.flags);
  }

  /// _check_early_stop_heuristic().
  void check_heuristic() {
    HeldStorage possible = tensors_.make(kScores, sizes_.prompts, DType::fp32);
    HeldStorage worst;
    {
      HeldStorage lowest = tensors_.make(kScores, sizes_.prompts, DType::fp32);
      tensors_.pass(kBeams, sizes_.prompts, DType::int64);
      HeldStorage bound = tensors_.make(kScores, 1, DType::fp32);
      worst = tensors_.make(kScores, sizes_.sequences(), DType::fp32);
      bound.drop();
      lowest.drop();
    }
    HeldStorage better = flags(sizes_.sequences());
    HeldStorage any = flags(sizes_.prompts);
    better.drop();
    HeldStorage still = flags(sizes_.prompts);
    any.drop();
    possible.drop();
    worst.drop();
    may_improve_ = std::move(still);
  }

  /// _beam_search_has_unfinished_sequences().
  void check_unfinished() const {
    const auto flag = [this] { return flags(1); };
    HeldStorage improves = flag();
    HeldStorage open = flag();
    open = flag();
    open = flag();
    HeldStorage valid = flag();
    valid = flag();
    HeldStorage both = flag();
    both = flag();
    improves.drop();
    open.drop();
    valid.drop();
  }

  /// The best beams, as long as the longest of them: ((beam_indices + 1).bool()).sum(dim=1).max().
  HeldStorage finish() {
    const std::int64_t count = sizes_.prompts * sizes_.tokens;
    HeldStorage x = tensors_.make(kBeams, count, DType::int32);
    tensors_.replace(x, kBeams, count, DType::boolean);
    HeldStorage lengths = tensors_.make(kBeams, sizes_.prompts, DType::int64);
    tensors_.pass(kBeams, count, DType::int64);  // the sum reads booleans through a copy
    x.drop();
    tensors_.replace(lengths, kBeams, 1, DType::int64);
    HeldStorage length = tensors_.make(kBeams, 1, DType::int64);
    decoding_.model.drop_cache();
    return std::move(finished_.sequences);
  }

  const GenerationSizes& sizes_;
  const GenerationTensors& tensors_;
  const Decoding& decoding_;
  Beams running_;
  Beams finished_;
  Beams best_;
  HeldStorage may_improve_;
  HeldStorage flat_;
  HeldStorage chosen_;
};

}  // namespace

HeldStorage beam_search(const Decoding& decoding, HeldStorage ids, ModelKwargs kwargs) {
  return BeamSearch(decoding).run(std::move(ids), std::move(kwargs));
}

}  // namespace memest
