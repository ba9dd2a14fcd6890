#include "memory/ledger/ledger_units.hpp"

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/sharding/unit_layout.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

constexpr const char* kFullyShard = "torch.distributed.fsdp.fully_shard, PyTorch 2.11";
constexpr const char* kCastHook = "cast of the shares";

/// The operation that looks token ids up; null where there is none.
const Op* look_up_of(const Block& block) {
  const auto op = std::find_if(block.ops.begin(), block.ops.end(), [](const Op& one) {
    return one.kind == OpKind::embedding && !one.gradients.empty();
  });
  return op == block.ops.end() ? nullptr : &*op;
}

std::string until_last_micro_step(const Job& job) {
  return std::string(row_of(job.training->implementation.loop).no_sync) +
         ": whole until a step's last micro-step";
}

/// A later block multiplies by the table again.
bool is_tied(const Graph& graph, const Tensor& table) {
  const auto same = [&table](const Tensor& tensor) {
    return tensor.role == Role::parameter && tensor.shared && tensor.name == table.name &&
           tensor.shape == table.shape;
  };
  return std::any_of(graph.blocks.begin() + 1, graph.blocks.end(), [&](const Block& block) {
    return std::any_of(block.tensors.begin(), block.tensors.end(), same);
  });
}

}  // namespace

LedgerUnits::LedgerUnits(const Graph& graph, const Job& job)
    : graph_(graph), job_(job), flat_(shards_by<FlatShards>(job)) {
  const Sharding sharding = sharding_of(job);
  const GatheredUnits* units = units_of(sharding);
  const auto* shares = std::get_if<SharesOfFormula>(&sharding);
  exist_ = units != nullptr || (shares != nullptr && shares->in_units);
  if (!exist_ || graph.order.empty()) return;
  const Recipe& recipe = job.training->recipe;
  const FsdpUnits layout = layout_of(job.training->implementation);
  ends_apart_ = layout.ends_apart;
  loss_in_model_ = layout.loss_in_model;
  if (units != nullptr) reshard_ = units->reshard;
  gathered_ = size_of(recipe.compute);
  reduced_ = size_of(recipe.reduced_gradients());
  share_ = size_of(recipe.gradients);
  // _get_param_all_gather_inputs: shards are cast into one flat tensor before all_gather_copy_in;
  // in one type, and on the device, they are copied straight from where they are.
  makes_sent_ = recipe.compute != recipe.weights || job.parallelism.offload.parameters;
  sums_ = job.parallelism.pipeline > 1;
  holds_ = reduces_last(job);
  makes_sums_ = job.training->gradient_accumulation == 2;
  if (sums_) {
    find_table();
    return;
  }
  adapts_ = job.model.adapter.has_value();
  for (const Block& block : graph.blocks) {
    if (!block.checkpointable) {
      ends_.root += gathered_elements(graph, block);
      trained_root_ += block.trained_parameters();
    } else {
      adapters_of_layer_ = block.trained_parameters();
    }
  }
  if (ends_apart_ && graph.order.size() > 1) take_ends_apart();
  if (!has_experts_apart(job)) return;
  for (const Block& block : graph.blocks) experts_.push_back(expert_ops_of(block));
}

void LedgerUnits::find_table() {
  const Block& first = graph_.blocks[graph_.order.front().block];
  const Op* look_up = look_up_of(first);
  if (look_up == nullptr) return;
  const InputGradient& gradient = look_up->gradients.front();
  table_ = first.tensors[gradient.input].elements();
  table_gradient_ = first.tensors[look_up->backward_tensors[gradient.tensor].like].elements();
}

void LedgerUnits::take_ends_apart() {
  find_table();
  if (table_.is_zero()) return;
  const Block& first = graph_.blocks[graph_.order.front().block];
  const Block& last = graph_.blocks[graph_.order[graph_.order.size() - 2].block];
  const InputGradient& gradient = look_up_of(first)->gradients.front();
  tied_ = is_tied(graph_, first.tensors[gradient.input]);
  ends_.tail = gathered_elements(graph_, last);
  for (const Tensor& tensor : last.tensors) {
    const bool own = tensor.role == Role::parameter && !tensor.shared;
    // The norm's weight has one dimension, the head's two.
    if (own && tensor.shape.size() > 1) head_ = tensor.elements();
  }
  (tied_ ? ends_.tail : ends_.input) += {.all = table_};
  ends_.root -= ends_.tail + ends_.input;
}

