#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/ledger/ledger_units.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/states/expert_shares.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

constexpr const char* kFlatSource = "torch.distributed.fsdp.FullyShardedDataParallel, PyTorch 2.11";
constexpr const char* kFullyShardHooks = "torch.distributed.fsdp.fully_shard, PyTorch 2.11";
constexpr const char* kWholeGradients = "whole gradients of the unit";

}  // namespace

/// Weights that lie on the GPU whole, as FSDP finds them or on their way.
LedgerTerm LedgerUnits::whole_term(const Expr& elements) const {
  return {"weights before they are shards", TermGroup::weights,
          size_of(job_.training->recipe.weights) * elements, flat_ ? kFlatSource : kFullyShardHooks,
          ""};
}

/// Shards cut from `elements`; FSDP1 first flattens the unit's `elements` into one tensor.
LedgerTerm LedgerUnits::made_term(const Expr& elements) const {
  const std::int64_t bytes = size_of(job_.training->recipe.weights);
  const Expr share = unit_share(job_, elements);
  // FSDPParam._init_sharded_param chunks a parameter and copies its own chunk; FSDP1's
  // FlatParamHandle concatenates first (flatten_tensors_into_flat_param) and cuts then.
  if (!flat_)
    return {"shares that are cut", TermGroup::weights, bytes * share, kFullyShardHooks, ""};
  return {"flat weights of the unit and their shard", TermGroup::weights,
          bytes * (elements + share), kFlatSource, ""};
}

/// The layers come first; then the others, most of which accelerate holds by name until all are
/// cut. Weights that it loads it loads tensor by tensor: none exceeds those of the last unit.
std::vector<LedgerUnits::Hook> LedgerUnits::sharding() const {
  if (units_of(sharding_of(job_)) == nullptr) return {};
  const ShardInit init = shard_init(job_);
  const bool loads = row_of(job_.training->implementation.loop).accelerate;
  if (!flat_ && init == ShardInit::meta && !loads) return {};
  const Expr all = Symbol::parameters;
  const Expr outside = (ends_.input + ends_.tail + ends_.root).all;
  std::vector<Hook> hooks;
  if (init == ShardInit::device) {
    hooks.push_back({"shards of the first unit, before the first step",
                     {whole_term(all), made_term(first_layer().all)}});
  }
  const auto behind = [&](const Expr& sharded) {
    const Expr made = job_.parallelism.offload.parameters ? Expr() : unit_share(job_, sharded);
    return LedgerTerm{"shards of the units before", TermGroup::weights,
                      size_of(job_.training->recipe.weights) * made,
                      flat_ ? kFlatSource : kFullyShardHooks, ""};
  };
  const bool by_tensor = !flat_ && init == ShardInit::meta;
  if (!by_tensor) {
    const Expr last = last_layer().all;
    hooks.push_back({"shards of the last layer, before the first step",
                     {behind(all - outside - last), whole_term(last), made_term(last)}});
  }
  const Expr whole = by_tensor ? ends_.tail.all : outside;
  hooks.push_back({"shards of the last unit, before the first step",
                   {behind(all - outside), whole_term(whole), made_term(outside)}});
  return hooks;
}

std::vector<LedgerUnits::Hook> LedgerUnits::after_backward(const Site& site) const {
  if (sums_ || micro_step_ == MicroStep::holding) return {};
  const Part part = part_of(site);
  const GatheredElements earlier =
      reshard_ == Reshard::never ? all_before(site) : GatheredElements();
  // FSDPState._root_post_backward_final_callback reduces what waited: a unit whose input needs no
  // gradient has no post-backward hook (_register_post_backward_hook).
  if (part == Part::input) return at_end();
  if (part == Part::loss || own(site).is_zero()) return {};
  if (flat_) return reduced_flat(own(site).all, spanning() + earlier + prefetched(site));
  std::vector<Hook> hooks =
      reduced("reduce-scatter", reduced_layer(own(site).all), part == Part::tail ? head_ : Expr(),
              {gathered_term(spanning() + earlier), output_term(prefetched(site))});
  if (holds_) take_sums(hooks, (all_before(site) + spanning()).all, own(site).all);
  return hooks;
}

