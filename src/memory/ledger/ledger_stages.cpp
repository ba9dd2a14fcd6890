#include "memory/ledger/ledger_stages.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/overlapped_actions.hpp"
#include "memest/units/int128.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/moments/moments.hpp"

namespace memest {
namespace {

/// Where the op makes one of a parameter, as every op of one here makes a single one.
const InputGradient* gradient_of_weight(const Block& block, const Op& op) {
  const auto found = std::find_if(op.gradients.begin(), op.gradients.end(), [&](const auto& one) {
    return block.tensors[one.input].role == Role::parameter;
  });
  return found == op.gradients.end() ? nullptr : &*found;
}

constexpr const char* kPipelining = "torch.distributed.pipelining, PyTorch 2.11";

}  // namespace

LedgerStages::LedgerStages(const LedgerUnits& units, const Job& job, std::int64_t rank,
                           std::vector<Expr> kept)
    : units_(units),
      graph_(units.graph()),
      job_(job),
      place_(place_of(job.parallelism, rank)),
      kept_(std::move(kept)),
      lives_(kept_.size(), {Life()}),
      passing_(kept_.size()),
      stream_(sent_bytes(graph_)) {
  if (graph_.stages.empty()) return;
  if (row_of(job.training->implementation.framework).schedules == PipelineSchedules::all) {
    follow_torch();
  } else {
    follow_megatron();
  }
}

std::int64_t LedgerStages::index_of(std::size_t stage) const {
  return stage_index(place_, static_cast<std::int64_t>(stage));
}

bool LedgerStages::is_first(std::size_t stage) const { return index_of(stage) == 0; }

bool LedgerStages::is_last(std::size_t stage) const {
  return index_of(stage) + 1 == place_.ranks * place_.chunks;
}

bool LedgerStages::hands_on_here(std::size_t stage) const {
  return stage + 1 < kept_.size() && index_of(stage + 1) == index_of(stage) + 1;
}

void LedgerStages::follow_megatron() {
  // nanotron's engine sends a gradient when it receives the next input.
  const bool sends_first = row_of(job_.training->implementation.framework).adds_behind_backward;
  for (std::size_t stage = 0; stage < kept_.size(); ++stage) {
    // forward_backward_pipelining_without_interleaving: stage r of p has min(m, p - r)
    // micro-batches in flight, one of which is the one at work.
    lives_[stage].front().others = (Expr(Symbol::in_flight) - 1) * kept_.front();
    if (!sends_first) passing_[stage] = passing_bytes(graph_, stream_);
  }
  if (!has_equal_stages(graph_)) count_unequal_stages();
}

/// Sums of gradients lie in their buffers whatever runs: only what micro-batches keep differs from
/// moment to moment.
void LedgerStages::count_unequal_stages() {
  const std::vector<std::int64_t> kept = bytes_of(kept_);
  const std::int64_t count = job_.training->gradient_accumulation;
  std::vector<std::int64_t> now(kept_.size());
  std::vector<std::int64_t> most(kept_.size(), -1);
  for (const PipelineAction& action : actions_of(job_.parallelism.schedule, place_, count)) {
    const auto stage = static_cast<std::size_t>(action.chunk);
    if (!action.forward) --now[stage];
    std::int64_t bytes = 0;
    Expr others;
    for (std::size_t i = 0; i < now.size(); ++i) {
      bytes += checked_multiply(now[i], kept[i]);
      others += Expr(now[i]) * kept_[i];
    }
    if (bytes > most[stage]) lives_[stage].front().others = others;
    most[stage] = std::max(most[stage], bytes);
    if (action.forward) ++now[stage];
  }
}

/// Values of formulas of the stages.
std::vector<std::int64_t> LedgerStages::bytes_of(const std::vector<Expr>& formulas) const {
  Bindings sizes = graph_.sizes;
  sizes.set(Symbol::layers, graph_.layers(graph_.stage_runs().front()));
  std::vector<std::int64_t> values;
  for (const Expr& formula : formulas) values.push_back(narrow_to_int64(formula.evaluate(sizes)));
  return values;
}

/// The input that a stage keeps is the buffer it was received in, one of many that are there
/// anyway; what it answers it holds until its backward has run, the logits too.
void LedgerStages::follow_torch() {
  has_buffers_ = true;
  const bool interleaved = job_.parallelism.virtual_stages > 1;
  Expr received;
  for (std::size_t stage = 0; stage < kept_.size(); ++stage) {
    const Expr answer =
        is_last(stage) ? input_bytes(graph_.blocks[graph_.order.back().block]) : stream_;
    Expr held = is_first(stage) ? answer : answer - stream_;
    // Stages of one rank hand on the tensor itself: the next one's input is this one's output.
    if (hands_on_here(stage)) held -= stream_;
    kept_[stage] += held;
    const bool sends = !is_first(stage) && !interleaved;
    passing_[stage] = held + (sends ? stream_ : Expr());
    // _prepare_forward_infra, _prepare_backward_infra: args_recv_info and grad_recv_info have a
    // tensor for each micro-batch, made before the first step and never freed. A middle stage with
    // 8 micro-batches has 16.
    const std::int64_t ways = (is_first(stage) ? 0 : 1) + (is_last(stage) ? 0 : 1);
    // The gradient that the input holds, unless it is in a buffer of the stage before.
    const bool handed = stage > 0 && hands_on_here(stage - 1);
    received += Expr(ways) * Expr(Symbol::micro_batches) * stream_;
    if (!handed) received += held_by_inputs(stage) * stream_;
  }
  find_lives();
  const Expr ids = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len) * Expr(Symbol::context) *
                   Expr(size_of(DType::int64));
  residents_ = {
      {"buffers for what other stages send", TermGroup::activations, received, kPipelining, ""},
      {"batch", TermGroup::buffers, Expr(2) * Expr(Symbol::micro_batches) * ids,
       "torchtitan 0.2.2, train_step: ids and labels of all micro-batches", ""}};
}

