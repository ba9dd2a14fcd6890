#include "graph/lower/compile/region_values.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "graph/index_lists.hpp"

namespace memest {
namespace {

/// Whether the op makes numbers of every row beside its result, which is recomputed from them.
/// _functorch/partitioners.py, should_ban_recomputation: an op whose output is 4 times smaller than
/// its inputs ("reduction op") is never recomputed, so 1/rms of a row of 4096 is kept and the
/// normed row recomputed from it.
bool has_row_statistics(const Op& op) {
  return op.kind == OpKind::layernorm || op.kind == OpKind::rmsnorm || op.kind == OpKind::softmax;
}

bool is_view_of_all(const Op& op, const Block& block) {
  return op.kind == OpKind::view && op.outputs.size() == 1 &&
         block.tensors[op.outputs[0]].elements() == block.tensors[op.inputs[0]].elements();
}

}  // namespace

RegionValues::RegionValues(Block& block, RegionInput input) : block_(block), input_(input) {
  add_softmax_statistics();
  keep_normalized_rows();
  name_runners();
  name_values();
  give_storages();
  find_far_sums();
  wants_gradient_.assign(block.tensors.size(), false);
  for (const Op& op : block.ops) {
    for (const InputGradient& gradient : op.gradients) {
      wants_gradient_[values_[gradient.input]] = true;
    }
  }
  kept_.assign(block.tensors.size(), false);
  narrow();
  keep();
  keep_sources_of_narrowed();
}

/// Inductor's softmax is two passes over a row: its largest element, and the sum of powers.
void RegionValues::add_softmax_statistics() {
  // inductor_prims.prepare_softmax_online.
  static constexpr std::array<std::string_view, 2> kStatistics = {"largest", "logarithm of sum"};
  for (Op& op : block_.ops) {
    if (op.kind != OpKind::softmax) continue;
    for (const std::string_view name : kStatistics) {
      Tensor row;
      row.op = op.name;
      row.name = name;
      row.shape = block_.tensors[op.outputs.front()].shape;
      row.shape.back() = Expr(1);
      row.storage = static_cast<TensorId>(block_.tensors.size());
      op.outputs.push_back(row.storage);
      block_.tensors.push_back(std::move(row));
    }
  }
}

bool RegionValues::is_sum(TensorId tensor) const {
  if (tensor == block_.input) return input_ != RegionInput::argument;
  return std::any_of(block_.ops.begin(), block_.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::add && op.outputs.front() == tensor;
  });
}

/// _inductor/decomposition: native_layer_norm_backward reads the normalized rows and the reciprocal
/// deviation. solve_min_cut counts a value that only fused kernels read twice, the sum and the rows
/// alike, and the sum asks for the mean as well: the rows are kept where they are as narrow. A sum
/// of two arguments is not there at all: its addends are.
void RegionValues::keep_normalized_rows() {
  if (input_ == RegionInput::argument) return;
  for (Op& op : block_.ops) {
    const TensorId x = op.inputs.empty() ? 0 : op.inputs.front();
    const bool keeps_mean = op.kind == OpKind::layernorm && op.outputs.size() > 2;
    if (!keeps_mean || !is_sum(x) || block_.tensors[x].dtype != DType::fp32) continue;
    Tensor rows;
    rows.op = op.name;
    rows.name = "normalized";
    rows.shape = block_.tensors[x].shape;
    rows.dtype = DType::fp32;
    rows.storage = static_cast<TensorId>(block_.tensors.size());
    std::replace(op.saved.begin(), op.saved.end(), x, rows.storage);
    // Where the addends of the model's first sum are kept, the mean is beside them.
    const bool of_addends = input_ == RegionInput::addends && x == block_.input;
    if (!of_addends) std::erase(op.saved, op.outputs[1]);
    op.outputs.push_back(rows.storage);
    block_.tensors.push_back(std::move(rows));
  }
}

Runner RegionValues::runner_of(const Op& op) const {
  if (op.by_caller) return Runner::caller;
  if (!op.forward_messages.empty()) return Runner::library;
  if (is_view_of_all(op, block_)) return Runner::nobody;
  // Inductor writes no kernels for complex numbers, of which rotations are.
  // _inductor/lowering.py, unsupported_input_tensor: t.is_complex() falls back to ATen's kernels.
  // Integers are padded by aten.constant_pad_nd, which partitioners.py does not list among what is
  // computed again, or counted, and kept.
  const bool integers =
      op.kind == OpKind::copy && block_.tensors[op.outputs.front()].dtype == DType::int64;
  const bool library = class_of(op.kind) == OpClass::contraction || op.kind == OpKind::embedding ||
                       op.kind == OpKind::rotary || integers;
  return library ? Runner::library : Runner::generated;
}

