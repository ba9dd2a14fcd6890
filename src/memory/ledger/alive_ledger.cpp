#include "memest/memory/alive_ledger.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/units/int128.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/sharding/unit_layout.hpp"
#include "memory/states/expert_shares.hpp"
#include "memory/states/gathered_elements.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

constexpr const char* kEngineSource =
    "PyTorch 2.11: what autograd and its engine hold, event by event";
constexpr const char* kProgramSource = "the program's own allocations, event by event";

TermGroup group_of(Holding holding) {
  switch (holding) {
    case Holding::weights:
    case Holding::gathered_weights:
    case Holding::cast_weights:
      return TermGroup::weights;
    case Holding::gradients:
      return TermGroup::gradients;
    case Holding::optimizer_states:
      return TermGroup::optimizer;
    case Holding::activations:
    case Holding::passing_gradients:
    case Holding::temporaries:
      return TermGroup::activations;
    case Holding::batch:
    case Holding::buffers:
    case Holding::collective_buffers:
      return TermGroup::buffers;
    case Holding::workspaces:
      return TermGroup::overhead;
  }
  unreachable("every holding is of a group");
}

/// Made by an operation of a block, whose tensors have formulas.
bool is_of_graph(Origin origin) {
  return origin == Origin::forward || origin == Origin::recompute || origin == Origin::unpacked ||
         origin == Origin::backward;
}

constexpr std::int64_t kWidestElement = 8;  // fp64, int64

/// TermKey::of: an optimizer's copy of a parameter, its states, and the loop's scalars.
constexpr std::uint32_t kMaster = 1;
constexpr std::uint32_t kStates = 2;
constexpr std::uint32_t kScalars = 0xFFFF'FFFF;

bool is_scalar(LoopTensor tensor) {
  constexpr std::array kTensors = {LoopTensor::scaled_loss, LoopTensor::reported_loss,
                                   LoopTensor::loss,        LoopTensor::loss_gradient,
                                   LoopTensor::loss_scale,  LoopTensor::token_count,
                                   LoopTensor::targets,     LoopTensor::scaler_state};
  return std::find(kTensors.begin(), kTensors.end(), tensor) != kTensors.end();
}

/// The properties that the storages of one term have in common.
struct TermKey {
  TermGroup group = TermGroup::weights;
  Holding holding = Holding::weights;
  Origin origin = Origin::loop;
  /// The block, or the loop's or the unit's tensor; of a parameter's kMaster or kStates.
  std::uint32_t of = 0;

  friend auto operator<=>(const TermKey&, const TermKey&) = default;
};

/// Storages of one size: a tensor of a block, in elements of so many bytes.
struct TensorKey {
  std::uint32_t block = 0;
  TensorId tensor = 0;
  std::int64_t element_bytes = 0;

  friend auto operator<=>(const TensorKey&, const TensorKey&) = default;
};

struct AliveGroup {
  std::int64_t bytes = 0;
  std::int64_t storages = 0;
  std::map<TensorKey, std::int64_t> tensors;                 ///< how many of each
  std::map<std::uint32_t, std::set<std::uint32_t>> units;    ///< places by block
  std::map<std::uint32_t, std::set<std::uint32_t>> experts;  ///< the same of experts' units
  bool all_known = true;  ///< every storage is counted in `tensors`
};

class AliveLedger {
 public:
  explicit AliveLedger(const ReplayedPeak& replayed)
      : graph_(replayed.graph),
        job_(replayed.job),
        timeline_(replayed.timeline),
        peak_(replayed.peak),
        closed_(replayed.closed) {}

