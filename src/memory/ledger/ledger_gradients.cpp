#include "memory/ledger/ledger_gradients.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/states/expert_shares.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

/// Layers by which a count of a stage's layers may differ from all and is still written with L: the
/// one that runs, and the one that makes what the others share.
constexpr std::int64_t kEndsOfStage = 2;

}  // namespace

Expr LayerCount::times(std::int64_t count) const {
  // 31 of 32 layers are L - 1: the formula holds for another depth as well.
  if (!has_letter_ || count < 2 || count < layers_ - kEndsOfStage) return count;
  return Expr(Symbol::layers) - Expr(layers_ - count);
}

LedgerGradients::LedgerGradients(const LedgerMoments& moments, const Job& job,
                                 const LedgerUnits& units, LayerCount layer_count)
    : graph_(moments.graph()),
      job_(job),
      training_(*job.training),
      units_(units),
      layer_count_(layer_count),
      zero_(graph_, job),
      accumulator_(graph_, job),
      in_buffer_(adds_to_gradient_buffer(training_.implementation) && !accumulator_.exist()),
      persist_(gradients_persist(job)) {
  for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
    elements_.push_back(moments.of(block, BlockPass::keep_all).end.gradient_elements);
    bytes_.push_back(bytes_of(block, elements_.back()));
    // A block that multiplies by another's table makes a gradient for parameters that are not its
    // own.
    Expr tied = elements_.back() - graph_.blocks[block].trained_parameters();
    if (!tied.is_zero()) tied_.push_back({block, std::move(tied)});
  }
}

std::vector<LedgerTerm> LedgerGradients::all() const {
  if (gradients_on_host(job_)) return {};
  return {gradient_term(job_, graph_.parameters),
          {"rest of the table's whole gradient", TermGroup::gradients,
           size_of(training_.recipe.gradients) * unreduced_elements(),
           "torch.distributed.tensor, PyTorch 2.11: without FSDP2 an embedding's gradient stays "
           "that of the whole table on every rank",
           ""}};
}

std::vector<LedgerTerm> LedgerGradients::kept(const Expr& missing) const {
  if (!persist_) return {};
  const bool summed = units_.exist() && (units_.sum() || units_.holds());
  std::vector<LedgerTerm> terms = summed ? std::vector{units_.all_sums()} : all();
  if (!terms.empty()) terms.front().formula -= missing;
  return terms;
}

/// In the fused step; lists of temporaries take more than what these gave back before.
LedgerTerm LedgerGradients::relaid() const {
  Expr elements;
  const bool fused = training_.optimizer_implementation == OptimizerImplementation::fused;
  if (fused && !unreduced_elements().is_zero()) {
    elements = graph_.blocks[graph_.order.front().block].trained_parameters();
    for (const ParameterTensor& row : graph_.parameters.parameters) {
      if (row.role == ParameterRole::norm) elements += Expr(row.count * elements_of(row));
    }
  }
  return {"gradients in the form of their parameters", TermGroup::gradients,
          size_of(training_.recipe.gradients) * elements,
          "torch.distributed.tensor, PyTorch 2.11: partial sums and whole tables, for the step",
          ""};
}

std::vector<Moment> LedgerGradients::possible_peaks(std::size_t block,
                                                    const std::vector<Moment>& moments,
                                                    const LedgerTerms& terms) const {
  std::vector<Moment> kept;
  for (const LedgerUnits::Stretch stretch : LedgerUnits::kStretches) {
    std::vector<SizePolynomial> totals;
    std::vector<const Moment*> compared;
    for (const Moment& moment : moments) {
      if (units_.stretch_of(block, moment.at) != stretch) continue;
      compared.push_back(&moment);
      totals.push_back(
          terms.bound(moment.saved + moment.live + own(block, moment) + arriving(moment)));
    }
    for (const std::size_t index : undominated(totals)) kept.push_back(*compared[index]);
  }
  return kept;
}

std::vector<LedgerTerm> LedgerGradients::at(const Site& site, const Moment& moment,
                                            const Expr& later) const {
  std::vector<LedgerTerm> result = terms(site, moment, later);
  for (LedgerTerm& term : zero_.reducing(site, moment)) result.push_back(std::move(term));
  const Expr complete = moment.gradient_elements - moment.new_gradient_elements;
  for (LedgerTerm& term : accumulator_.reducing(site, complete)) result.push_back(std::move(term));
  return result;
}

std::vector<LedgerTerm> LedgerGradients::before_the_end(const Site& site,
                                                        const Moment& moment) const {
  return terms(site, moment, later(site, units_.reduces_at_end(site.block)));
}

/// Elements of a table whose whole gradient every rank has, beside the rank's share.
Expr LedgerGradients::unreduced_elements() const {
  const std::size_t first = graph_.order.front().block;
  const auto& tensors = graph_.blocks[first].tensors;
  const bool whole = std::any_of(tensors.begin(), tensors.end(),
                                 [](const Tensor& tensor) { return tensor.gradient_is_relaid; });
  if (!whole || units_.exist()) return {};
  return elements_[first] - graph_.blocks[first].trained_parameters();
}