/// The micro-batches whose input holds its gradient until the next step: those of which a first
/// part of the backward makes it. DualPipeV's are of its end alone, whatever their number.
Expr LedgerStages::held_by_inputs(std::size_t stage) const {
  if (!splits(stage)) return {};
  if (job_.parallelism.schedule != Schedule::dual_pipe_v) return Symbol::micro_batches;
  const auto actions = actions_of(Schedule::dual_pipe_v, place_, 2 * place_.ranks);
  return std::count_if(actions.begin(), actions.end(), [stage](const PipelineAction& action) {
    return action.part == BackwardPart::inputs && action.chunk == static_cast<std::int64_t>(stage);
  });
}

/// The input of a stage's last layer is one of those buffers.
Expr LedgerStages::passing(const Site& site) const {
  const bool ends = std::all_of(site.after.begin(), site.after.end(),
                                [](std::int64_t left) { return left == 0; });
  const bool in_buffer = has_buffers_ && ends && !is_last(site.stage);
  return in_buffer ? passing_[site.stage] - stream_ : passing_[site.stage];
}

LedgerUnits::SumsBeside LedgerStages::sums_beside() const {
  return [this](std::size_t reduced, std::size_t other) -> bool {
    return sums_at_reduction_.empty() ? other < reduced : sums_at_reduction_[reduced][other];
  };
}

Expr LedgerStages::sums_of_block(std::size_t block) const {
  if (units_.exist()) return units_.sums_of(block);
  return size_of(job_.training->recipe.gradients) * graph_.blocks[block].parameters();
}

Expr LedgerStages::sums_of(std::size_t stage) const {
  const std::span<const BlockRun> runs = graph_.stage_runs()[stage];
  Expr bytes;
  for (const BlockRun& run : runs) bytes += run.repeat * sums_of_block(run.block);
  return bytes;
}

/// In the type in which they come.
Expr LedgerStages::fresh_of(std::size_t stage) const {
  const std::span<const BlockRun> runs = graph_.stage_runs()[stage];
  Expr bytes;
  for (const BlockRun& run : runs) bytes += run.repeat * fresh_of_block(run.block);
  return splits(stage) ? bytes : Expr();
}

Expr LedgerStages::fresh_of_block(std::size_t block) const {
  return size_of(job_.training->recipe.compute) * graph_.blocks[block].parameters();
}

LedgerTerm LedgerStages::second_part(std::size_t stage) const {
  Expr bytes = fresh_of(stage);
  Expr last;
  const std::span<const BlockRun> runs = graph_.stage_runs()[stage];
  for (const BlockRun& run : runs) {
    const Block& block = graph_.blocks[run.block];
    const bool is_loss = is_last(stage) && run.block == graph_.order.back().block;
    if (is_loss || !splits(stage)) continue;
    std::set<TensorId> left;
    for (const Op& op : block.ops) {
      const InputGradient* weight = gradient_of_weight(block, op);
      if (weight == nullptr) {
        for (const TensorId id : op.saved) left.insert(block.tensors[id].storage);
        continue;
      }
      // `sum(non_none_grads)` begins with 0 + gradient, which makes a second tensor of it, beside
      // which the weight's gradient comes.
      last = Expr(2) * block.tensors[op.outputs.front()].bytes() +
             block.tensors[weight->input].bytes();
    }
    for (const TensorId id : left) {
      if (!block.tensors[id].shared) bytes += run.repeat * block.tensors[id].bytes();
    }
  }
  return {"second part of a backward", TermGroup::activations, bytes + last,
          "PyTorch 2.11, stage_backward_weight", ""};
}