  Ledger write() && {
    ledger_.bindings = closed_.bindings;
    ledger_.margin = closed_.margin;
    ledger_.outside_low = closed_.outside_low;
    ledger_.outside_high = closed_.outside_high;
    for (const AliveStorage& alive : peak_.alive) count(alive);
    Instant peak{"the replay's peak", {}};
    for (const auto& [key, group] : groups_) {
      for (LedgerTerm& term : terms_of(key, group)) {
        if (!term.formula.is_zero()) peak.terms.push_back(add(std::move(term)));
      }
    }
    if (rounded_ > 0) peak.terms.push_back(add(rounding()));
    for (const std::uint16_t term : closed_.outside_allocator) {
      ledger_.outside_allocator.push_back(add(closed_.terms[term]));
    }
    ledger_.instants = {std::move(peak)};
    return std::move(ledger_);
  }

 private:
  std::uint16_t add(LedgerTerm term) {
    ledger_.by_size.emplace_back(term.formula, ledger_.bindings);
    ledger_.terms.push_back(std::move(term));
    return static_cast<std::uint16_t>(ledger_.terms.size() - 1);
  }

  void count(const AliveStorage& alive) {
    const Storage& storage = timeline_.storages[alive.storage];
    // A storage asks for its bytes and gets a block: 512 B steps, and up to 1 MiB that is not split
    // off (should_split).
    rounded_ = checked_add(rounded_, alive.block.value() - storage.bytes);
    AliveGroup& group = groups_[key_of(storage)];
    group.bytes = checked_add(group.bytes, storage.bytes);
    ++group.storages;
    const std::int64_t element_bytes = element_bytes_of(storage);
    if (element_bytes > 0) {
      ++group.tensors[{block_of(storage.label), storage.label.tensor, element_bytes}];
    } else if (storage.bytes > 0) {
      group.all_known = false;
    }
    if (storage.label.origin == Origin::unit) {
      const bool of_experts = storage.label.op == static_cast<std::uint16_t>(UnitOf::experts);
      auto& units = of_experts ? group.experts : group.units;
      units[block_of(storage.label)].insert(storage.label.place);
    }
  }

  [[nodiscard]] std::uint32_t block_of(const Label& label) const {
    return timeline_.places[label.place].block;
  }

  /// A pipeline's stages may have several blocks of one name: they share a term.
  [[nodiscard]] std::uint32_t first_of_name(std::uint32_t block) const {
    const auto first = std::ranges::find(graph_.blocks, graph_.blocks[block].name, &Block::name);
    return static_cast<std::uint32_t>(first - graph_.blocks.begin());
  }

  [[nodiscard]] TermKey key_of(const Storage& storage) const {
    const Label& label = storage.label;
    TermKey key{group_of(label.holding), label.holding, label.origin, label.tensor};
    switch (label.origin) {
      case Origin::forward:
      case Origin::recompute:
      case Origin::unpacked:
      case Origin::backward:
        key.of = first_of_name(block_of(label));
        if (label.holding != Holding::gradients && label.holding != Holding::cast_weights) break;
        // One term for all blocks: the parameters' share of a step, whatever made them.
        key.origin = Origin::parameter;
        key.of = 0;
        break;
      case Origin::parameter:
        key.of = label.tensor == 0 ? 0 : label.tensor == kMasterCopy ? kMaster : kStates;
        break;
      case Origin::buffer:
        key.of = 0;
        break;
      case Origin::loop:
        if (is_scalar(static_cast<LoopTensor>(label.tensor))) {
          return {TermGroup::activations, Holding::activations, label.origin, kScalars};
        }
        // Between stages an activation and its gradient are one tensor of the schedule's.
        if (key.group == TermGroup::activations) key.holding = Holding::activations;
        break;
      case Origin::unit:
        break;
    }
    return key;
  }

  /// Bytes of one element of the block's tensor that the label names; 0 where the storage is
  /// something else (scratch, what no operation of a block makes).
  [[nodiscard]] std::int64_t element_bytes_of(const Storage& storage) const {
    const Label& label = storage.label;
    if (!is_of_graph(label.origin) || label.tensor == kKernelScratch) return 0;
    const std::int64_t elements = elements_of(label);
    // A label names a tensor of the block also where its storage is something derived: a mask of a
    // byte an element, a copy in fp32, or scratch that divides by no element size.
    if (elements == 0 || storage.bytes % elements != 0) return 0;
    const std::int64_t bytes = storage.bytes / elements;
    return bytes <= kWidestElement ? bytes : 0;
  }

