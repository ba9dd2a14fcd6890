// The ledger of a step: who is alive at which moment. The rules of life are moments.cpp's; here
// they meet the states, the recompute policy and the ranks.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "graph_terms.hpp"
#include "inference_ledger.hpp"
#include "ledger_terms.hpp"
#include "memest/diag/expect.hpp"
#include "memest/memory/ledger.hpp"
#include "model_states.hpp"
#include "moments.hpp"
#include "overheads.hpp"
#include "sites.hpp"

namespace memest {
namespace {

using Alive = std::vector<std::uint16_t>;

constexpr const char* kSavedSource = "PyTorch 2.11: what autograd saves, each storage once";
constexpr const char* kLiveSource =
    "PyTorch 2.11: locals, gradients under way and scratch of the operation";

class LedgerWriter {
 public:
  LedgerWriter(const Graph& graph, const Job& job)
      : graph_(graph),
        job_(job),
        training_(*job.training),
        is_megatron_(training_.implementation.framework == Framework::megatron),
        layers_(layers_of(graph)),
        checkpoint_(checkpoint_length(training_.recompute, layers_)),
        terms_(graph, job),
        shared_tables_(shared_bytes(graph)),
        layer_input_(layer_input_bytes(graph)),
        passed_on_(passed_on(graph)) {
    for (const Block& block : graph.blocks) {
      const BlockMoments all = moments_of(block, BlockPass::keep_all);
      if (!block.checkpointable) root_elements_ += block.parameters();
      gradient_elements_.push_back(all.backward.empty() ? Expr()
                                                        : all.backward.back().gradient_elements);
    }
  }

  Ledger write() && {
    write_residents();
    if (training_.implementation.framework == Framework::textbook) {
      write_textbook_instant();
    } else {
      for (const Site& site : sites_of(graph_, checkpoint_)) write_site(site);
      write_steps();
    }
    OutsideTerms outside = outside_terms(job_);
    for (LedgerTerm& term : outside.terms) terms_.outside(std::move(term));
    Ledger ledger = std::move(terms_).take();
    ledger.outside_low = outside.low;
    ledger.outside_high = outside.high;
    ledger.margin = margin_of(job_.margins.closed_form, training_.recompute);
    return ledger;
  }

 private:
  [[nodiscard]] BlockPass pass_of(const Block& block, bool second) const {
    if (!block.checkpointable) {
      return checkpoint_ > 0 ? BlockPass::keep_input_too : BlockPass::keep_all;
    }
    if (checkpoint_ > 0 && !second) return BlockPass::keep_nothing;
    if (checkpoint_ > 0) return is_megatron_ ? BlockPass::recompute_held : BlockPass::recompute;
    if (std::holds_alternative<SelectiveRecompute>(training_.recompute)) {
      return BlockPass::keep_core_out;
    }
    return BlockPass::keep_all;
  }

  /// `count` equal blocks, written with L where that is what it is.
  [[nodiscard]] Expr times(std::int64_t count) const {
    const bool has_layers = graph_.sizes.has(Symbol::layers);
    if (!has_layers || count < 2) return count;
    const std::int64_t layers = graph_.sizes.at(Symbol::layers);
    if (count == layers) return Symbol::layers;
    if (count == layers - 1) return Expr(Symbol::layers) - 1;
    return count;
  }

  void write_residents() {
    const auto always = [this](std::vector<LedgerTerm> terms) {
      for (LedgerTerm& term : terms) always_.push_back(terms_.add(std::move(term)));
    };
    always(weight_terms(job_, graph_.parameters));
    always(master_terms(job_, graph_.parameters));
    if (!makes_states_in_step(training_)) always(state_terms(job_, graph_.parameters));
    always(buffer_terms(graph_.parameters));
    always(workspace_terms(graph_, job_));
    always(resident_bucket_terms(job_));
    if (training_.hold_outputs) always({held_logits_term(graph_)});
    always(process_terms(graph_));
    all_gradients_ = terms_.add(gradient_term(job_, graph_.parameters));
    persistent_gradients_ = gradients_persist(job_);
  }

  [[nodiscard]] Alive residents() const {
    Alive alive = always_;
    if (persistent_gradients_) alive.push_back(all_gradients_);
    return alive;
  }

