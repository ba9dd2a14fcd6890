#include "ledger_gradients.hpp"

#include "model_states.hpp"

namespace memest {
namespace {

/// Layers by which a count of a stage's layers may differ from all and is still written with L: the
/// one that runs, and the one that makes what the others share.
constexpr std::int64_t kEndsOfStage = 2;

}  // namespace

Expr LayerCount::times(std::int64_t count) const {
  if (!has_letter_ || count < 2 || count < layers_ - kEndsOfStage) return count;
  return Expr(Symbol::layers) - Expr(layers_ - count);
}

LedgerGradients::LedgerGradients(const Graph& graph, const Job& job, LayerCount layer_count)
    : graph_(graph), job_(job), layer_count_(layer_count), persist_(gradients_persist(job)) {
  for (const Block& block : graph.blocks) {
    const BlockMoments all = moments_of(block, BlockPass::keep_all);
    elements_.push_back(all.backward.empty() ? Expr() : all.backward.back().gradient_elements);
  }
}

/// Whole in FSDP2's root unit, until the end of the backward pass; else a rank's share.
Expr LedgerGradients::bytes_of(const Block& block, const Expr& elements) const {
  const Recipe& recipe = job_.training->recipe;
  const bool in_root_unit = recipe.gathered_units && !block.checkpointable;
  if (in_root_unit) return size_of(recipe.compute) * elements;
  return share(job_, ZeroStage::optimizer_gradients, size_of(recipe.gradients) * elements);
}

Expr LedgerGradients::of_block(const Block& block, const Moment& moment) const {
  const bool in_unit = job_.training->recipe.gathered_units && block.checkpointable;
  if (persist_ || in_unit) return {};
  return bytes_of(block, moment.gradient_elements);
}

Expr LedgerGradients::of_later(const Site& site) const {
  Expr bytes;
  for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
    bytes += layer_count_.times(site.after[i]) * bytes_of(graph_.blocks[i], elements_[i]);
  }
  return bytes;
}

Expr LedgerGradients::arriving(const Moment& moment) const {
  const Recipe& recipe = job_.training->recipe;
  if (recipe.gathered_units) return {};
  const bool cast =
      recipe.compute != recipe.gradients && !recipe.autocast && !recipe.trained.has_value();
  const bool beside = cast || persist_ || zero_stage_of(job_) >= ZeroStage::optimizer_gradients;
  if (!beside) return {};
  return size_of(cast ? recipe.compute : recipe.gradients) * moment.new_gradient_elements;
}

Expr LedgerGradients::waiting_elements(const Site& site) const {
  Expr tied;
  for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
    tied +=
        layer_count_.times(site.after[i]) * (elements_[i] - graph_.blocks[i].trained_parameters());
  }
  return tied;
}

}  // namespace memest
