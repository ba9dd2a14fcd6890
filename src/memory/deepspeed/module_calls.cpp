#include "memory/deepspeed/module_calls.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace memest {
namespace {

using OpIndex = std::uint32_t;

/// Ops that a layer runs in its own forward, between the calls of its branches.
constexpr std::array kOutsideBranches{
    std::string_view("attention_norm"),       std::string_view("attention_output_norm"),
    std::string_view("feed_forward_norm"),    std::string_view("feed_forward_output_norm"),
    std::string_view("input_norm"),           std::string_view("attention_residual"),
    std::string_view("feed_forward_residual")};

constexpr std::string_view kAdapter = ".lora";
constexpr std::string_view kFirstMatrix = ".lora_A";
constexpr std::string_view kClone = "clone";

class ModuleFinder {
 public:
  ModuleFinder(const Block& block, BlockPosition position) : block_(block), position_(position) {}

  std::vector<ModuleCall> find() && {
    if (block_.checkpointable) {
      add({0, size(), {}});
      add_branches();
    }
    if (!position_.reads_weights) add_modules();
    // Outer ones first; those of equal ops stand in the order in which they were found.
    std::stable_sort(found_.begin(), found_.end(),
                     [](const ModuleCall& left, const ModuleCall& right) {
                       return std::pair(left.begin, right.end) < std::pair(right.begin, left.end);
                     });
    add_adapters();
    if (position_.first) add_model();
    if (position_.behind) end_model();
    for (ModuleCall& call : found_) find_gradients(call);
    return std::move(found_);
  }

 private:
  [[nodiscard]] OpIndex size() const { return static_cast<OpIndex>(block_.ops.size()); }
  void add(ModuleCall call) { found_.push_back(std::move(call)); }

  /// The model, and those around it, the innermost of which has the head.
  void add_model() {
    for (std::uint32_t i = position_.with_head + 2; i > 0; --i) {
      found_.insert(found_.begin(), {0, size(), {}, true, false, i - 1});
    }
  }

  /// The loss is computed within the outer ones, unless the program takes it behind the model's
  /// answer; the inner one ends with the last norm.
  void end_model() {
    if (!found_.empty()) {
      found_.insert(found_.begin(),
                    {0, found_.front().end, {}, false, true, position_.with_head + 1});
      return;
    }
    ModuleCall around{0, end_of_answer(), {}, false, true, position_.with_head};
    for (OpIndex i = 0; position_.reads_weights && i < around.end; ++i) {
      for (const TensorId parameter : parameters_of(i)) add_to(around.reads, parameter);
    }
    found_.push_back(around);
    around.reads.clear();
    for (; around.around > 0; found_.insert(found_.begin(), around)) --around.around;
  }

  [[nodiscard]] OpIndex end_of_answer() const {
    const auto last = std::ranges::find_if(block_.ops, &Op::ends_autocast);
    return last == block_.ops.end() ? size() : static_cast<OpIndex>(last - block_.ops.begin() + 1);
  }

  [[nodiscard]] bool is_outside(OpIndex op) const {
    return std::find(kOutsideBranches.begin(), kOutsideBranches.end(), block_.ops[op].name) !=
           kOutsideBranches.end();
  }

  void add_branches() {
    for (OpIndex i = 0; i < size();) {
      const OpIndex begin = i;
      if (is_outside(i++)) continue;
      const bool feeds = block_.ops[begin].part_of.feed_forward;
      while (i < size() && !is_outside(i) && block_.ops[i].part_of.feed_forward == feeds) ++i;
      add({begin, i, {}});
    }
  }

  [[nodiscard]] std::vector<TensorId> parameters_of(OpIndex op) const {
    std::vector<TensorId> parameters;
    for (const TensorId input : block_.ops[op].inputs) {
      const TensorId storage = block_.tensors[input].storage;
      if (block_.tensors[storage].role == Role::parameter) parameters.push_back(storage);
    }
    return parameters;
  }

  /// Modules that an op is, whatever parameters it has.
  [[nodiscard]] bool is_module_alone(OpIndex op) const {
    const Op& own = block_.ops[op];
    const bool drops = own.kind == OpKind::dropout && !own.part_of.attention_core;
    return own.kind == OpKind::activation || drops || own.name == "rotary_table";
  }

  /// A product's module is the product, a dropout's the dropout; what else lies in a module's
  /// forward shares its name.
  void add_modules() {
    for (OpIndex i = 0; i < size();) {
      OpIndex end = i + 1;
      while (end < size() && block_.ops[end].name == block_.ops[i].name) ++end;
      add_module(i, end);
      i = end;
    }
  }

  void add_module(OpIndex begin, OpIndex end) {
    ModuleCall call{begin, begin, {}};
    for (OpIndex i = begin; i < end; ++i) {
      const std::vector<TensorId> parameters = parameters_of(i);
      if (parameters.empty() && !is_module_alone(i)) continue;
      const OpKind kind = block_.ops[i].kind;
      const bool is_whole =
          kind == OpKind::linear || kind == OpKind::embedding || kind == OpKind::dropout;
      if (is_whole && call.parameters.empty()) call.begin = i;
      call.end = i + 1;
      for (const TensorId parameter : parameters_of(i)) add_to(call.parameters, parameter);
    }
    if (call.end > call.begin) add(std::move(call));
  }

  static void add_to(std::vector<TensorId>& parameters, TensorId parameter) {
    if (std::ranges::find(parameters, parameter) == parameters.end()) {
      parameters.push_back(parameter);
    }
  }

