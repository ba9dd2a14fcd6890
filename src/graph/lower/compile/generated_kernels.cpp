#include "graph/lower/compile/generated_kernels.hpp"

#include <algorithm>
#include <utility>

#include "graph/index_lists.hpp"

namespace memest {
namespace {

/// A dropout makes its mask first, others their statistics last.
TensorId result_of(const Op& op) {
  return op.kind == OpKind::dropout ? op.outputs.back() : op.outputs.front();
}

}  // namespace

std::vector<TensorId> GeneratedKernel::kept() const {
  std::vector<TensorId> all;
  for (const FusedGradient& gradient : gradients) {
    for (const TensorId value : gradient.reads) add_once(all, value);
  }
  return all;
}

GeneratedKernels::GeneratedKernels(const Block& block, const RegionValues& values)
    : block_(block), values_(values) {
  find_results();
  find_joints();
  std::vector<TensorId> made;
  for (const TensorId result : results_) {
    for (const std::size_t op : cone(result, false)) {
      for (const TensorId out : block_.ops[op].outputs) {
        if (!is_joint(out) || out == result || has(made, out)) continue;
        made.push_back(out);
        write(out, true);
      }
    }
    write(result, false);
  }
}

bool GeneratedKernels::is_in_memory(TensorId value) const {
  return !values_.is_generated(value) || has(results_, value);
}

bool GeneratedKernels::is_joint(TensorId value) const { return has(joints_, value); }

// Extern kernels (mm, attention) read buffers: what they read is realized, the rest is inlined into
// its readers (_inductor/ir.py, StorageBox.realize).
void GeneratedKernels::find_results() {
  const auto ask = [this](TensorId tensor) {
    const TensorId value = values_.value(tensor);
    if (values_.is_generated(value)) add_once(results_, value);
  };
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    if (values_.runner(i) != Runner::library) continue;
    for (const TensorId input : block_.ops[i].inputs) ask(input);
  }
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    const bool beside = values_.is_remembered(id) && !values_.is_far_sum(id);
    if (values_.is_kept(id) && !beside) ask(id);
  }
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    if (block_.tensors[id].outlives_block) ask(id);
  }
  ask(block_.output);
}

/// Makes a joint of the latest value that several kernels compute: it owns what stands before it.
/// A pointwise value with several readers is computed in each, but AOTAutograd's backward sums its
/// gradients once.
void GeneratedKernels::find_joints() {
  while (true) {
    std::vector<std::size_t> times(block_.ops.size(), 0);
    const auto count = [&](TensorId value) {
      for (const std::size_t op : cone(value, true)) ++times[op];
    };
    for (const TensorId value : results_) count(value);
    for (const TensorId value : joints_) count(value);
    const auto is_shared = [&](std::size_t op) {
      return times[op] > 1 && values_.wants_gradient(result_of(block_.ops[op]));
    };
    std::size_t latest = block_.ops.size();
    while (latest > 0 && !is_shared(latest - 1)) --latest;
    if (latest == 0) return;
    joints_.push_back(result_of(block_.ops[latest - 1]));
  }
}

std::vector<std::size_t> GeneratedKernels::cone(TensorId value, bool stops) const {
  std::vector<bool> inside(block_.ops.size(), false);
  std::vector<TensorId> open = {value};
  while (!open.empty()) {
    const TensorId next = open.back();
    open.pop_back();
    const bool ends = next != value && (is_in_memory(next) || (stops && is_joint(next)));
    if (ends || !values_.is_generated(next)) continue;
    const std::size_t op = *values_.maker(next);
    if (inside[op]) continue;
    inside[op] = true;
    for (const TensorId input : block_.ops[op].inputs) open.push_back(values_.value(input));
  }
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i]) ops.push_back(i);
  }
  return ops;
}