  void add_term(Alive& alive, LedgerTerm term) {
    if (!term.formula.is_zero()) alive.push_back(terms_.add(std::move(term)));
  }
  void add_terms(Alive& alive, std::vector<LedgerTerm> terms) {
    for (LedgerTerm& term : terms) add_term(alive, std::move(term));
  }

  /// What the blocks before the site keep, and what the site's checkpoint has brought back.
  void add_kept(Alive& alive, const Site& site, bool second) {
    Expr casts;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      const Block& block = graph_.blocks[i];
      if (site.before[i] == 0) continue;
      const bool dropped = block.checkpointable && checkpoint_ > 0;
      // A checkpoint's copies stay in autocast's cache until the forward pass has ended.
      if (!(dropped && second)) casts += times(site.before[i]) * block.saved_cast_bytes();
      if (dropped) continue;
      const Expr kept = pass_of(block, false) == BlockPass::keep_core_out
                            ? block.saved_bytes_without_attention_core()
                            : block.saved_bytes(false);
      add_term(alive,
               {"activations: " + block.name, TermGroup::activations,
                times(site.before[i]) * (kept - block.saved_cast_bytes()), kSavedSource, ""});
    }
    add_term(alive,
             {"weights cast by autocast", TermGroup::weights, casts,
              "torch.autocast: a copy of every matmul weight in the compute type, from forward "
              "to backward",
              ""});
    if (!batch_is_kept(graph_) && checkpoint_ == 0) add_term(alive, batch_term(graph_));
    add_term(alive, {"activations: tables shared by all layers", TermGroup::activations,
                     shared_tables_, kSavedSource, ""});
    add_passed_on(alive, site, second);
    if (!second || training_.hold_outputs) add_term(alive, answered_term(graph_, site.before));
    if (checkpoint_ == 0) return;
    const bool inside = graph_.blocks[site.block].checkpointable;
    const std::int64_t reached = site.layers_before + (inside ? 1 : 0);
    const std::int64_t checkpoints = (reached + checkpoint_ - 1) / checkpoint_;
    add_term(alive, {"activations: checkpointed inputs", TermGroup::activations,
                     times(checkpoints) * layer_input_,
                     "torch.utils.checkpoint: one input a checkpoint", ""});
    if (!second || !inside) return;
    const std::int64_t again = site.layers_before % checkpoint_;
    add_term(alive,
             {"activations: layers recomputed before this one", TermGroup::activations,
              again * graph_.blocks[site.block].saved_bytes(false),
              "torch.utils.checkpoint: a checkpoint of several layers comes back whole", ""});
  }

  /// What the model's forward holds beside what autograd keeps, and in the backward pass the
  /// checkpoints' arguments among it.
  void add_passed_on(Alive& alive, const Site& site, bool second) {
    Expr bytes;
    for (const PassedOn& tensor : passed_on_) {
      const bool is_made = site.before[tensor.maker] > 0;
      const bool forward = !second && site.before[tensor.last] == 0;
      const bool checkpointed = second && checkpoint_ > 0 && tensor.for_layers;
      if (is_made && (forward || checkpointed)) bytes += tensor.bytes;
    }
    add_term(alive, {"activations: masks and embeddings that the model holds",
                     TermGroup::activations, bytes, kLiveSource, ""});
  }

  /// Whether the block's gradients stay whole until the end of the backward pass: FSDP2's root
  /// unit.
  [[nodiscard]] bool in_root_unit(const Block& block) const {
    return training_.recipe.gathered_units && !block.checkpointable;
  }

  /// Bytes of gradients of `elements` of the block: whole in FSDP2's root unit, else a rank's
  /// share.
  [[nodiscard]] Expr gradient_bytes(const Block& block, const Expr& elements) const {
    const Recipe& recipe = training_.recipe;
    if (in_root_unit(block)) return size_of(recipe.compute) * elements;
    return share(job_, ZeroStage::optimizer_gradients, size_of(recipe.gradients) * elements);
  }

