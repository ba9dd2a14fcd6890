#include "memory/deepspeed/module_calls.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
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
    if (position_.first) add_model();
    if (position_.behind) end_model();
    return std::move(found_);
  }

 private:
  [[nodiscard]] OpIndex size() const { return static_cast<OpIndex>(block_.ops.size()); }
  void add(ModuleCall call) { found_.push_back(std::move(call)); }

  /// The model, and the one around it that has the head.
  void add_model() {
    ModuleCall around{0, size(), {}, true, false};
    found_.insert(found_.begin(), around);
    around.outermost = true;
    found_.insert(found_.begin(), around);
  }

  /// The loss is computed within the outer one, unless the program takes it behind the model's
  /// answer; the inner one ends with the last norm.
  void end_model() {
    const bool is_loss = found_.empty();
    const OpIndex end = is_loss ? end_of_answer() : found_.front().end;
    ModuleCall around{0, end, {}, false, true, is_loss};
    for (OpIndex i = 0; position_.reads_weights && i < end; ++i) add_parameters(around, i);
    found_.insert(found_.begin(), std::move(around));
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
      const bool feeds = block_.ops[begin].feed_forward;
      while (i < size() && !is_outside(i) && block_.ops[i].feed_forward == feeds) ++i;
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
    const bool drops = own.kind == OpKind::dropout && !own.attention_core;
    return own.kind == OpKind::activation || drops || own.name == "rotary_table";
  }

  /// A product's module is the product; what else lies in a module's forward shares its name.
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
      const bool product = kind == OpKind::linear || kind == OpKind::embedding;
      if (product && call.parameters.empty()) call.begin = i;
      call.end = i + 1;
      add_parameters(call, i);
    }
    if (call.end > call.begin) add(std::move(call));
  }

  void add_parameters(ModuleCall& call, OpIndex op) const {
    std::vector<TensorId>& own = call.parameters;
    for (const TensorId parameter : parameters_of(op)) {
      if (std::find(own.begin(), own.end(), parameter) == own.end()) own.push_back(parameter);
    }
  }

  const Block& block_;
  BlockPosition position_;
  std::vector<ModuleCall> found_;
};

}  // namespace

std::vector<ModuleCall> module_calls(const Block& block, BlockPosition position) {
  return ModuleFinder(block, position).find();
}

}  // namespace memest
