// The ledger of a step: who is alive at which moment. The rules of life are moments.cpp's; here
// they meet the states, the recompute policy and the ranks.
#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/framework.hpp"
#include "memory/engine/sites.hpp"
#include "memory/ledger/deepspeed_terms.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/ledger/inference_ledger.hpp"
#include "memory/ledger/kept_blocks.hpp"
#include "memory/ledger/ledger_gradients.hpp"
#include "memory/ledger/ledger_passes.hpp"
#include "memory/ledger/ledger_stages.hpp"
#include "memory/ledger/ledger_terms.hpp"
#include "memory/ledger/ledger_units.hpp"
#include "memory/moments/moments.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

using Alive = std::vector<std::uint16_t>;

constexpr const char* kLiveSource =
    "PyTorch 2.11: locals, gradients under way and scratch of the operation";

class LedgerWriter {
 public:
  LedgerWriter(const Graph& graph, const Job& job, const LedgerOptions& options)
      : graph_(graph),
        job_(job),
        training_(*job.training),
        layers_(graph.layers(graph.stage_runs().front())),
        layer_count_(graph, layers_),
        plan_(checkpoint_plan_of(training_, layers_)),
        checkpoint_(plan_.length),
        passes_(graph, job, plan_),
        of_blocks_(graph, plan_.parts, options.moments),
        terms_(graph, job, options.pipeline_rank),
        kept_(graph, passes_, layer_count_, terms_),
        units_(graph, job),
        gradients_(of_blocks_, job, units_, layer_count_),
        shared_tables_(shared_bytes(graph)),
        kept_in_forward_(earlier_arguments_term(graph, job, false)),
        kept_in_backward_(earlier_arguments_term(graph, job, true)),
        passed_on_(passed_on(graph)),
        stages_(units_, job, options.pipeline_rank, passes_.kept_of_stages(layer_count_)) {}

  Ledger write(LedgerScope scope) && {
    write_residents();
    if (row_of(training_.implementation.framework).is_formula) {
      write_textbook_instant();
    } else {
      const auto stages = graph_.stage_runs();
      for (std::size_t i = 0; i < stages.size(); ++i) {
        for (const LedgerStages::Life& life : stages_.lives(i)) {
          life_ = &life;
          const bool second_part = life.part == BackwardPart::weights;
          second_part ? write_second_part(stages[i], i) : write_stage(stages[i], i);
        }
      }
      write_steps();
    }
    OutsideTerms outside = outside_terms(job_);
    for (LedgerTerm& term : outside.terms) terms_.outside(std::move(term));
    Ledger ledger = std::move(terms_).take(scope);
    ledger.outside_low = outside.low;
    ledger.outside_high = outside.high;
    ledger.margin = margin_of(job_.margins().closed_form, training_.recompute);
    return ledger;
  }

 private:
  void write_stage(std::span<const BlockRun> stage, std::size_t index) {
    for (Site& site : sites_of(graph_, stage, {plan_, units_.exist()})) {
      site.stage = index;
      if (life_->forward) write_forward(site);
      // accelerate's no_sync: a backward that holds gradients and the one that reduces them are two
      // turns.
      if (life_->backward) units_.each_micro_step([&] { write_backward(site); });
    }
  }

  /// Writes the second part of a backward in two parts.
  void write_second_part(std::span<const BlockRun> stage, std::size_t index) {
    LedgerTerm term = stages_.second_part(index);
    Site site = sites_of(graph_, stage, {plan_, units_.exist()}).back();
    site.stage = index;
    Alive alive = residents();
    add_terms(alive, units_.in_backward(site));
    add_term(alive, {"activations: other micro-steps in flight", TermGroup::activations,
                     life_->others, kSavedSource, ""});
    add_term(alive, std::move(term));
    terms_.instant("backward: the weights' part", "backward: the weights' part", std::move(alive));
  }

  void write_residents() {
    add_terms(always_, weight_terms(job_, graph_.parameters));
    add_terms(always_, master_terms(job_, graph_.parameters));
    if (!makes_states_in_step(training_)) add_terms(always_, state_terms(job_, graph_.parameters));
    add_terms(always_, buffer_terms(graph_.parameters));
    add_terms(always_, average_terms(job_, graph_.parameters));
    add_terms(always_, workspace_terms(graph_, job_));
    add_terms(always_, resident_bucket_terms(job_, graph_.parameters));
    add_terms(always_, earlier_batch_terms(graph_, job_));
    if (training_.hold_outputs) add_term(always_, held_logits_term(graph_));
    add_terms(always_, process_terms(graph_));
    add_terms(always_, gradients_.residents());
    add_terms(always_, stages_.residents());
    add_terms(all_gradients_, gradients_.all());
  }