  /// Bytes of the block's own gradients by this moment; a unit's are among its gathered tensors.
  [[nodiscard]] Expr own_gradients(const Block& block, const Moment& moment) const {
    const bool in_unit = training_.recipe.gathered_units && block.checkpointable;
    if (persistent_gradients_ || in_unit) return {};
    return gradient_bytes(block, moment.gradient_elements);
  }

  /// Bytes of the running operation's weight gradient where it stands beside the one that stays:
  /// to be cast, to be added to it, or to be divided over the ranks.
  [[nodiscard]] Expr arriving_gradient(const Moment& moment) const {
    const Recipe& recipe = training_.recipe;
    if (recipe.gathered_units) return {};
    const bool cast =
        recipe.compute != recipe.gradients && !recipe.autocast && !recipe.trained.has_value();
    const bool beside =
        cast || persistent_gradients_ || zero_stage_of(job_) >= ZeroStage::optimizer_gradients;
    if (!beside) return {};
    return size_of(cast ? recipe.compute : recipe.gradients) * moment.new_gradient_elements;
  }

  /// Gradients of everything after the site.
  [[nodiscard]] Expr later_gradients(const Site& site) const {
    Expr bytes;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      bytes += times(site.after[i]) * gradient_bytes(graph_.blocks[i], gradient_elements_[i]);
    }
    return bytes;
  }