  void add_adapters() {
    for (OpIndex i = 0; i < size(); ++i) {
      if (block_.ops[i].name.ends_with(kFirstMatrix) && !parameters_of(i).empty()) add_adapter(i);
    }
  }

  /// lora.Linear.forward, whose first matrix the op `first` multiplies by. An Identity lies between
  /// two ops, behind the base layer's, and stands before that one among the calls: their forwards
  /// are told apart by where they begin, and its backward comes first.
  void add_adapter(OpIndex first) {
    const std::string_view name = block_.ops[first].name;
    const std::string_view layer = name.substr(0, name.size() - kFirstMatrix.size());
    const std::string_view adapter = name.substr(0, layer.size() + kAdapter.size());
    const auto named = [&](OpIndex op) { return block_.ops[op].name; };
    OpIndex behind_base = first;
    while (behind_base > 0 && named(behind_base - 1) == adapter) --behind_base;
    ModuleCall around{behind_base, first};
    while (around.begin > 0 && named(around.begin - 1) == layer) --around.begin;
    while (around.begin > 0 && named(around.begin - 1) == adapter) --around.begin;
    while (around.end < size() && named(around.end).starts_with(adapter)) ++around.end;
    around.reads = parameters_of(first);
    // lora.Linear4bit clones what its layer answers before it reads the type.
    const bool clones = answers(behind_base, kClone);
    around.read_before = behind_base + (clones ? 1U : 0U);
    auto at = std::ranges::find_if(found_, [&](const ModuleCall& call) {
      return call.begin >= around.begin && call.end <= around.end;
    });
    const bool drops =
        std::ranges::any_of(std::span(block_.ops).subspan(behind_base, first - behind_base),
                            [](const Op& op) { return op.kind == OpKind::dropout; });
    if (!drops) at = found_.insert(at, {first, first});
    found_.insert(at, std::move(around));
  }

  [[nodiscard]] bool answers(OpIndex op, std::string_view tensor) const {
    return block_.tensors[block_.ops[op].outputs.front()].name == tensor;
  }

  [[nodiscard]] bool is_parameter(TensorId tensor) const {
    return block_.tensors[block_.tensors[tensor].storage].role == Role::parameter;
  }

  /// Whether the op hands a gradient on to `tensor`.
  [[nodiscard]] static bool gives_gradient(const Op& op, TensorId tensor) {
    return std::ranges::find(op.gradients, tensor, &InputGradient::input) != op.gradients.end();
  }

  /// Whether a gradient comes to what the op is given, weights aside.
  [[nodiscard]] bool reaches_input(OpIndex op) const {
    return std::ranges::any_of(block_.ops[op].gradients, [this](const InputGradient& gradient) {
      return !is_parameter(gradient.input);
    });
  }

  /// Whether one comes to what it answers. Embeddings may be told to want one
  /// (enable_input_require_grads), though nothing before them does.
  [[nodiscard]] bool reaches_output(OpIndex op) const {
    if (!block_.ops[op].gradients.empty()) return true;
    const TensorId answer = block_.ops[op].outputs.front();
    if (answer == block_.output) return position_.answer_wants_gradient;
    const auto later = std::span(block_.ops).subspan(op + 1U);
    return std::ranges::any_of(later, [&](const Op& one) { return gives_gradient(one, answer); });
  }

  /// The model answers a loss that wants one.
  void find_gradients(ModuleCall& call) const {
    const bool is_whole = call.begins && call.ends;
    call.answers = call.end == 0 ? 0 : call.end - 1;
    while (!is_whole && call.answers > call.begin && block_.ops[call.answers].gradients.empty()) {
      --call.answers;
    }
    call.ends_backward = is_whole && reaches_input(call.begin);
    if (!is_whole) return;
    const bool empty = call.begin == call.end;
    call.has_backward = empty ? call.ends_backward : reaches_output(call.end - 1);
  }

  const Block& block_;
  BlockPosition position_;
  std::vector<ModuleCall> found_;
};

/// How many ops of `plain` stand before each of `adapted`, and behind its last one: those of an
/// adapter, which it has not, are skipped.
std::vector<OpIndex> ops_before(const Block& adapted, const Block& plain) {
  std::vector<OpIndex> before;
  OpIndex next = 0;
  for (const Op& op : adapted.ops) {
    before.push_back(next);
    if (next < plain.ops.size() && plain.ops[next].name == op.name) ++next;
  }
  before.push_back(next);
  return before;
}

}  // namespace

std::vector<PlainCall> calls_without_adapters(const Block& adapted,
                                              const std::vector<ModuleCall>& calls,
                                              const Block& plain) {
  const std::vector<OpIndex> before = ops_before(adapted, plain);
  std::vector<PlainCall> kept;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    PlainCall one{calls[i], i};
    one.call.begin = before[calls[i].begin];
    one.call.end = before[calls[i].end];
    if (one.call.begin == one.call.end) continue;
    // Where it reads the type of a matrix of its adapter, it does not.
    const bool reads = before[calls[i].read_before] != before[calls[i].read_before + 1U];
    one.call.read_before = before[calls[i].read_before];
    if (!reads) one.call.reads.clear();
    kept.push_back(std::move(one));
  }
  return kept;
}

std::vector<ModuleCall> module_calls(const Block& block, BlockPosition position) {
  return ModuleFinder(block, position).find();
}

}  // namespace memest