LedgerTerm LedgerStages::adopted(const Life& life, const Site& site, const Moment& moment) const {
  Expr bytes;
  if (life.has_sums) {
    bytes = {};
  } else if (!units_.exist()) {
    bytes = size_of(job_.training->recipe.gradients) *
            (moment.gradient_elements - moment.new_gradient_elements);
  } else if (units_.reduces_at_end(site.block) && !moment.gradient_elements.is_zero()) {
    bytes = sums_of_block(site.block);
  }
  return {"gradients of the block so far", TermGroup::gradients, bytes,
          "PyTorch 2.11: the first gradient of a step", ""};
}

bool LedgerStages::splits(std::size_t stage) const {
  return splits_backwards(job_.parallelism.schedule) && !is_first(stage);
}

Expr LedgerStages::held_of_block(std::size_t block) const {
  const Block& run = graph_.blocks[block];
  Expr bytes;
  for (const Op& op : run.ops) {
    if (gradient_of_weight(run, op) != nullptr) {
      bytes += run.tensors[op.outputs.front()].bytes();
    }
  }
  return bytes;
}

Expr LedgerStages::waits_with(std::size_t stage) const {
  const std::span<const BlockRun> runs = graph_.stage_runs()[stage];
  Expr bytes = kept_[stage];
  for (const BlockRun& run : runs) bytes += run.repeat * held_of_block(run.block);
  if (!is_last(stage)) return bytes;
  // The kept bytes end with the layers and count the stage's output.
  const std::size_t loss = graph_.order.back().block;
  for (const BlockRun& run : runs) {
    const Block& block = graph_.blocks[run.block];
    if (!block.checkpointable && run.block != loss) bytes += block.saved_bytes(false);
  }
  return bytes - input_bytes(graph_.blocks[loss]);
}

/// The first backward makes the stage's sums from its last block on. Where it has two parts, the
/// first leaves what the blocks behind have saved, and has widened what the last second part made
/// of them; the block's own is counted as what the moment makes.
Expr LedgerStages::in_flight(const Life& life, const Site& site, bool backward) const {
  Expr bytes = life.others;
  if (life.has_fresh && !backward) bytes += fresh_of(site.stage);
  if (backward && life.part == BackwardPart::inputs) bytes += held_of_block(site.block);
  for (std::size_t i = 0; backward && i < graph_.blocks.size(); ++i) {
    if (life.has_fresh) bytes += site.before[i] * fresh_of_block(i);
    if (life.part != BackwardPart::inputs) continue;
    bytes += site.after[i] * (graph_.blocks[i].saved_bytes(false) + held_of_block(i));
  }
  if (life.has_sums || !backward) return bytes;
  for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
    bytes += site.after[i] * sums_of_block(i);
  }
  return bytes;
}

std::size_t LedgerStages::kind_of(const InFlight& moment, std::size_t stage) {
  const std::size_t pass = moment.forward ? 0 : 1 + static_cast<std::size_t>(moment.part);
  return 2 * pass + (moment.has_sums[stage] ? 1 : 0);
}

Expr LedgerStages::logits() const { return input_bytes(graph_.blocks[graph_.order.back().block]); }

/// The first micro-batch whose logits stay to the next step (PipelineStages::save_output), as do
/// those of all behind it.
std::int64_t LedgerStages::first_saved_of(const std::vector<PipelineAction>& actions) const {
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (!is_last(static_cast<std::size_t>(actions[at].chunk))) continue;
    // DualPipeV runs a forward of one micro-batch and a backward of another as one action.
    if (overlaps_backward(job_.parallelism.schedule, actions, at)) return actions[at].micro_batch;
  }
  return std::numeric_limits<std::int64_t>::max();
}

void LedgerStages::end_action(const PipelineAction& action, InFlight& now) {
  const auto stage = static_cast<std::size_t>(action.chunk);
  if (action.forward) {
    ++now.micro_batches[stage];
  } else if (action.part == BackwardPart::inputs) {
    ++now.waiting[stage];
    now.has_sums[stage] = now.has_sums[stage] || now.has_fresh[stage];
    now.has_fresh[stage] = false;
  } else {
    const bool waited = action.part == BackwardPart::weights && splits(stage);
    now.has_fresh[stage] = waited;
    now.has_sums[stage] = now.has_sums[stage] || !waited;
    // PyTorch 2.11, schedules._add_reduce_grad: REDUCE_GRAD follows a stage's last backward.
    if (--now.unreduced[stage] > 0 || !units_.exist()) return;
    now.has_sums[stage] = false;
    sums_at_reduction_[stage] = now.has_sums;
  }
}

