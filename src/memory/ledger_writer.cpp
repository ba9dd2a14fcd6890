// The ledger of a step: who is alive at which moment. The rules of life are moments.cpp's; here
// they meet the states, the recompute policy and the ranks.
#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "deepspeed_terms.hpp"
#include "graph_terms.hpp"
#include "inference_ledger.hpp"
#include "ledger_gradients.hpp"
#include "ledger_terms.hpp"
#include "ledger_units.hpp"
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
  LedgerWriter(const Graph& graph, const Job& job, const LedgerOptions& options)
      : graph_(graph),
        job_(job),
        training_(*job.training),
        is_megatron_(training_.implementation.framework == Framework::megatron),
        layers_(layers_of(graph, stages_of(graph).front())),
        layer_count_(graph, layers_),
        plan_(checkpoint_plan_of(training_, layers_)),
        checkpoint_(plan_.length),
        of_blocks_(graph, options.moments),
        terms_(graph, job, options.pipeline_rank),
        units_(graph, job),
        gradients_(of_blocks_, job, units_, layer_count_),
        shared_tables_(shared_bytes(graph)),
        layer_input_(layer_input_bytes(graph)),
        passed_on_(passed_on(graph)) {
    if (!graph.stages.empty()) write_in_flight(stages_of(graph).front());
  }

  Ledger write(LedgerScope scope) && {
    write_residents();
    if (training_.implementation.framework == Framework::textbook) {
      write_textbook_instant();
    } else {
      for (const auto stage : stages_of(graph_)) {
        for (const Site& site : sites_of(graph_, stage, {plan_, units_.exist()})) write_site(site);
      }
      write_steps();
    }
    OutsideTerms outside = outside_terms(job_);
    for (LedgerTerm& term : outside.terms) terms_.outside(std::move(term));
    Ledger ledger = std::move(terms_).take(scope);
    ledger.outside_low = outside.low;
    ledger.outside_high = outside.high;
    ledger.margin = margin_of(job_.margins.closed_form, training_.recompute);
    return ledger;
  }

 private:
  /// Whether the site's layer runs again.
  [[nodiscard]] bool runs_again(const Site& site) const {
    const bool layer = graph_.blocks[site.block].checkpointable;
    return layer && checkpoint_ > 0 && (site.layers_before + 1) % plan_.every == 0;
  }

  [[nodiscard]] BlockPass pass_of(const Site& site, bool second) const {
    const Block& block = graph_.blocks[site.block];
    if (!block.checkpointable) {
      return checkpoint_ > 0 ? BlockPass::keep_input_too : BlockPass::keep_all;
    }
    if (!runs_again(site)) return kept_whole();
    if (!second) return plan_.selects ? BlockPass::keep_selected : BlockPass::keep_nothing;
    if (plan_.selects) return BlockPass::recompute_selected;
    if (plan_.to_end) return BlockPass::recompute_whole;
    return is_megatron_ ? BlockPass::recompute_held : BlockPass::recompute;
  }

  /// The pass of a layer outside checkpoints.
  [[nodiscard]] BlockPass kept_whole() const {
    if (checkpoint_ == 0 && std::holds_alternative<SelectiveRecompute>(training_.recompute)) {
      return BlockPass::keep_core_out;
    }
    return BlockPass::keep_all;
  }

  /// What autograd keeps of a block between its forward and its backward, outside checkpoints.
  [[nodiscard]] Expr kept_of(const Block& block) const {
    return block.checkpointable && kept_whole() == BlockPass::keep_core_out
               ? block.saved_bytes_without_attention_core()
               : block.saved_bytes(false);
  }

  /// The other micro-steps in flight keep the whole stage, up to where the next stage goes on.
  void write_in_flight(std::span<const BlockRun> stage) {
    Expr kept;
    std::int64_t layers = 0;
    for (const BlockRun& run : stage) {
      const Block& block = graph_.blocks[run.block];
      if (!block.checkpointable && layers > 0) break;  // the head's backward comes at once
      if (block.checkpointable) layers += run.repeat;
      if (block.checkpointable && checkpoint_ > 0) continue;
      kept += layer_count_.times(run.repeat) * kept_of(block);
    }
    const std::int64_t inputs = checkpoint_ > 0 ? (layers + checkpoint_ - 1) / checkpoint_ : 0;
    kept += layer_count_.times(inputs) * layer_input_;
    const bool recomputes = !std::holds_alternative<NoRecompute>(training_.recompute);
    if (recomputes) kept += loaded_mask_term(job_).formula;
    in_flight_ = (Expr(Symbol::in_flight) - 1) * kept;
    passing_ = passing_bytes(graph_, layer_input_);
  }

  void write_residents() {
    add_terms(always_, weight_terms(job_, graph_.parameters));
    add_terms(always_, master_terms(job_, graph_.parameters));
    if (!makes_states_in_step(training_)) add_terms(always_, state_terms(job_, graph_.parameters));
    add_terms(always_, buffer_terms(graph_.parameters));
    add_terms(always_, workspace_terms(graph_, job_));
    add_terms(always_, resident_bucket_terms(job_));
    add_terms(always_, earlier_batch_terms(graph_, job_));
    if (training_.hold_outputs) add_term(always_, held_logits_term(graph_));
    add_terms(always_, process_terms(graph_));
    add_terms(always_, gradients_.zero().residents());
    for (LedgerTerm& term : gradients_.all()) add_term(all_gradients_, std::move(term));
  }

  [[nodiscard]] Alive residents() const {
    Alive alive = always_;
    if (gradients_.persist()) add_all_gradients(alive);
    return alive;
  }

  void add_all_gradients(Alive& alive) const {
    alive.insert(alive.end(), all_gradients_.begin(), all_gradients_.end());
  }

  void add_term(Alive& alive, LedgerTerm term) {
    if (!term.formula.is_zero()) alive.push_back(terms_.add(std::move(term)));
  }
  void add_terms(Alive& alive, std::vector<LedgerTerm> terms) {
    for (LedgerTerm& term : terms) add_term(alive, std::move(term));
  }

  /// Of the site's block: behind its backward its checkpoint's input is gone.
  enum class Run : std::uint8_t { forward, backward, behind };

  /// What the blocks before the site keep, and what the site's checkpoint has brought back.
  void add_kept(Alive& alive, const Site& site, Run run) {
    const bool second = run != Run::forward;
    Expr casts;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      const Block& block = graph_.blocks[i];
      if (site.before[i] == 0) continue;
      const std::int64_t dropped =
          block.checkpointable && checkpoint_ > 0 ? site.before[i] / plan_.every : 0;
      const std::int64_t whole = site.before[i] - dropped;
      // A checkpoint's copies stay in autocast's cache until the forward pass has ended.
      casts += layer_count_.times(second ? whole : site.before[i]) * block.saved_cast_bytes();
      if (plan_.selects && dropped > 0) {
        add_term(alive, {"activations: kept by the list of operators", TermGroup::activations,
                         layer_count_.times(dropped) * block.selectively_kept_bytes(),
                         "torchtitan 0.2.2, activation_checkpoint.py", ""});
      }
      if (whole == 0) continue;
      add_term(alive, {"activations: " + block.name, TermGroup::activations,
                       layer_count_.times(whole) * (kept_of(block) - block.saved_cast_bytes()),
                       kSavedSource, ""});
    }
    add_term(alive, {"activations: other micro-steps in flight", TermGroup::activations, in_flight_,
                     "a pipeline's schedule: their forwards have run, their backwards not", ""});
    add_term(alive, {"tensors between stages", TermGroup::activations, second ? passing_ : Expr(),
                     "Megatron-core 0.16.1, pipeline_parallel/schedules.py", ""});
    add_term(alive,
             {"weights cast by autocast", TermGroup::weights, casts,
              "torch.autocast: a copy of every matmul weight in the compute type, from forward "
              "to backward",
              ""});
    if (!batch_is_kept(graph_) && checkpoint_ == 0) add_term(alive, batch_term(graph_));
    // Checkpoints keep it with their arguments.
    const bool kept = !std::holds_alternative<NoRecompute>(training_.recompute);
    if (!second || kept) add_term(alive, loaded_mask_term(job_));
    add_term(alive, {"activations: tables shared by all layers", TermGroup::activations,
                     shared_tables_, kSavedSource, ""});
    add_passed_on(alive, site, second);
    if (!second || training_.hold_outputs) add_term(alive, answered_term(graph_, site.before));
    if (checkpoint_ == 0) return;
    const bool inside = graph_.blocks[site.block].checkpointable;
    const std::int64_t reached = site.layers_before + (inside && run != Run::behind ? 1 : 0);
    const std::int64_t checkpoints =
        plan_.every > 1 ? reached / plan_.every : (reached + checkpoint_ - 1) / checkpoint_;
    add_term(alive, {"activations: checkpointed inputs", TermGroup::activations,
                     layer_count_.times(checkpoints) * layer_input_,
                     "torch.utils.checkpoint: one input a checkpoint", ""});
    if (run != Run::backward || !inside) return;
    const std::int64_t again = site.layers_before % checkpoint_;
    add_term(alive,
             {"activations: layers recomputed before this one", TermGroup::activations,
              again * graph_.blocks[site.block].saved_bytes(false),
              "torch.utils.checkpoint: a checkpoint of several layers comes back whole", ""});
  }

  /// What the model's forward holds beside what autograd keeps; backward, what checkpoints do of
  /// it.
  void add_passed_on(Alive& alive, const Site& site, bool second) {
    Expr bytes;
    for (const PassedOn& tensor : passed_on_) {
      if (tensor.is_held(site.before, second, checkpoint_ > 0)) bytes += tensor.bytes;
    }
    add_term(alive, {"activations: masks and embeddings that the model holds",
                     TermGroup::activations, bytes, kLiveSource, ""});
  }

  /// The moments of a block that can be a peak: at one site nothing else differs between them.
  const BlockMoments& moments(const Site& site, bool second) {
    const BlockPass pass = pass_of(site, second);
    const auto [entry, is_new] = moments_.try_emplace({site.block, pass});
    if (!is_new) return entry->second;
    entry->second = of_blocks_.of(site.block, pass);
    keep_possible_peaks(site.block, entry->second.forward);
    keep_possible_peaks(site.block, entry->second.backward);
    return entry->second;
  }

  void keep_possible_peaks(std::size_t block, std::vector<Moment>& moments) const {
    std::vector<SizePolynomial> totals;
    std::vector<Moment> kept;
    for (const Moment& moment : moments) {
      totals.push_back(
          terms_.bound(moment.saved + moment.live + gradients_.of_moment(block, moment)));
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

  void write_site(const Site& site) {
    Alive base = residents();
    add_kept(base, site, Run::forward);
    const BlockMoments& first = moments(site, false);
    if (units_.exist()) {
      write_hooks(site, units_.before_forward(site), first.begin, base);
      add_terms(base, units_.in_forward(site));
    } else {
      add_terms(base, gradients_.zero().gathered(site, false));
    }
    for (const Moment& moment : first.forward) {
      Alive alive = base;
      add_moment(alive, moment, site, "forward");
      write_instant("forward", site, moment, std::move(alive));
    }
    write_backward(site);
  }

  /// What FSDP2 does around a block, while `moment` is alive of it.
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
    Alive base = residents();
    add_kept(base, site, Run::backward);
    const BlockMoments& second = moments(site, true);
    write_unit_hooks(site, second, base);
    add_terms(base,
              units_.exist() ? units_.in_backward(site) : gradients_.zero().gathered(site, true));
    if (runs_again(site)) {
      for (const Moment& moment : second.forward) {
        Alive alive = base;
        add_terms(alive, gradients_.at(site, moment));
        add_term(alive, {"gradients that came to the layer", TermGroup::activations,
                         second.gradients_when_run_again, kLiveSource, ""});
        add_moment(alive, moment, site, "forward");
        write_instant("recompute", site, moment, std::move(alive));
      }
    }
    for (const Moment& moment : second.backward) {
      Alive alive = base;
      add_terms(alive, gradients_.at(site, moment));
      add_moment(alive, moment, site, "backward");
      write_instant("backward", site, moment, std::move(alive));
    }
  }

  void write_unit_hooks(const Site& site, const BlockMoments& moments, const Alive& base) {
    if (!units_.exist()) return;
    Alive before = base;
    add_terms(before, gradients_.at(site, moments.turn));
    write_hooks(site, units_.before_backward(site), moments.turn, before);
    // The whole gradients of what is reduced are the hooks' own.
    Alive after = residents();
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
    if (gradients_.zero().exist() || job_.parallelism.offload.optimizer) return;
    Alive after_backward = always_;
    add_all_gradients(after_backward);
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
    add_term(after_backward, gradients_.relaid());
    terms_.instant("optimizer step", "optimizer step", std::move(after_backward));
  }

  void write_textbook_instant() {
    Alive alive = always_;
    add_all_gradients(alive);
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
  bool is_megatron_;
  std::int64_t layers_;
  LayerCount layer_count_;
  CheckpointPlan plan_;
  std::int64_t checkpoint_;  // its length
  LedgerMoments of_blocks_;
  LedgerTerms terms_;
  LedgerUnits units_;
  LedgerGradients gradients_;
  Alive always_;
  Alive all_gradients_;
  Expr shared_tables_;
  Expr layer_input_;
  Expr in_flight_;  // of a pipeline
  Expr passing_;    // the same
  std::vector<PassedOn> passed_on_;
  std::map<std::pair<std::size_t, BlockPass>, BlockMoments> moments_;
};

}  // namespace

Ledger write_ledger(const Graph& graph, const Job& job, const LedgerOptions& options) {
  if (job.inference) return write_inference_ledger(graph, job);
  expect(job.training.has_value(), "a ledger is written for a job that trains or infers");
  return LedgerWriter(graph, job, options).write(options.scope);
}

Ledger write_ledger(const Graph& graph, const Job& job, std::int64_t pipeline_rank) {
  return write_ledger(graph, job, LedgerOptions{.pipeline_rank = pipeline_rank});
}

}  // namespace memest