/// MegatronStates::make_buffers(): chunk by chunk, of each the experts last, weights are copied
/// into a flat buffer with one for gradients beside it, and then go. Where chunks are equal, the
/// last one's copies are the most.
std::vector<DeepSpeedTerms::Instant> LedgerGradients::flat_buffers() const {
  const Sharding sharding = sharding_of(job_);
  const auto* buffer = std::get_if<MegatronBuffer>(&sharding);
  if (buffer == nullptr || !buffer->divides_optimizer) return {};
  const std::vector<std::span<const BlockRun>> chunks = graph_.stage_runs();
  const std::size_t first = has_equal_stages(graph_) ? chunks.size() - 1 : 0;
  const bool has_experts =
      std::any_of(graph_.parameters.parameters.begin(), graph_.parameters.parameters.end(),
                  [](const ParameterTensor& row) { return row.expert_parallel; });
  std::int64_t of_experts = 0;
  for (const auto& chunk : chunks) of_experts += layers_of_experts(chunk);
  std::vector<DeepSpeedTerms::Instant> instants;
  Expr behind;  // weights of later chunks, as they were made
  for (std::size_t i = chunks.size(); i > first; --i) {
    const auto& chunk = chunks[i - 1];
    Expr own;
    for (const BlockRun& run : chunk) {
      own += layer_count_.times(run.repeat) * graph_.blocks[run.block].parameters();
    }
    const std::int64_t with_experts = has_experts ? layers_of_experts(chunk) : 0;
    const Expr experts = with_experts > 0 ? Expr(Rational(with_experts, of_experts)) *
                                                Expr(Symbol::expert_parameters)
                                          : Expr();
    const Expr flat = Expr(Symbol::parameters) - behind;
    instants.push_back(buffers_made(flat - experts, own + behind));
    if (with_experts > 0) instants.push_back(buffers_made(flat, experts + behind));
    behind += own;
  }
  return instants;
}

std::int64_t LedgerGradients::layers_of_experts(std::span<const BlockRun> chunk) const {
  std::int64_t layers = 0;
  for (const BlockRun& run : chunk) {
    if (graph_.blocks[run.block].parameters().uses(Symbol::experts)) layers += run.repeat;
  }
  return layers;
}

/// `flat` elements have their buffers, `waiting` ones still lie as they were made.
DeepSpeedTerms::Instant LedgerGradients::buffers_made(const Expr& flat, const Expr& waiting) const {
  const Recipe& recipe = training_.recipe;
  const auto term = [](const char* name, TermGroup group, DType type, const Expr& elements) {
    return LedgerTerm{name, group, size_of(type) * elements,
                      "Megatron-core 0.16.1, param_and_grad_buffer.py", ""};
  };
  std::vector<LedgerTerm> terms = buffer_terms(graph_.parameters);
  terms.push_back(term("flat weights", TermGroup::weights, recipe.weights, flat));
  terms.push_back(term("weights that are copied", TermGroup::weights, recipe.weights, waiting));
  terms.push_back(term("flat gradients", TermGroup::gradients, recipe.gradients, flat));
  return {"flat buffers, before the first step", std::move(terms), false};
}

std::vector<DeepSpeedTerms::Instant> LedgerGradients::reduced_and_gathered() const {
  std::vector<DeepSpeedTerms::Instant> instants;
  for (AccumulatorTerms::Together& together : accumulator_.steps(graph_)) {
    if (!together.beside_residents) {
      for (LedgerTerm& term : process_terms(graph_)) together.terms.push_back(std::move(term));
    }
    instants.push_back({together.name, std::move(together.terms), together.beside_residents});
  }
  return instants;
}

std::vector<DeepSpeedTerms::Instant> LedgerGradients::steps() const {
  if (in_buffer_) return flat_buffers();
  if (accumulator_.exist()) return reduced_and_gathered();
  if (!units_.exist()) return zero_.steps(graph_);
  std::vector<DeepSpeedTerms::Instant> instants;
  for (LedgerUnits::Hook& hook : units_.sharding()) {
    instants.push_back({std::move(hook.name), std::move(hook.terms), false});
  }
  return instants;
}

/// Whole until the unit is reduced, else a rank's share.
Expr LedgerGradients::bytes_of(std::size_t block, const Expr& elements) const {
  if (accumulator_.exist()) return size_of(training_.recipe.weights) * elements;
  if (units_.exist() && units_.holds()) return {};
  if (units_.exist() && units_.reduces_at_end(block)) return units_.whole_gradients(elements);
  if ((units_.exist() && persist_) || gradients_on_host(job_)) return {};
  if (units_.exist() && units_.sum()) return units_.sums(elements);
  const std::int64_t type = size_of(training_.recipe.gradients);
  return share_with_experts(job_, ZeroStage::optimizer_gradients, type * elements,
                            type * units_.expert_elements(block));
}

