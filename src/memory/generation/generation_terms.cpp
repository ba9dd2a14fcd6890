#include "memory/generation/generation_terms.hpp"

#include <utility>

namespace memest {
namespace {

constexpr std::int64_t kId = size_of(DType::int64);
constexpr std::int64_t kScore = size_of(DType::fp32);
constexpr std::int64_t kIndex = size_of(DType::int32);
constexpr const char* kSource = "transformers 5.17, generation/utils.py: generate(), ";

std::vector<LedgerTerm> those_of(LedgerTerm one, LedgerTerm two, LedgerTerm three) {
  std::vector<LedgerTerm> terms;
  terms.push_back(std::move(one));
  terms.push_back(std::move(two));
  terms.push_back(std::move(three));
  return terms;
}

}  // namespace

GenerationTerms::GenerationTerms(const InferenceSpec& inference, const Graph& graph)
    : inference_(inference), searches_(inference.beams() > 1) {
  const Block& head = graph.blocks[graph.order.back().block];
  logits_bytes_ = Expr(size_of(head.tensors[head.output].dtype));
}

LedgerTerm GenerationTerms::ids(const Expr& bytes) const {
  return {"ids, masks and positions", TermGroup::buffers, bytes,
          std::string(kSource) + "model_kwargs and model_inputs", ""};
}

LedgerTerm GenerationTerms::scores(const Expr& bytes) const {
  return {"logits and scores of the next tokens", TermGroup::activations, bytes,
          std::string(kSource) + (searches_ ? "_beam_search" : "_sample"), ""};
}

LedgerTerm GenerationTerms::beams(const Expr& bytes) const {
  return {"sequences of the beams", TermGroup::buffers, bytes,
          std::string(kSource) + "_beam_search: as long as they may get", ""};
}

// With one beam positions of every prompt; else ids, masks and positions of every beam. The batch's
// ids and its mask are the prompts', of which the batch's term counts the ids of every sequence.
Expr GenerationTerms::arguments() const {
  if (!searches_) return Expr(2 * kId) * b_ * s_;
  const Expr prompts = b_ / Expr(inference_.beams());
  return Expr(3 * kId) * b_ * s_ + Expr(2 * kId) * prompts * s_ - Expr(kId) * b_ * s_;
}

Expr GenerationTerms::sequences() const {
  return Expr(kId) * b_ * (s_ + Expr(inference_.generation->tokens));
}

Expr GenerationTerms::indices() const { return Expr(kIndex * inference_.generation->tokens) * b_; }

std::vector<LedgerTerm> GenerationTerms::around_prompts() const {
  const Expr of_pass = Expr(kId) * b_ * s_;
  const Expr held = searches_ ? Expr(2) * (sequences() + indices()) : Expr();
  return those_of(ids(arguments() + of_pass), scores(Expr()), beams(held));
}

std::vector<LedgerTerm> GenerationTerms::around_pass(const Expr& tokens) const {
  // Positions and mask of all tokens, and where nothing searches the sequences themselves.
  const Expr grown = Expr((searches_ ? 2 : 3) * kId) * b_ * tokens;
  // The logits and what became of them stay until the next ones take their names.
  const std::int64_t kept = searches_ || inference_.generation->samples ? 2 : 1;
  const std::int64_t drawn = inference_.generation->samples ? 1 : 0;
  const Expr held = searches_ ? Expr(4) * (sequences() + indices()) : Expr();
  return those_of(ids(arguments() + grown), scores(Expr((kept + drawn) * kScore) * b_ * v_),
                  beams(held));
}

std::vector<LedgerTerm> GenerationTerms::of_choice(const Expr& tokens) const {
  // The mask of the pass beside the new one.
  const Expr grown = Expr((searches_ ? 3 : 4) * kId) * b_ * tokens;
  // Greedy: the logits, widened, while the last ones still have a name. Sampling: scores below the
  // 50th are masked, while the last scores and probabilities have their names. Beams: widened
  // logits, their logarithmic softmax, and the last sum of them and the beams' scores.
  const bool samples = inference_.generation->samples;
  const Expr numbers = samples     ? Expr(4 * kScore + 1) + logits_bytes_
                       : searches_ ? Expr(3 * kScore) + logits_bytes_
                                   : Expr(2 * kScore) + logits_bytes_;
  // Behind the prompts nothing is there yet: sampling peaks in its draw, beams in the sum.
  const bool behind_prompts = tokens == s_;
  const Expr first = samples     ? Expr(4 * kScore) + logits_bytes_
                     : searches_ ? Expr(3 * kScore)
                                 : Expr(kScore) + logits_bytes_;
  const Expr held = searches_ ? Expr(behind_prompts ? 2 : 4) * (sequences() + indices()) : Expr();
  return those_of(ids(arguments() + grown), scores((behind_prompts ? first : numbers) * b_ * v_),
                  beams(held));
}

std::vector<LedgerTerm> GenerationTerms::of_merge(const Expr& tokens) const {
  // Beside those of of_update() three joined sets, and one gathered by indices as wide.
  const Expr grown = Expr(3 * kId) * b_ * tokens;
  const bool behind_prompts = tokens == s_;
  const Expr held = Expr(behind_prompts ? 9 : 10) * sequences() + Expr(7) * indices();
  return those_of(ids(arguments() + grown), scores(Expr(2 * kScore) * b_ * v_), beams(held));
}

std::vector<LedgerTerm> GenerationTerms::of_update(const Expr& tokens) const {
  const Expr grown = Expr(3 * kId) * b_ * tokens;
  // Running and ended beams, the best of both as candidates, and the last running ones by the name
  // of what the pass was given.
  const bool behind_prompts = tokens == s_;
  const Expr held = Expr(behind_prompts ? 4 : 5) * sequences() + Expr(4) * indices();
  return those_of(ids(arguments() + grown), scores(Expr(2 * kScore) * b_ * v_), beams(held));
}

}  // namespace memest