/// Reduces sums: those of `own` beside those of `left`; the first hook copies them, in the second
/// they are gone.
void LedgerUnits::take_sums(std::vector<Hook>& hooks, const Expr& left, const Expr& own) const {
  for (std::size_t i = 0; i < hooks.size(); ++i) {
    std::erase_if(hooks[i].terms,
                  [](const LedgerTerm& term) { return term.name == kWholeGradients; });
    for (LedgerTerm& term : sums_left(i == 0 ? left + own : left)) {
      hooks[i].terms.push_back(std::move(term));
    }
  }
}

/// Reduces the root first. Weights gathered for the others stay until they are reduced.
std::vector<LedgerUnits::Hook> LedgerUnits::at_end() const {
  const GatheredElements rest = tied_ ? ends_.tail : ends_.input;
  if (flat_) return reduced_flat(ends_.root.all, {});
  std::vector<Hook> hooks;
  const Expr root = adapts_ ? trained_root_ : ends_.root.all;
  if (!root.is_zero()) {
    hooks = reduced("reduce-scatter of the root", root, {},
                    {gathered_term(rest), gradients_term(rest.all)});
    if (holds_) take_sums(hooks, rest.all, ends_.root.all);
  }
  if (rest.is_zero()) return hooks;
  if (!(table_gradient_ - table_).is_zero()) {
    hooks.push_back({"cut of the table's gradient",
                     {gathered_term(rest), gradients_term(table_gradient_ + table_),
                      input_term(first_layer().all)}});
  }
  std::vector<Hook> last = reduced("reduce-scatter at the end", rest.all, rest.all, {});
  if (holds_) take_sums(last, {}, rest.all);
  for (Hook& hook : last) {
    hooks.push_back(std::move(hook));
  }
  return hooks;
}

/// `last`: the unit's last gradient, which the caller holds to the end.
std::vector<LedgerUnits::Hook> LedgerUnits::reduced(const std::string& name, const Expr& elements,
                                                    const Expr& last,
                                                    std::vector<LedgerTerm> beside) const {
  // foreach_reduce: foreach_reduce_scatter_copy_in copies all gradients of the unit into one input,
  // `unsharded_grads.clear()` frees them, and then reduce_output is made.
  beside.push_back(input_term(elements));
  std::vector<LedgerTerm> copied = beside;
  copied.push_back(gradients_term(elements));
  std::vector<LedgerTerm> shares = std::move(beside);
  shares.push_back(gradients_term(last));
  shares.push_back(shares_term(elements));
  return {{name + ", input", std::move(copied)}, {name + ", shares", std::move(shares)}};
}

LedgerTerm LedgerUnits::shares_term(const Expr& elements) const {
  // _to_dtype_if_needed: reduced in bf16 and kept in fp32, a shard is there as 2 and as 4 bytes.
  const std::int64_t copies = reduced_ + (reduced_ == share_ ? 0 : share_);
  return {"reduced shares of the gradients", TermGroup::gradients,
          copies * unit_share(job_, elements), kFullyShardHooks, ""};
}

/// `ahead`: of other units, gathered meanwhile.
std::vector<LedgerUnits::Hook> LedgerUnits::reduced_flat(const Expr& elements,
                                                         const GatheredElements& ahead) const {
  const LedgerTerm flat{"flat gradient of the unit", TermGroup::gradients, gathered_ * elements,
                        kFlatSource, ""};
  // _runtime_utils._post_backward_hook: the unit's weights are resharded before its flat gradient,
  // cast to the reduced type where that differs, is reduce-scattered.
  std::vector<LedgerTerm> sent{gathered_term(ahead), flat, shares_term(elements)};
  if (reduced_ != gathered_) sent.push_back(input_term(elements));
  return {{"gradients put together",
           {gathered_term(ahead + GatheredElements{elements}), gradients_term(elements), flat}},
          {"reduce-scatter", std::move(sent)}};
}