/// Parts of a value that a library kernel reads are parts in memory, and their gradients are joined
/// by an operation of their own.
void RegionValues::name_runners() {
  for (const Op& op : block_.ops) runners_.push_back(runner_of(op));
  std::vector<TensorId> read;
  for (std::size_t i = block_.ops.size(); i-- > 0;) {
    const Op& op = block_.ops[i];
    const bool reads = runners_[i] == Runner::library || runners_[i] == Runner::nobody;
    const auto is_read = [&](TensorId id) { return has(read, id); };
    const bool read_on = std::any_of(op.outputs.begin(), op.outputs.end(), is_read);
    if (runners_[i] == Runner::generated && op.kind == OpKind::view && read_on) {
      runners_[i] = Runner::library;
    }
    if (runners_[i] == Runner::library || (reads && read_on)) {
      read.insert(read.end(), op.inputs.begin(), op.inputs.end());
    }
  }
}

void RegionValues::name_values() {
  for (TensorId id = 0; id < block_.tensors.size(); ++id) values_.push_back(id);
  makers_.resize(block_.tensors.size());
  // fx_graph_cse (_functorch/compile_utils.py): q, k, v, gate and up share one bf16 copy of their
  // input, where eager autocast makes a copy for each.
  std::map<std::pair<TensorId, DType>, TensorId> casts;
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& op = block_.ops[i];
    if (runners_[i] == Runner::caller) continue;
    if (runners_[i] == Runner::nobody) {
      values_[op.outputs.front()] = values_[op.inputs.front()];
      continue;
    }
    if (op.kind == OpKind::cast && !op.inputs.empty()) {
      const TensorId out = op.outputs.front();
      const auto [known, fresh] =
          casts.insert({{values_[op.inputs.front()], block_.tensors[out].dtype}, out});
      values_[out] = known->second;
      if (!fresh) {
        runners_[i] = Runner::nobody;
        continue;
      }
    }
    for (const TensorId out : op.outputs) makers_[out] = i;
  }
}

void RegionValues::give_storages() {
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    Tensor& tensor = block_.tensors[id];
    const TensorId value = values_[id];
    if (value != id) {
      tensor.storage = block_.tensors[value].storage;
    } else if (makers_[id] && block_.ops[*makers_[id]].kind == OpKind::view) {
      tensor.storage = block_.tensors[values_[block_.ops[*makers_[id]].inputs.front()]].storage;
    } else if (is_generated(id)) {
      tensor.storage = id;
    }
    // Autocast's cache is not asked within a region.
    // The casts are traced as operations, and the graph holds their results, not autocast's cache.
    if (makers_[id] && tensor.role == Role::cast_parameter) tensor.role = Role::activation;
  }
}

/// partitioners.py, ban_if_used_far_apart: of a value that a fused kernel makes, readers behind the
/// first unfusible operation on any way from it are not computed again.
void RegionValues::find_far_sums() {
  far_sums_.assign(block_.ops.size(), false);
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& op = block_.ops[i];
    if (op.kind != OpKind::add || runners_[i] != Runner::generated) continue;
    far_sums_[i] = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      const TensorId value = values_[input];
      const bool fusible =
          value == block_.input ? input_ != RegionInput::argument : is_generated(value);
      return fusible && first_library_kernel_behind(value) < i;
    });
  }
}

std::size_t RegionValues::first_library_kernel_behind(TensorId value) const {
  std::vector<bool> reached(block_.tensors.size(), false);
  reached[value] = true;
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& op = block_.ops[i];
    const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                   [&](TensorId input) { return reached[values_[input]]; });
    if (!reads) continue;
    if (runners_[i] == Runner::library) return i;
    for (const TensorId out : op.outputs) reached[values_[out]] = true;
  }
  return block_.ops.size();
}

bool RegionValues::is_remembered(TensorId value) const {
  if (!is_generated(value)) return false;
  if (is_far_sum(value)) return true;
  const Op& op = block_.ops[*makers_[value]];
  if (op.kind == OpKind::reduce) return true;
  // partitioners.py: a "random op" is not recomputed; Inductor keeps its boolean mask.
  if (op.kind == OpKind::dropout) return value == op.outputs.front();
  return has_row_statistics(op) && value != op.outputs.front();
}