  /// Elements of tied weights whose gradient waits for the embedding's, to be added to it.
  [[nodiscard]] Expr waiting_elements(const Site& site) const {
    Expr tied;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      tied +=
          times(site.after[i]) * (gradient_elements_[i] - graph_.blocks[i].trained_parameters());
    }
    return tied;
  }

  /// Gradients at a moment of the backward pass; `later` are those of everything after the site.
  void add_gradients(Alive& alive, const Site& site, const Moment& moment, const Expr& later) {
    const Recipe& recipe = training_.recipe;
    const Block& block = graph_.blocks[site.block];
    const DType arriving = is_megatron_ ? recipe.compute : recipe.gradients;
    const Expr tied = size_of(arriving) * waiting_elements(site);
    if (!persistent_gradients_) {
      add_term(alive, {"gradients (" + std::string(name_of(recipe.gradients)) + ") so far",
                       TermGroup::gradients, later + own_gradients(block, moment),
                       "PyTorch: a gradient appears when its operation's backward runs", ""});
    } else {
      add_term(alive, {"gradient of the tied head", TermGroup::gradients, tied,
                       "PyTorch: it waits for the embedding's, to be added to it", ""});
    }
    add_term(alive, {"gradient of the running operation's weight", TermGroup::gradients,
                     arriving_gradient(moment),
                     "PyTorch: made beside the gradient that stays, then cast or added", ""});
    const bool summed =
        block.ops.front().kind == OpKind::embedding && !recipe.autocast && !is_megatron_;
    if (summed && !moment.new_gradient_elements.is_zero()) {
      add_term(
          alive,
          {"sum of the tied gradients", TermGroup::gradients, tied,
           "PyTorch 2.11: the gradients of embedding and tied head are summed out of place", ""});
    }
  }

  /// The moments of a block that can be a peak: at one site nothing else differs between them.
  const BlockMoments& moments(std::size_t block, bool second) {
    const BlockPass pass = pass_of(graph_.blocks[block], second);
    const auto [entry, is_new] = moments_.try_emplace({block, pass});
    if (!is_new) return entry->second;
    entry->second = moments_of(graph_.blocks[block], pass);
    keep_possible_peaks(graph_.blocks[block], entry->second.forward);
    keep_possible_peaks(graph_.blocks[block], entry->second.backward);
    return entry->second;
  }

  void keep_possible_peaks(const Block& block, std::vector<Moment>& moments) const {
    std::vector<SizePolynomial> totals;
    std::vector<Moment> kept;
    for (const Moment& moment : moments) {
      totals.push_back(terms_.bound(moment.saved + moment.live + own_gradients(block, moment) +
                                    arriving_gradient(moment)));
    }
    for (const std::size_t index : undominated(totals)) kept.push_back(moments[index]);
    moments = std::move(kept);
  }

  void add_moment(Alive& alive, const Moment& moment, const Site& site, const char* pass) {
    const Block& block = graph_.blocks[site.block];
    add_term(alive, {"activations: " + block.name + " at work", TermGroup::activations,
                     moment.saved, kSavedSource, ""});
    add_term(alive, {std::string(moment.op) + ", " + pass, TermGroup::activations, moment.live,
                     kLiveSource, ""});
  }

  [[nodiscard]] Place place_of(const Site& site) const {
    if (graph_.blocks[site.block].checkpointable) return Place::layer;
    return site.layers_before == 0 && layers_ > 0 ? Place::before_layers : Place::after_layers;
  }

  void write_site(const Site& site) {
    Alive base = residents();
    add_kept(base, site, false);
    add_terms(base, forward_gather_terms(job_, place_of(site), root_elements_));
    for (const Moment& moment : moments(site.block, false).forward) {
      Alive alive = base;
      add_moment(alive, moment, site, "forward");
      write_instant("forward", site, moment, std::move(alive));
    }
    write_backward(site);
  }

  void write_backward(const Site& site) {
    Alive base = residents();
    add_kept(base, site, true);
    add_terms(base, backward_bucket_terms(job_));
    add_terms(base, backward_gather_terms(job_, place_of(site), root_elements_));
    const Expr later = later_gradients(site);
    const BlockMoments& second = moments(site.block, true);
    const bool again = graph_.blocks[site.block].checkpointable && checkpoint_ > 0;
    if (again) {
      for (const Moment& moment : second.forward) {
        Alive alive = base;
        add_gradients(alive, site, moment, later);
        add_term(alive, {"gradient of the layer's output", TermGroup::activations, layer_input_,
                         kLiveSource, ""});
        add_moment(alive, moment, site, "forward");
        write_instant("recompute", site, moment, std::move(alive));
      }
    }
    for (const Moment& moment : second.backward) {
      Alive alive = base;
      add_gradients(alive, site, moment, later);
      add_moment(alive, moment, site, "backward");
      write_instant("backward", site, moment, std::move(alive));
    }
  }

  void write_instant(const std::string& pass, const Site& site, const Moment& moment, Alive alive) {
    terms_.instant(pass + ": " + site.name + ", " + std::string(moment.op),
                   pass + ": " + graph_.blocks[site.block].name, std::move(alive));
  }

  void write_steps() {
    Alive after_backward = always_;
    after_backward.push_back(all_gradients_);
    add_term(after_backward, batch_term(graph_));
    if (training_.clip_gradients) {
      Alive alive = after_backward;
      add_term(alive, clip_term(graph_.parameters));
      terms_.instant("gradient clipping", "gradient clipping", std::move(alive));
    }
    if (makes_states_in_step(training_)) {
      add_terms(after_backward, state_terms(job_, graph_.parameters));
    }
    add_terms(after_backward, step_terms(job_, graph_.parameters));
    terms_.instant("optimizer step", "optimizer step", std::move(after_backward));
  }

  void write_textbook_instant() {
    Alive alive = always_;
    alive.push_back(all_gradients_);
    Site end;
    end.before.assign(graph_.blocks.size(), 0);
    for (const BlockRun& run : graph_.order) end.before[run.block] += run.repeat;
    end.layers_before = layers_;
    end.block = graph_.order.back().block;
    add_kept(alive, end, false);
    terms_.instant("states and activations together", "states and activations together",
                   std::move(alive));
  }

  const Graph& graph_;
  const Job& job_;
  const TrainingSpec& training_;
  bool is_megatron_;
  std::int64_t layers_;
  std::int64_t checkpoint_;
  LedgerTerms terms_;
  Alive always_;
  std::uint16_t all_gradients_ = 0;
  bool persistent_gradients_ = false;
  std::vector<Expr> gradient_elements_;  // of each block, tied weights included
  Expr root_elements_;                   // of the blocks that are no layers
  Expr shared_tables_;
  Expr layer_input_;
  std::vector<PassedOn> passed_on_;
  std::map<std::pair<std::size_t, BlockPass>, BlockMoments> moments_;
};

}  // namespace

Ledger write_ledger(const Graph& graph, const Job& job) {
  if (job.inference) return write_inference_ledger(graph, job);
  expect(job.training.has_value(), "a ledger is written for a job that trains or infers");
  return LedgerWriter(graph, job).write();
}

}  // namespace memest