/// The last of a rank's stages is reduced first.
std::vector<LedgerUnits::Hook> LedgerUnits::reductions(const SumsBeside& beside) const {
  std::vector<Hook> hooks;
  if (!sums_) return hooks;
  const std::vector<std::span<const BlockRun>> stages = graph_.stage_runs();
  const Expr rest_of_table = sums(table_gradient_ - table_);
  std::vector<Expr> stage_sums;
  for (const std::span<const BlockRun>& stage : stages) {
    Expr bytes = stage_sums.empty() ? rest_of_table : Expr();
    for (const BlockRun& run : stage)
      bytes += sums(run.repeat * graph_.blocks[run.block].parameters());
    stage_sums.push_back(std::move(bytes));
  }
  Expr weights;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Expr left_sums;
    // perform_reduce_grad: a stage's units wait with unsharded gradients until its last backward.
    for (std::size_t other = 0; other < stages.size(); ++other) {
      if (other == stage || beside(stage, other)) left_sums += stage_sums[other];
    }
    for (const BlockRun& run : stages[stage])
      weights += run.repeat * graph_.blocks[run.block].parameters();
    const LedgerTerm left{all_sums().name, TermGroup::gradients, left_sums, kFullyShardHooks, ""};
    for (const BlockRun& run : stages[stage]) {
      const Expr own = graph_.blocks[run.block].parameters();
      if (own.is_zero()) continue;
      hooks.push_back({"reduce-scatter of the sums, " + graph_.blocks[run.block].name,
                       {gathered_term({weights - own}), left, input_term(own)}});
    }
    if (stage > 0 || rest_of_table.is_zero()) continue;
    hooks.push_back(
        {"cut of the table's gradient", {gathered_term({weights}), left, input_term(table_)}});
  }
  return hooks;
}

LedgerTerm LedgerUnits::gradients_term(const Expr& elements) const {
  return {kWholeGradients, TermGroup::gradients, gathered_ * elements, kFullyShardHooks, ""};
}

// The experts' units inside the layers' (torchtitan 0.2.2, apply_fsdp): the rules are those of
// timeline/sharded_units.hpp for units of a module.

std::optional<std::size_t> LedgerUnits::block_at(std::int64_t index) const {
  for (const BlockRun& run : graph_.order) {
    if (!graph_.blocks[run.block].checkpointable) continue;
    if (index < run.repeat) return run.block;
    index -= run.repeat;
  }
  return std::nullopt;
}

Expr LedgerUnits::expert_elements(std::size_t block) const {
  return experts_.empty() ? Expr() : experts_[block].elements;
}

LedgerUnits::Stretch LedgerUnits::stretch_of(std::size_t block, std::size_t at) const {
  if (experts_.empty() || at < experts_[block].begin) return Stretch::before;
  if (at >= experts_[block].end) return Stretch::behind;
  return at + 1 == experts_[block].end ? Stretch::at_last : Stretch::inside;
}

/// A rank that holds them whole gathers nothing.
GatheredElements LedgerUnits::gathered_experts(std::int64_t index) const {
  const auto block = block_at(index);
  if (!block || job_.parallelism.expert_shard_ranks() == 1) return {};
  return {.all = expert_elements(*block)};
}

/// Outputs of what is gathered ahead in the forward: the next layer's and its experts', or the
/// tail's.
GatheredElements LedgerUnits::gathered_ahead(const Site& site) const {
  switch (part_of(site)) {
    case Part::input:
      return first_layer();
    case Part::layer:
      if (site.layers_before + 1 == graph_.layers()) return ends_.tail;
      return layer_at(site.layers_before + 1) + gathered_experts(site.layers_before + 1);
    case Part::tail:
    case Part::loss:
      return {};
  }
  unreachable("every part of a model has a next one or none");
}