/// When most is in flight while a stage works, before its first backward has run and behind it. The
/// sums of gradients, all of which are counted elsewhere, come with the first backward of each.
/// backward_weight_one_chunk: the first stage has no input's gradient to send, so its backward is a
/// full one, in the place of its weights' part. Moments of one kind differ only in what other
/// micro-batches hold: the largest of each kind is kept.
void LedgerStages::find_lives() {
  const std::size_t stages = kept_.size();
  std::vector<Expr> waiting;
  std::vector<Expr> fresh;
  std::vector<Expr> sums;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    waiting.push_back(waits_with(stage));
    fresh.push_back(fresh_of(stage));
    sums.push_back(sums_of(stage));
  }
  const std::vector<std::int64_t> kept_bytes = bytes_of(kept_);
  const std::vector<std::int64_t> waiting_bytes = bytes_of(waiting);
  const std::vector<std::int64_t> fresh_bytes = bytes_of(fresh);
  const std::vector<std::int64_t> sum_bytes = bytes_of(sums);
  const std::int64_t logit_bytes = bytes_of({logits()}).front();
  const std::int64_t count = job_.training->gradient_accumulation;
  std::vector<std::array<InFlight, kKinds>> most(stages);
  InFlight now{.micro_batches = std::vector<std::int64_t>(stages),
               .waiting = std::vector<std::int64_t>(stages),
               .has_fresh = std::vector<bool>(stages),
               .has_sums = std::vector<bool>(stages),
               .unreduced = std::vector<std::int64_t>(stages, count)};
  sums_at_reduction_.assign(stages, std::vector<bool>(stages));
  const std::vector<PipelineAction> actions = actions_of(job_.parallelism.schedule, place_, count);
  const std::int64_t first_saved = first_saved_of(actions);
  for (const PipelineAction& action : actions) {
    const auto stage = static_cast<std::size_t>(action.chunk);
    const bool first_part = action.part == BackwardPart::inputs;
    if (first_part && !splits(stage)) continue;
    const bool waited = action.part == BackwardPart::weights && splits(stage);
    if (!action.forward) --(waited ? now.waiting : now.micro_batches)[stage];
    // second_part() counts its own.
    if (waited) now.has_fresh[stage] = false;
    now.bytes = checked_multiply(now.logits, logit_bytes);
    for (std::size_t i = 0; i < stages; ++i) {
      now.bytes += checked_multiply(now.micro_batches[i], kept_bytes[i]);
      now.bytes += checked_multiply(now.waiting[i], waiting_bytes[i]);
      if (now.has_fresh[i]) now.bytes += fresh_bytes[i];
      if (now.has_sums[i]) now.bytes += sum_bytes[i];
    }
    now.forward = action.forward;
    now.part = first_part ? BackwardPart::inputs
               : waited   ? BackwardPart::weights
                          : BackwardPart::whole;
    InFlight& known = most[stage][kind_of(now, stage)];
    if (now.bytes > known.bytes) known = now;
    const bool saves = is_last(stage) && action.micro_batch >= first_saved;
    if (saves && !action.forward && !waited) ++now.logits;
    end_action(action, now);
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    lives_[stage].clear();
    for (const InFlight& moment : most[stage]) {
      if (moment.bytes >= 0) lives_[stage].push_back(life_of(moment, stage));
    }
  }
}

/// With a single micro-batch the gradients are counted as they come.
LedgerStages::Life LedgerStages::life_of(const InFlight& moment, std::size_t stage) const {
  const bool persists = job_.training->gradient_accumulation > 1;
  Life life;
  life.has_sums = !persists || moment.has_sums[stage];
  life.has_fresh = moment.has_fresh[stage];
  life.forward = moment.forward;
  life.backward = !moment.forward;
  life.part = moment.part;
  if (moment.logits > 0) life.others += Expr(moment.logits) * logits();
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    life.others += Expr(moment.micro_batches[i]) * kept_[i];
    life.others += Expr(moment.waiting[i]) * waits_with(i);
    if (moment.has_fresh[i] && i != stage) life.others += fresh_of(i);
    if (persists && !moment.has_sums[i]) life.missing_sums += sums_of(i);
  }
  return life;
}

}  // namespace memest