LedgerUnits::Part LedgerUnits::part_of(const Site& site) const {
  const Block& block = graph_.blocks[site.block];
  if (block.checkpointable) return Part::layer;
  if (site.block == graph_.order.front().block) return Part::input;
  const bool loss = graph_.trains && site.block == graph_.order.back().block;
  return loss ? Part::loss : Part::tail;
}

/// Without the experts that are a unit of their own.
GatheredElements LedgerUnits::layer(std::size_t block) const {
  GatheredElements elements = gathered_elements(graph_, graph_.blocks[block]);
  return elements -= {.all = expert_elements(block)};
}

/// Under a pipeline only token ids, through which no gradient comes, make a unit wait.
bool LedgerUnits::reduces_at_end(std::size_t block) const {
  if (graph_.blocks[block].checkpointable) return false;
  // _register_post_backward_hook needs a tensor that requires a gradient among the unit's
  // arguments.
  if (sums_) return look_up_of(graph_.blocks[block]) != nullptr;
  return tied_ || ends_.tail.is_zero() || block == graph_.order.front().block;
}

/// Elements of the units that end before the site.
GatheredElements LedgerUnits::all_before(const Site& site) const {
  GatheredElements elements = part_of(site) == Part::input ? GatheredElements() : ends_.input;
  for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
    if (!graph_.blocks[i].checkpointable) continue;
    elements += times(site.before[i], layer(i));
    elements += times(site.before[i], {.all = expert_elements(i)});
  }
  return part_of(site) == Part::loss && !tied_ ? elements + ends_.tail : elements;
}

/// Elements of the units that begin with the first block and end with the last.
GatheredElements LedgerUnits::spanning() const {
  return tied_ ? ends_.root + ends_.tail : ends_.root;
}

GatheredElements LedgerUnits::own(const Site& site) const {
  switch (part_of(site)) {
    case Part::input:
      return ends_.input;
    case Part::layer:
      return layer(site.block);
    case Part::tail:
      return tied_ ? GatheredElements() : ends_.tail;
    case Part::loss:
      return {};
  }
  unreachable("every part of a model has its unit");
}

/// The unit before the site's in the forward.
GatheredElements LedgerUnits::before(const Site& site) const {
  switch (part_of(site)) {
    case Part::input:
      return {};
    case Part::layer:
      if (site.layers_before > 0) return layer_at(site.layers_before - 1);
      return ends_.input.is_zero() ? spanning() : ends_.input;
    case Part::tail:
    case Part::loss:
      return last_layer();
  }
  unreachable("every part of a model has one before it");
}

GatheredElements LedgerUnits::layer_at(std::int64_t index) const {
  const auto block = block_at(index);
  return block ? layer(*block) : GatheredElements();
}

/// Those of a layer's elements that have gradients: an equal part of all layers' adapters.
Expr LedgerUnits::reduced_layer(const Expr& elements) const {
  return adapts_ ? adapters_of_layer_ : elements;
}

GatheredElements LedgerUnits::first_layer() const { return layer_at(0); }

GatheredElements LedgerUnits::last_layer() const {
  for (const BlockRun& run : std::views::reverse(graph_.order)) {
    if (graph_.blocks[run.block].checkpointable) return layer(run.block);
  }
  return {};
}

/// Whole in the compute type. torchtitan's loss is no part of the model: the last unit's weights
/// stay behind it where its backward comes at once.
GatheredElements LedgerUnits::weights(const Site& site) const {
  GatheredElements elements = spanning() + own(site);
  if (reshard_ == Reshard::never) elements += all_before(site);
  if (part_of(site) != Part::loss || tied_) return elements;
  const bool reshards = reshard_ == Reshard::always && !loss_in_model_;
  return reshards || reshard_ == Reshard::never ? elements : elements + ends_.tail;
}

GatheredElements LedgerUnits::kept_output(const Site& site) const {
  const Part part = part_of(site);
  if (part == Part::loss) {
    if (!loss_in_model_) return {};
    return tied_ || ends_.tail.is_zero() ? last_layer() : ends_.tail;
  }
  // wait_for_unshard keeps comm_ctx.all_gather_state to the next unit's copy-out, so that copy-out
  // and the next all-gather can overlap.
  if (!own(site).is_zero()) return own(site);
  return part == Part::input ? spanning() : last_layer();
}