  [[nodiscard]] Alive residents() {
    Alive alive = always_;
    const bool partly = !life_->missing_sums.is_zero();
    for (LedgerTerm& term : gradients_.kept(life_->missing_sums)) {
      // All that is summed is missing while a stage's first backward is yet to come.
      const bool none = partly && terms_.bound(term.formula).evaluate(Sizes{}) == 0;
      if (!none) add_term(alive, std::move(term));
    }
    return alive;
  }

  void add_term(Alive& alive, LedgerTerm term) {
    if (!term.formula.is_zero()) alive.push_back(terms_.add(std::move(term)));
  }
  void add_terms(Alive& alive, std::vector<LedgerTerm> terms) {
    for (LedgerTerm& term : terms) add_term(alive, std::move(term));
  }

  /// The pass of the site's block: behind its backward its checkpoint's input is gone.
  enum class Run : std::uint8_t { forward, backward, behind };

  /// Adds what the blocks before the site keep, and what the site's checkpoint has recomputed.
  void add_kept(Alive& alive, const Site& site, Run run) {
    const bool second = run != Run::forward;
    Expr casts;
    const std::vector<std::int64_t> recomputed = passes_.recomputed_before(site);
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      const Block& block = graph_.blocks[i];
      if (site.before[i] == 0) continue;
      const std::int64_t dropped = recomputed[i];
      const std::int64_t whole = site.before[i] - dropped;
      // A checkpoint's copies stay in autocast's cache until the forward pass has ended.
      casts += kept_.casts(i, second ? whole : site.before[i]);
      if (plan_.selects && dropped > 0) {
        add_term(alive,
                 {"activations: kept by the list of operators", TermGroup::activations,
                  layer_count_.times(dropped) * block.selectively_kept_bytes(),
                  "torch/utils/checkpoint.py: what a selective checkpoint's policy names", ""});
      }
      kept_.add_to(alive, i, whole);
    }
    add_term(alive, {"activations: other micro-steps in flight", TermGroup::activations,
                     stages_.in_flight(*life_, site, second),
                     "a pipeline's schedule: their forwards have run, their backwards not", ""});
    if (second) add_between_stages(alive, site);
    add_term(alive,
             {"weights cast by autocast", TermGroup::weights, casts,
              "torch.autocast: a copy of every matmul weight in the compute type, from forward "
              "to backward",
              ""});
    if (!stages_.hold_batch() && !batch_is_kept(graph_) && checkpoint_ == 0) {
      add_term(alive, batch_term(graph_));
    }
    // Checkpoints keep it with their arguments.
    const bool kept = !std::holds_alternative<NoRecompute>(training_.recompute);
    if (!second || kept) add_term(alive, loaded_mask_term(job_));
    add_term(alive, {"activations: tables shared by all layers", TermGroup::activations,
                     shared_tables_, kSavedSource, ""});
    add_passed_on(alive, site, second);
    add_term(alive, second ? kept_in_backward_ : kept_in_forward_);
    if (!second || training_.hold_outputs) add_term(alive, answered_term(graph_, site.before));
    if (checkpoint_ == 0) return;
    const bool inside = graph_.blocks[site.block].checkpointable;
    const std::int64_t reached = site.layers_before + (inside && run != Run::behind ? 1 : 0);
    add_term(alive,
             {"activations: checkpointed inputs", TermGroup::activations,
              passes_.checkpoint_inputs(layer_count_, graph_.stage_runs()[site.stage], reached) +
                  passes_.inputs_moved(site),
              "torch.utils.checkpoint: one input a checkpoint", ""});
    if (run != Run::backward || !inside) return;
    const std::int64_t beside = site.layers_before % checkpoint_;
    add_term(alive,
             {"activations: layers recomputed before this one", TermGroup::activations,
              beside * graph_.blocks[site.block].saved_bytes(false),
              "torch.utils.checkpoint: a checkpoint of several layers comes back whole", ""});
  }

  /// Where more of the running micro-batch lies in buffers than stands between the stages, its
  /// activations count it already.
  void add_between_stages(Alive& alive, const Site& site) {
    const Expr between = stages_.passing(site);
    if (between.evaluate(graph_.sizes) >= 0) {
      return add_term(alive, {"tensors between stages", TermGroup::activations, between,
                              "the schedule's function: what it has names for", ""});
    }
    LedgerTerm buffers = stages_.residents().front();
    const std::uint16_t all = terms_.add(buffers);
    buffers.formula += between;
    std::replace(alive.begin(), alive.end(), all, terms_.add(std::move(buffers)));
  }

  /// Adds what the model's forward holds beside autograd; backward, what checkpoints hold.
  void add_passed_on(Alive& alive, const Site& site, bool second) {
    Expr bytes;
    for (const PassedOn& tensor : passed_on_) {
      const bool checkpoints = checkpoint_ > 0;
      const bool held = second ? checkpoints && tensor.is_held_by_checkpoints(site)
                               : tensor.is_held_forward(site, checkpoints);
      if (held) bytes += tensor.bytes;
    }
    add_term(alive, {"activations: masks and embeddings that the model holds",
                     TermGroup::activations, bytes, kLiveSource, ""});
  }

  /// The moments of a block that can be a peak: at one site nothing else differs between them.
  const BlockMoments& moments(const Site& site, bool second) {
    const BlockPass pass = passes_.of(site, second);
    const auto [entry, is_new] = moments_.try_emplace({site.block, pass, units_.is_holding()});
    if (!is_new) return entry->second;
    const BlockMoments& all = of_blocks_.of(site.block, pass);
    entry->second = all;
    entry->second.forward = gradients_.possible_peaks(site.block, all.forward, terms_);
    entry->second.backward = gradients_.possible_peaks(site.block, all.backward, terms_);
    return entry->second;
  }

  void add_moment(Alive& alive, const Moment& moment, const Site& site, const char* pass) {
    const Block& block = graph_.blocks[site.block];
    add_term(alive, {"activations: " + block.name + " at work", TermGroup::activations,
                     moment.saved, kSavedSource, ""});
    add_term(alive, {std::string(moment.op) + ", " + pass, TermGroup::activations, moment.live,
                     kLiveSource, ""});
  }

  void write_forward(const Site& site) {
    Alive base = residents();
    add_kept(base, site, Run::forward);
    const BlockMoments& first = moments(site, false);
    if (units_.exist()) write_hooks(site, units_.before_forward(site), first.begin, base);
    add_terms(base,
              units_.exist() ? units_.in_forward(site) : gradients_.stages().gathered(site, false));
    for (const Moment& moment : first.forward) {
      Alive alive = base;
      add_terms(alive, units_.of_experts(site, moment.at, LedgerUnits::Pass::forward));
      add_moment(alive, moment, site, "forward");
      write_instant("forward", site, moment, std::move(alive));
    }
  }

  /// Writes what FSDP2 does around a block, while `moment` is alive of it.
  void write_hooks(const Site& site, const std::vector<LedgerUnits::Hook>& hooks, Moment moment,
                   const Alive& base) {
    for (const LedgerUnits::Hook& hook : hooks) {
      Alive alive = base;
      moment.op = hook.name;
      add_moment(alive, moment, site, "around it");
      add_terms(alive, hook.terms);
      write_instant("units", site, moment, std::move(alive));
    }
  }

  void write_backward(const Site& site) {
    Alive base = units_.holds() ? always_ : residents();
    add_kept(base, site, Run::backward);
    const BlockMoments& second = moments(site, true);
    write_unit_hooks(site, second, base);
    add_terms(base,
              units_.exist() ? units_.in_backward(site) : gradients_.stages().gathered(site, true));
    const Expr later = gradients_.later(site);
    if (passes_.recomputes(site)) {
      for (const Moment& moment : second.forward) {
        Alive alive = base;
        add_terms(alive, units_.of_experts(site, moment.at, LedgerUnits::Pass::again));
        add_terms(alive, gradients_.at(site, moment, later));
        add_term(alive, {"gradients that came to the layer", TermGroup::activations,
                         second.gradients_when_run_again, kLiveSource, ""});
        add_moment(alive, moment, site, "forward");
        write_instant("recompute", site, moment, std::move(alive));
      }
    }
    for (const Moment& moment : second.backward) {
      Alive alive = base;
      add_term(alive, stages_.adopted(*life_, site, moment));
      add_terms(alive, units_.of_experts(site, moment.at, LedgerUnits::Pass::backward));
      add_terms(alive, gradients_.at(site, moment, later));
      add_moment(alive, moment, site, "backward");
      write_instant("backward", site, moment, std::move(alive));
    }
  }

  void write_unit_hooks(const Site& site, const BlockMoments& moments, const Alive& base) {
    if (!units_.exist()) return;
    Alive before = base;
    add_terms(before, gradients_.at(site, moments.before_backward, gradients_.later(site)));
    write_hooks(site, units_.before_backward(site), moments.before_backward, before);
    Alive inside = base;
    add_terms(inside, gradients_.at(site, moments.behind_experts, gradients_.later(site)));
    write_hooks(site, units_.experts_reduced(site), moments.behind_experts, inside);
    // The whole gradients of what is reduced are the hooks' own.
    Alive after = units_.holds() ? always_ : residents();
    add_kept(after, site, Run::behind);
    Moment end = moments.end;
    end.gradient_elements = {};
    add_terms(after, gradients_.before_the_end(site, end));
    write_hooks(site, units_.after_backward(site), end, after);
  }

  void write_instant(const std::string& pass, const Site& site, const Moment& moment, Alive alive) {
    terms_.instant(pass + ": " + site.name + ", " + std::string(moment.op),
                   pass + ": " + graph_.blocks[site.block].name, std::move(alive));
  }

  void write_steps() {
    for (DeepSpeedTerms::Instant& instant : gradients_.steps()) {
      Alive alive = instant.beside_residents ? always_ : Alive{};
      add_terms(alive, std::move(instant.terms));
      terms_.instant(instant.name, instant.name, std::move(alive));
    }
    if (gradients_.stages().exist() || job_.parallelism.offload.optimizer) return;
    for (LedgerUnits::Hook& hook : units_.reductions(stages_.sums_beside())) {
      Alive alive = always_;
      add_terms(alive, std::move(hook.terms));
      terms_.instant(hook.name, "reductions", std::move(alive));
    }
    Alive after_backward = always_;
    after_backward.insert(after_backward.end(), all_gradients_.begin(), all_gradients_.end());
    if (!stages_.hold_batch()) add_term(after_backward, batch_term(graph_));
    if (training_.clip_gradients) {
      Alive alive = after_backward;
      add_term(alive, clip_term(graph_.parameters));
      terms_.instant("gradient clipping", "gradient clipping", std::move(alive));
    }
    if (makes_states_in_step(training_)) {
      add_terms(after_backward, state_terms(job_, graph_.parameters));
    }
    add_terms(after_backward, step_terms(job_, graph_.parameters));
    add_term(after_backward, gradients_.relaid());
    terms_.instant("optimizer step", "optimizer step", std::move(after_backward));
  }

  void write_textbook_instant() {
    Alive alive = always_;
    alive.insert(alive.end(), all_gradients_.begin(), all_gradients_.end());
    Site end;
    end.before.assign(graph_.blocks.size(), 0);
    for (const BlockRun& run : graph_.order) end.before[run.block] += run.repeat;
    end.layers_before = layers_;
    end.block = graph_.order.back().block;
    add_kept(alive, end, Run::forward);
    terms_.instant("states and activations together", "states and activations together",
                   std::move(alive));
  }

  const Graph& graph_;
  const Job& job_;
  const TrainingSpec& training_;
  std::int64_t layers_;
  LayerCount layer_count_;
  CheckpointPlan plan_;
  std::int64_t checkpoint_;  // its length
  LedgerPasses passes_;
  LedgerMoments of_blocks_;
  LedgerTerms terms_;
  KeptBlocks kept_;
  LedgerUnits units_;
  LedgerGradients gradients_;
  Alive always_;
  Alive all_gradients_;
  Expr shared_tables_;
  LedgerTerm kept_in_forward_;  // of the steps before
  LedgerTerm kept_in_backward_;
  std::vector<PassedOn> passed_on_;
  LedgerStages stages_;
  const LedgerStages::Life* life_ = &stages_.lives(0).front();
  /// By block, how it is run, and whether its gradients only add to sums.
  std::map<std::tuple<std::size_t, BlockPass, bool>, BlockMoments> moments_;
};

}  // namespace

Ledger write_ledger(const Graph& graph, const Job& job, const LedgerOptions& options) {
  if (job.inference) return write_inference_ledger(graph, job);
  expect(job.training.has_value(), "a ledger is written for a job that trains or infers");
  return LedgerWriter(graph, job, options).write(options.scope);
}

}  // namespace memest