/// The block's own by this moment.
Expr LedgerGradients::own(std::size_t block, const Moment& moment) const {
  if (units_.exist() && units_.holds()) return units_.unsummed(moment);
  if (units_.exist()) {
    // Experts are reduced inside the layer.
    const bool reduced = units_.stretch_of(block, moment.at) == LedgerUnits::Stretch::before;
    const bool any = !moment.gradient_elements.is_zero();
    return units_.whole_gradients(reduced && any
                                      ? moment.gradient_elements - units_.expert_elements(block)
                                      : moment.gradient_elements);
  }
  const bool counted = persist_ && !accumulator_.exist() && !graph_.is_one_region;
  return counted ? Expr() : bytes_of(block, moment.gradient_elements);
}

/// The running operation's where it stands beside the one that stays: to be cast, to be added to
/// it, or to be divided over the ranks.
Expr LedgerGradients::arriving(const Moment& moment) const {
  const Recipe& recipe = training_.recipe;
  if (units_.exist() || accumulator_.exist()) return {};
  // Autocast's cast has a backward of its own, which widens the gradient as one of its operations.
  const bool cast =
      recipe.compute != recipe.gradients && !recipe.autocast && !recipe.trained.has_value();
  // AccumulateGrad steals a new tensor where `.grad` is empty. Both exist where it is added to one
  // that is there, and where a shard is cut from it.
  // A compiled model hands all of them on at its end: they are counted as the block's own.
  if (graph_.is_one_region) return {};
  const bool beside = cast || persist_ || zero_stage_of(job_) >= ZeroStage::optimizer_gradients;
  if (!beside) return {};
  return size_of(cast ? recipe.compute : recipe.gradients) * moment.new_gradient_elements;
}

/// Gradient bytes of all blocks after the site; `reduced`: without those FSDP2 reduces at the end.
Expr LedgerGradients::later(const Site& site, bool reduced) const {
  Expr bytes;
  for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
    if (reduced && units_.reduces_at_end(i)) continue;
    if (site.after[i] > 0) bytes += layer_count_.times(site.after[i]) * bytes_[i];
  }
  return bytes;
}

/// Elements of tied weights whose gradient waits for the embedding's, to be added to it.
Expr LedgerGradients::waiting_elements(const Site& site) const {
  Expr elements;
  for (const Tied& tied : tied_) {
    elements += layer_count_.times(site.after[tied.block]) * tied.elements;
  }
  return elements;
}

std::vector<LedgerTerm> LedgerGradients::terms(const Site& site, const Moment& moment,
                                               const Expr& later) const {
  const Recipe& recipe = training_.recipe;
  const Block& block = graph_.blocks[site.block];
  // A tied head's gradient comes with the first operation of the backward and waits to its end, in
  // the type of the product that made it.
  const DType arriving_type =
      in_buffer_ || units_.exist() || accumulator_.exist() ? recipe.compute : recipe.gradients;
  const Expr tied = size_of(arriving_type) * waiting_elements(site);
  std::vector<LedgerTerm> result;
  const bool sums = persist_ && !accumulator_.exist() && !graph_.is_one_region;
  if (!sums || units_.exist()) {
    const DType type = accumulator_.exist() ? recipe.weights : recipe.gradients;
    result.push_back({"gradients (" + std::string(name_of(type)) + ") so far", TermGroup::gradients,
                      later + own(site.block, moment),
                      "PyTorch: a gradient appears when its operation's backward runs", ""});
  }
  if (sums && (!units_.exist() || units_.holds())) {
    result.push_back({"gradient of the tied head", TermGroup::gradients, tied,
                      "PyTorch: it waits for the embedding's, to be added to it", ""});
  }
  if (graph_.is_one_region) {
    result.push_back({"zeros for the logits' gradient", TermGroup::gradients,
                      input_bytes(graph_.blocks[graph_.order.back().block]),
                      "PyTorch 2.11: a compiled model answers the logits beside the loss", ""});
  }
  result.push_back({"gradient of the running operation's weight", TermGroup::gradients,
                    arriving(moment),
                    "PyTorch: made beside the gradient that stays, then cast or added", ""});
  const bool looks_up = std::any_of(block.ops.begin(), block.ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::embedding; });
  // The head's gradient is a view of a product's unless a cast or Liger's loss has made it.
  const bool of_product = !recipe.autocast && answers_logits(graph_);
  const bool summed = looks_up && of_product && !in_buffer_ && !graph_.is_one_region;
  if (summed && !moment.new_gradient_elements.is_zero()) {
    result.push_back(
        {"sum of the tied gradients", TermGroup::gradients, tied,
         "PyTorch 2.11: the gradients of embedding and tied head are summed out of place", ""});
  }
  return result;
}

}  // namespace memest