  [[nodiscard]] std::int64_t elements_of(const Label& label) const {
    const auto [known, is_new] = elements_.try_emplace({block_of(label), label.tensor});
    if (is_new)
      known->second = narrow_to_int64(tensor_of(known->first).elements().evaluate(graph_.sizes));
    return known->second;
  }

  using TensorOfBlock = std::pair<std::uint32_t, TensorId>;
  [[nodiscard]] const Tensor& tensor_of(const TensorOfBlock& at) const {
    return graph_.blocks[at.first].tensors[at.second];
  }

  /// Terms of the states and the loop's buffers by the formulas of the field.
  [[nodiscard]] std::vector<LedgerTerm> in_formulas(const TermKey& key) const {
    const Inventory& inventory = graph_.parameters;
    switch (key.holding) {
      case Holding::weights:
        return is_of_loop(key, LoopTensor::teacher)   ? teacher_terms(graph_, job_)
               : is_of_loop(key, LoopTensor::average) ? average_terms(job_, inventory)
                                                      : weight_terms(job_, inventory);
      case Holding::gradients:
        return is_of_loop(key, LoopTensor::unread_gradient)
                   ? process_terms(graph_)
                   : std::vector<LedgerTerm>{gradient_term(job_, inventory)};
      case Holding::optimizer_states:
        return key.of == kMaster ? master_terms(job_, inventory) : state_terms(job_, inventory);
      case Holding::buffers:
        return key.origin == Origin::buffer ? buffer_terms(inventory) : process_terms(graph_);
      case Holding::batch:
        return {batch_term(graph_)};
      case Holding::workspaces:
        return workspace_terms(graph_, job_);
      case Holding::collective_buffers:
        return resident_bucket_terms(job_, inventory);
      case Holding::activations:
      case Holding::cast_weights:
      case Holding::passing_gradients:
      case Holding::temporaries:
      case Holding::gathered_weights:
        return {};
    }
    unreachable("every holding has formulas or none");
  }

  static bool is_of_loop(const TermKey& key, LoopTensor tensor) {
    return key.origin == Origin::loop && key.of == static_cast<std::uint32_t>(tensor);
  }

  /// The terms by formulas that say just these bytes: all of them together, or one.
  [[nodiscard]] std::vector<LedgerTerm> known_terms(const TermKey& key, std::int64_t bytes) const {
    std::vector<LedgerTerm> terms = in_formulas(key);
    Int128 sum = 0;
    for (LedgerTerm& term : terms) {
      const Int128 value = term.formula.evaluate(ledger_.bindings);
      // Weights may be two terms (frozen ones and adapters), each of which the timeline may hold
      // alone.
      if (value == bytes) return {std::move(term)};
      sum += value;
    }
    if (sum != bytes) terms.clear();
    return terms;
  }

  [[nodiscard]] std::vector<LedgerTerm> terms_of(const TermKey& key,
                                                 const AliveGroup& group) const {
    std::vector<LedgerTerm> known = known_terms(key, group.bytes);
    const bool own_name = key.origin == Origin::loop || key.origin == Origin::unit;
    if (own_name && known.size() == 1) known.front().name = name_of(key);
    if (!known.empty()) return known;
    LedgerTerm term{name_of(key), key.group, Expr(group.bytes),
                    is_of_graph(key.origin) ? kEngineSource : kProgramSource, ""};
    const bool of_units = !group.units.empty() || !group.experts.empty();
    Expr formula = of_units ? formula_of_units(group) : formula_of(group);
    if (group.bytes > 0 && formula.evaluate(ledger_.bindings) == group.bytes) {
      term.formula = std::move(formula);
      return {std::move(term)};
    }
    term.rule = "counted in the timeline: " + std::to_string(group.storages) +
                (group.storages == 1 ? " storage" : " storages");
    return {std::move(term)};
  }