/// The output of a layer's experts when its backward begins: none gathers the last layer's ahead.
GatheredElements LedgerUnits::own_experts(const Site& site) const {
  const bool last = site.layers_before + 1 == graph_.layers();
  const bool is_layer = part_of(site) == Part::layer;
  if (experts_.empty() || !is_layer || last || reshard_ == Reshard::never) return {};
  return gathered_experts(site.layers_before);
}

/// The output that is there when the site's unit is copied out in the forward.
GatheredElements LedgerUnits::left_output(const Site& site) const {
  const bool behind_layer =
      part_of(site) == Part::tail || (part_of(site) == Part::layer && site.layers_before > 0);
  if (experts_.empty() || !behind_layer) return before(site);
  return gathered_experts(site.layers_before - 1);
}

std::vector<LedgerTerm> LedgerUnits::of_experts(const Site& site, std::size_t at, Pass pass) const {
  if (experts_.empty() || part_of(site) != Part::layer) return {};
  const Stretch stretch = stretch_of(site.block, at);
  const bool before = stretch == Stretch::before;
  const bool behind = stretch == Stretch::behind;
  const GatheredElements whole{.all = expert_elements(site.block)};
  const GatheredElements output = gathered_experts(site.layers_before);
  const GatheredElements none;
  const bool stay = reshard_ == Reshard::never;
  if (pass == Pass::forward) {
    if (before) return {output_term(own(site))};
    return {gathered_term(!behind || stay ? whole : none), output_term(output)};
  }
  const LedgerTerm input = input_term(kept_input(site));
  if (pass == Pass::again) {
    if (before) return {gathered_term(stay ? whole : none), output_term(own_experts(site)), input};
    return {gathered_term(whole), output_term(behind ? none : output), input};
  }
  if (before) return {input_term(whole.all)};
  const bool there = stay || !std::holds_alternative<NoRecompute>(job_.recompute());
  if (there || stretch == Stretch::inside) return {gathered_term(whole), input};
  if (behind) return {output_term(own_experts(site)), input};
  // They are copied out as the last of the operations begins its backward.
  return {gathered_term(cuts_columns() ? whole + whole : whole), output_term(output), input};
}

/// foreach_all_gather_copy_out puts columns together from a second copy of them.
bool LedgerUnits::cuts_columns() const {
  return job_.parallelism.cuts_columns(job_.model.experts()->experts);
}

std::vector<LedgerUnits::Hook> LedgerUnits::experts_reduced(const Site& site) const {
  if (experts_.empty() || part_of(site) != Part::layer) return {};
  const ExpertOps& experts = experts_[site.block];
  const bool alone = job_.parallelism.expert_shard_ranks() == 1;
  std::vector<LedgerTerm> beside = {gathered_term(weights(site)), output_term(prefetched(site)),
                                    input_term(experts.elements)};
  std::vector<LedgerTerm> copied = beside;
  // foreach_reduce names the last gradient to its end, and columns are written rank by rank.
  const Expr last = alone ? Expr() : experts.last;
  copied.push_back(gradients_term(cuts_columns() ? experts.elements + last : experts.elements));
  beside.push_back(gradients_term(last));
  LedgerTerm shares = shares_term({});
  // One rank divides what it has put together by a number, in a tensor of its own.
  shares.formula = Expr((alone ? 2 : 1) * reduced_ + (reduced_ == share_ ? 0 : share_)) *
                   unit_share_of_experts(job_, experts.elements);
  beside.push_back(std::move(shares));
  return {{"reduce-scatter of the experts, input", std::move(copied)},
          {"reduce-scatter of the experts, shares", std::move(beside)}};
}

}  // namespace memest