/// The output of the unit that is gathered ahead.
GatheredElements LedgerUnits::prefetched(const Site& site) const {
  // _backward_prefetch: pre_backward of a unit all-gathers the one before it in the forward's
  // order.
  if (reshard_ == Reshard::never) return {};
  switch (part_of(site)) {
    case Part::input:
      return {};
    case Part::layer:
      if (site.layers_before == 0) return ends_.input;
      return layer_at(site.layers_before - 1) + gathered_experts(site.layers_before - 1);
    case Part::tail:
      return last_layer();
    case Part::loss:
      return ends_.tail.is_zero() ? last_layer() : GatheredElements();
  }
  unreachable("every part of a model is reached by the backward");
}

std::vector<LedgerTerm> LedgerUnits::sums_left(const Expr& elements) const {
  return {{"sums of the micro-batches' gradients", TermGroup::gradients, sums(elements),
           until_last_micro_step(job_), ""},
          {"shares of the gradients", TermGroup::gradients,
           share_ * unit_share(job_, Expr(Symbol::parameters) - elements), kFullyShard, ""}};
}

/// Adds the sums, and the shares made of them, that are there when the site's backward begins.
void LedgerUnits::add_sums(std::vector<LedgerTerm>& terms, const Site& site) const {
  if (!holds_) return;
  const Expr left = (all_before(site) + own(site) + spanning()).all;
  if (micro_step_ == MicroStep::holding) {
    LedgerTerm term = all_sums();
    if (makes_sums_) term.formula = sums(Expr(Symbol::parameters) - left);
    return terms.push_back(std::move(term));
  }
  for (LedgerTerm& term : sums_left(left)) {
    terms.push_back(std::move(term));
  }
}

/// Adds gradients of the sums' type as they come; wider sums take the unit's when it has run.
Expr LedgerUnits::unsummed(const Moment& moment) const {
  if (micro_step_ == MicroStep::holding && makes_sums_) return gathered_ * moment.gradient_elements;
  return gathered_ *
         (reduced_ == gathered_ ? moment.new_gradient_elements : moment.gradient_elements);
}

/// The reduce-scatter input of the unit behind.
Expr LedgerUnits::kept_input(const Site& site) const {
  if (micro_step_ == MicroStep::holding) return {};
  if (part_of(site) == Part::input) return reduced_layer(first_layer().all);
  if (part_of(site) != Part::layer) return {};
  // comm_ctx.reduce_scatter_state holds one input, that of the unit behind, until the next
  // post_backward.
  const bool last = site.layers_before + 1 == graph_.layers();
  if (!last) return reduced_layer(layer_at(site.layers_before + 1).all);
  return tied_ || adapts_ ? Expr() : ends_.tail.all;
}

Expr LedgerUnits::in_gathered_types(const GatheredElements& elements) const {
  if (elements.in_fp8.is_zero()) return gathered_ * elements.all;
  return gathered_ * (elements.all - elements.in_fp8) + size_of(DType::fp8) * elements.in_fp8;
}

LedgerTerm LedgerUnits::gathered_term(const GatheredElements& elements) const {
  return {"gathered weights", TermGroup::weights, in_gathered_types(elements), kFullyShard, ""};
}

LedgerTerm LedgerUnits::output_term(const GatheredElements& elements) const {
  return {"all-gather output", TermGroup::weights, in_gathered_types(elements), kFullyShard, ""};
}

/// The rank's shares in the gathered type, while they are sent.
LedgerTerm LedgerUnits::sent_term(const GatheredElements& elements) const {
  const Expr bytes = makes_sent_ ? in_gathered_types(elements) : elements.in_fp8;
  return {"shares cast to be gathered", TermGroup::weights, unit_share(job_, bytes), kFullyShard,
          ""};
}

/// The rank's shares while the last of those is cast that take most.
LedgerTerm LedgerUnits::casting_term(const GatheredElements& elements) const {
  return {"shares cast to fp8", TermGroup::weights, unit_share(job_, elements.casting),
          "torchao 0.16, WeightWithDynamicFloat8CastTensor.fsdp_pre_all_gather", ""};
}