/// The value lies a step nearer to the backward than its sources. A sum of a product and its
/// adapter's is kept rather than both; what is kept anyway costs nothing.
bool RegionValues::costs_less(const Tensor& value, const std::vector<TensorId>& sources) const {
  std::int64_t bytes = 0;  // an element
  for (const TensorId id : sources) {
    const Tensor& source = block_.tensors[id];
    const bool free = kept_[id] || source.role == Role::parameter || source.shared;
    if (!free && source.elements() == value.elements()) bytes += size_of(source.dtype);
  }
  return kTenthsOfFused * size_of(value.dtype) < kTenthsOfStep * bytes;
}

void RegionValues::append_sources(TensorId value, std::vector<TensorId>& sources) const {
  // min_cut_rematerialization_partition, by rule instead of by flow: pointwise values are computed
  // again from the nearest kept ones.
  if (!is_generated(value) || kept_[value] || is_remembered(value)) {
    return add_once(sources, value);
  }
  const Op& op = block_.ops[*makers_[value]];
  std::vector<TensorId> before;
  for (const TensorId input : op.inputs) append_sources(values_[input], before);
  if (costs_less(block_.tensors[value], before)) return add_once(sources, value);
  for (const TensorId source : before) add_once(sources, source);
  if (!has_row_statistics(op) && op.kind != OpKind::dropout) return;
  for (const TensorId beside : op.outputs) {
    if (is_remembered(beside)) add_once(sources, beside);
  }
}

std::vector<TensorId> RegionValues::read_by_derivative(std::size_t at, TensorId value) const {
  const Op& op = block_.ops[at];
  std::vector<TensorId> sources;
  // The derivative by one factor reads the other: x·x reads x once.
  const bool product = op.kind == OpKind::multiply && op.inputs.size() == 2;
  if (product && values_[op.inputs[0]] != values_[op.inputs[1]]) {
    const TensorId other = values_[op.inputs[values_[op.inputs[0]] == value ? 1 : 0]];
    append_sources(other, sources);
    return sources;
  }
  for (const TensorId saved : op.saved) append_sources(values_[saved], sources);
  return sources;
}

/// Keeps what library kernels read first: others need not compute again what those have kept.
/// partitioners.py, is_materialized_backwards ("materialized in backward"): a product's input is
/// read there by the product for its weight's gradient, so recomputing it would not be free.
void RegionValues::keep() {
  const auto is_parameter = [this](TensorId value) {
    return block_.tensors[value].role == Role::parameter;
  };
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    if (runners_[i] != Runner::library) continue;
    for (const TensorId saved : block_.ops[i].saved) {
      if (!narrowed_[values_[saved]]) kept_[values_[saved]] = true;
    }
  }
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    if (runners_[i] != Runner::generated) continue;
    for (const InputGradient& gradient : block_.ops[i].gradients) {
      for (const TensorId source : read_by_derivative(i, values_[gradient.input])) {
        if (!is_parameter(source)) kept_[source] = true;
      }
    }
  }
}

void RegionValues::narrow() {
  narrowed_.assign(block_.tensors.size(), false);
  std::vector<bool> read_whole(block_.tensors.size(), false);
  read_whole[values_[block_.output]] = true;
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& op = block_.ops[i];
    if (runners_[i] == Runner::nobody) continue;
    for (const TensorId input : op.inputs) {
      const TensorId value = values_[input];
      const bool casts = is_in_float8(op) && is_generated(value);
      (casts ? narrowed_ : read_whole)[value] = true;
    }
  }
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    narrowed_[id] = narrowed_[id] && !read_whole[id];
  }
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    if (narrowed_[values_[id]]) block_.tensors[id].dtype = DType::fp8;
  }
}

/// A cast is a pointwise kernel that the partitioner lets run again, as what stands before it.
void RegionValues::keep_sources_of_narrowed() {
  for (TensorId id = 0; id < block_.tensors.size(); ++id) {
    if (!narrowed_[id]) continue;
    std::vector<TensorId> sources;
    append_sources(id, sources);
    for (const TensorId source : sources) {
      if (block_.tensors[source].role != Role::parameter) kept_[source] = true;
    }
  }
}

}  // namespace memest