  [[nodiscard]] Expr formula_of(const AliveGroup& group) const {
    if (!group.all_known) return {};
    // Equal counts share a factor: L·(...), not a sum of L·s.
    std::map<std::int64_t, Expr> by_count;
    for (const auto& [key, count] : group.tensors) {
      by_count[count] += tensor_of({key.block, key.tensor}).elements() * Expr(key.element_bytes);
    }
    Expr sum;
    for (const auto& [count, bytes] : by_count) sum += times(count) * bytes;
    return sum;
  }

  /// The parameters of units that are blocks, whole or a rank's shares of them, in elements of a
  /// few bytes; zero where they are something else.
  [[nodiscard]] Expr formula_of_units(const AliveGroup& group) const {
    const bool apart = has_experts_apart(job_);
    Expr elements;
    for (const auto& [block, places] : group.units) {
      Expr own = graph_.blocks[block].parameters();
      if (apart) own -= expert_ops_of(graph_.blocks[block]).elements;
      elements += times(static_cast<std::int64_t>(places.size())) * own;
    }
    Expr experts;
    for (const auto& [block, places] : group.experts) {
      experts += times(static_cast<std::int64_t>(places.size())) *
                 expert_ops_of(graph_.blocks[block]).elements;
    }
    const Expr share = unit_share(job_, elements) + unit_share_of_experts(job_, experts);
    for (const Expr& units : {elements + experts, share}) {
      const Int128 count = units.evaluate(ledger_.bindings);
      // Which type the units are gathered in follows from the bytes: 2 B an element is bf16, 4
      // fp32.
      if (count == 0 || group.bytes % count != 0 || group.bytes / count > kWidestElement) continue;
      return Expr(narrow_to_int64(group.bytes / count)) * units;
    }
    return {};
  }

  /// As many as the model has layers are L.
  [[nodiscard]] Expr times(std::int64_t count) const {
    const bool all = count > 1 && ledger_.bindings.has(Symbol::layers) &&
                     ledger_.bindings.at(Symbol::layers) == count;
    return all ? Expr(Symbol::layers) : Expr(count);
  }

  [[nodiscard]] std::string name_of(const TermKey& key) const {
    const std::string of_block =
        is_of_graph(key.origin) ? ": " + graph_.blocks[key.of].name : std::string();
    switch (key.origin) {
      case Origin::recompute:
        return "recomputed " + std::string(memest::name_of(key.holding)) + of_block;
      case Origin::unpacked:
        return "saved tensors back from the host" + of_block;
      case Origin::unit:
        return std::string(memest::name_of(static_cast<UnitTensor>(key.of))) + " of units";
      case Origin::loop:
        if (key.of == kScalars) return "losses and counts of the loop";
        return std::string(memest::name_of(static_cast<LoopTensor>(key.of)));
      case Origin::parameter:
        if (key.of == kMaster) return "master weights";
        break;
      case Origin::forward:
      case Origin::backward:
      case Origin::buffer:
        break;
    }
    return std::string(memest::name_of(key.holding)) + of_block;
  }

  [[nodiscard]] LedgerTerm rounding() const {
    return {"blocks beyond what was asked for", TermGroup::overhead, Expr(rounded_),
            "PyTorch's caching allocator: multiples of 512 B, and blocks handed out unsplit",
            "blocks alive at the peak, less the bytes asked for"};
  }

  const Graph& graph_;
  const Job& job_;
  const Timeline& timeline_;
  const PeakMoment& peak_;
  const Ledger& closed_;
  Ledger ledger_;
  std::map<TermKey, AliveGroup> groups_;
  mutable std::map<TensorOfBlock, std::int64_t> elements_;
  std::int64_t rounded_ = 0;
};

}  // namespace

Ledger alive_ledger(const ReplayedPeak& replayed) { return AliveLedger(replayed).write(); }

}  // namespace memest