void GeneratedKernels::write(TensorId result, bool is_joint) {
  GeneratedKernel kernel;
  kernel.result = result;
  kernel.is_joint = is_joint;
  kernel.ops = cone(result, true);
  for (const std::size_t op : cone(result, false)) {
    for (const TensorId input : block_.ops[op].inputs) {
      const TensorId value = values_.value(input);
      if (is_in_memory(value)) add_once(kernel.reads, value);
    }
  }
  const Expr elements = block_.tensors[result].elements();
  for (const std::size_t i : kernel.ops) {
    const Op& op = block_.ops[i];
    for (const TensorId out : op.outputs) {
      const bool remembered = values_.is_remembered(out) && values_.is_kept(out);
      if (remembered && !is_in_memory(out)) kernel.remembers.push_back(out);
    }
    if (class_of(op.kind) != OpClass::elementwise ||
        block_.tensors[op.outputs.back()].elements() != elements) {
      kernel.is_elementwise = false;
    }
  }
  if (values_.wants_gradient(result) || result == values_.value(block_.output)) {
    write_gradients(kernel);
  }
  list_.push_back(std::move(kernel));
}

/// A sum hands its gradient on as it is.
TensorId GeneratedKernels::end_of_sums(const GeneratedKernel& kernel, TensorId input) const {
  TensorId at = input;
  while (at != kernel.result) {
    std::vector<std::size_t> readers;
    for (const std::size_t i : kernel.ops) {
      const std::vector<TensorId>& inputs = block_.ops[i].inputs;
      const auto reads = [&](TensorId id) { return values_.value(id) == at; };
      if (std::any_of(inputs.begin(), inputs.end(), reads)) readers.push_back(i);
    }
    if (readers.size() != 1) return at;
    const Op& op = block_.ops[readers.front()];
    const TensorId out = op.outputs.front();
    // derivatives.yaml, add.Tensor: both gradients are the incoming one.
    const bool sums = op.kind == OpKind::add && op.saved.empty() &&
                      block_.tensors[out].elements() == block_.tensors[at].elements();
    if (!sums) return at;
    at = out;
  }
  return at;
}

FusedGradient GeneratedKernels::gradient_of(const GeneratedKernel& kernel, TensorId input) const {
  FusedGradient made;
  made.like = input;
  made.ends_at = end_of_sums(kernel, input);
  made.inputs = {input};
  std::vector<TensorId> reached = {input};
  for (const std::size_t i : kernel.ops) {
    const Op& op = block_.ops[i];
    bool passes = false;
    for (const InputGradient& gradient : op.gradients) {
      const TensorId value = values_.value(gradient.input);
      if (!has(reached, value)) continue;
      passes = true;
      for (const TensorId read : values_.read_by_derivative(i, value)) {
        add_once(made.reads, read);
      }
    }
    if (passes) reached.insert(reached.end(), op.outputs.begin(), op.outputs.end());
  }
  return made;
}

void GeneratedKernels::write_gradients(GeneratedKernel& kernel) const {
  std::vector<TensorId> inputs;
  for (const std::size_t i : kernel.ops) {
    for (const InputGradient& gradient : block_.ops[i].gradients) {
      const TensorId value = values_.value(gradient.input);
      const bool leaf = is_in_memory(value) || is_joint(value);
      if (leaf && value != kernel.result) add_once(inputs, value);
    }
  }
  for (const TensorId input : inputs) {
    FusedGradient made = gradient_of(kernel, input);
    const Tensor& tensor = block_.tensors[input];
    const bool parameter = tensor.role == Role::parameter;
    // Inputs of one sum share their gradient: the residual stream's and the branch's are one
    // buffer.
    const auto same = std::find_if(kernel.gradients.begin(), kernel.gradients.end(),
                                   [&](const FusedGradient& other) {
                                     return !parameter && other.ends_at == made.ends_at &&
                                            block_.tensors[other.like].dtype == tensor.dtype;
                                   });
    if (same == kernel.gradients.end()) {
      kernel.gradients.push_back(std::move(made));
    } else {
      same->inputs.push_back(input);
    }
  }
}

std::vector<std::size_t> GeneratedKernels::needed_for(TensorId value) const {
  std::vector<std::size_t> needed;
  std::size_t first = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (!list_[i].is_joint && list_[i].result == value) {
      for (std::size_t k = first; k <= i; ++k) needed.push_back(k);
      return needed;
    }
    if (!list_[i].is_joint) first = i + 1;
  }
  return needed;
}

}  // namespace memest