LedgerTerm LedgerUnits::input_term(const Expr& elements) const {
  return {"reduce-scatter input", TermGroup::gradients, reduced_ * elements, kFullyShard, ""};
}

std::vector<LedgerTerm> LedgerUnits::in_forward(const Site& site) const {
  if (flat_) return {gathered_term(weights(site))};
  if (sums_) return {gathered_term({active()})};
  if (experts_.empty()) return {gathered_term(weights(site)), output_term(kept_output(site))};
  // The layer's own output goes with its experts' turn: of_experts() has it.
  GatheredElements outputs = gathered_ahead(site);
  if (part_of(site) != Part::layer) outputs += kept_output(site);
  return {gathered_term(weights(site)), output_term(outputs)};
}

std::vector<LedgerTerm> LedgerUnits::in_backward(const Site& site) const {
  if (flat_) return {gathered_term(weights(site) + prefetched(site))};
  if (sums_) return {gathered_term({active()})};
  std::vector<LedgerTerm> terms = {gathered_term(weights(site)), output_term(prefetched(site))};
  const bool by_experts = !experts_.empty() && part_of(site) == Part::layer;
  if (!by_experts) terms.push_back(input_term(kept_input(site)));
  add_sums(terms, site);
  return terms;
}

/// The weights are copied out while the output of the unit before is still there.
std::vector<LedgerUnits::Hook> LedgerUnits::before_forward(const Site& site) const {
  const GatheredElements unit = own(site);
  if (sums_ || unit.is_zero() || flat_) return {};
  std::vector<Hook> hooks;
  if (!unit.casting.is_zero()) {
    GatheredElements others = weights(site);
    others -= unit;
    hooks.push_back(
        {kCastHook, {gathered_term(others), output_term(before(site)), casting_term(unit)}});
  }
  hooks.push_back(
      {"all-gather",
       {gathered_term(weights(site)), output_term(kept_output(site) + left_output(site))}});
  return hooks;
}

/// Whether the site's unit stays gathered from the forward to the backward.
bool LedgerUnits::stays_gathered(const Site& site) const {
  if (reshard_ == Reshard::never) return true;
  return part_of(site) == Part::tail && (reshard_ != Reshard::always || loss_in_model_);
}

/// The unit's own weights are copied out; then the unit before is gathered ahead.
std::vector<LedgerUnits::Hook> LedgerUnits::before_backward(const Site& site) const {
  if (sums_ || own(site).is_zero()) return {};
  std::vector<Hook> hooks;
  if (!stays_gathered(site) && !flat_) {
    hooks.push_back({"all-gather",
                     {gathered_term(weights(site)), output_term(own(site) + own_experts(site)),
                      input_term(kept_input(site))}});
    add_sums(hooks.back().terms, site);
  }
  const GatheredElements next = prefetched(site);
  if (!next.casting.is_zero()) {
    hooks.push_back(
        {kCastHook,
         {gathered_term(weights(site)), input_term(kept_input(site)), casting_term(next)}});
    add_sums(hooks.back().terms, site);
  }
  std::vector<LedgerTerm> ahead = in_backward(site);
  for (LedgerTerm& term : of_experts(site, graph_.blocks[site.block].ops.size(), Pass::backward)) {
    ahead.push_back(std::move(term));
  }
  ahead.push_back(sent_term(next));
  hooks.push_back({"all-gather of the unit before", std::move(ahead)});
  return hooks;
}

Expr LedgerUnits::sums_of(std::size_t block) const {
  const Expr own = graph_.blocks[block].parameters();
  return sums(block == graph_.order.front().block ? own + table_gradient_ - table_ : own);
}

LedgerTerm LedgerUnits::all_sums() const {
  return {"sums of the micro-batches' gradients", TermGroup::gradients,
          sums(Expr(Symbol::parameters) + table_gradient_ - table_),
          holds_ ? until_last_micro_step(job_) : "torch.distributed.pipelining, PyTorch 2.11", ""};
}

/// A schedule of more stages keeps those gathered that come next.
Expr LedgerUnits::active() const {
  constexpr std::int64_t kActiveStages = 3;  // schedules.py, _add_unshard_reshard
  const std::int64_t stages = job_.parallelism.virtual_stages;
  if (stages <= kActiveStages) return Symbol::parameters;
  return Expr(kActiveStages) * Expr(Symbol::parameters) / Expr(stages);
}

}  // namespace memest
