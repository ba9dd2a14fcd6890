#include "memory/engine/forward_order.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::string_view kTokenIds = "token ids";
constexpr std::string_view kLabels = "labels";

/// All of a block that the model does not end in.
std::uint32_t ops_of_loss(const Block& last) {
  const auto ends = std::ranges::find_if(last.ops, &Op::ends_model);
  const auto first = ends == last.ops.end() ? last.ops.begin() : ends + 1;
  return static_cast<std::uint32_t>(last.ops.end() - first);
}

bool is_leaf_parameter(const Tensor& tensor, TensorId id) {
  return tensor.role == Role::parameter && tensor.storage == id;
}

/// The input embedding's table, which a tied output head shares: the first that is looked up.
TensorId embedding_table(const Block& block) {
  for (const Op& op : block.ops) {
    if (op.kind != OpKind::embedding) continue;
    for (const TensorId id : op.inputs) {
      if (is_leaf_parameter(block.tensors[id], id)) return id;
    }
  }
  unreachable("a tied weight has an embedding to be tied to");
}

}  // namespace

bool answers_logits(const Graph& graph) {
  const Block& loss = graph.blocks[graph.order.back().block];
  return !graph.trains ||
         std::none_of(loss.tensors.begin(), loss.tensors.end(),
                      [](const Tensor& tensor) { return tensor.role == Role::parameter; });
}

ForwardOrder::ForwardOrder(const Graph& graph, const std::optional<LaunchDevice>& device) {
  programs_.reserve(graph.blocks.size());
  for (const Block& block : graph.blocks) programs_.push_back(compile(block, graph.sizes, device));
  for (std::size_t at = 0; at < graph.order.size(); ++at) {
    const BlockRun& run = graph.order[at];
    const bool begins = graph.stages.empty() ? at == 0
                                             : std::find(graph.stages.begin(), graph.stages.end(),
                                                         at) != graph.stages.end();
    if (begins) first_of_stage_.push_back(static_cast<std::uint32_t>(instances_.size()));
    const auto block = static_cast<std::uint32_t>(run.block);
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      instances_.push_back({block, cells_});
      cells_ += static_cast<std::uint32_t>(graph.blocks[block].tensors.size());
    }
  }
  cell_of_.resize(cells_);
  storage_cell_of_.resize(cells_);
  is_one_region_ = graph.is_one_region;
  find_owners(graph);
  for (std::uint32_t i = 0; i < instances_.size(); ++i) link(graph, i);
  count_contributions();
  find_ends(graph);
  find_stages(graph);
}

void ForwardOrder::find_owners(const Graph& graph) {
  std::vector<std::uint32_t> layers;
  for (std::uint32_t i = 0; i < instances_.size(); ++i) {
    owners_.push_back(i);
    if (graph.blocks[instances_[i].block].checkpointable) layers.push_back(i);
  }
  if (!graph.shared_layers) return;
  const auto count = static_cast<std::int64_t>(layers.size());
  for (std::int64_t layer = 0; layer < count; ++layer) {
    const std::int64_t owner = graph.shared_layers->owner_of(layer, count);
    owners_[layers[static_cast<std::size_t>(layer)]] = layers[static_cast<std::size_t>(owner)];
  }
}

bool ForwardOrder::begins_stage(std::uint32_t instance) const {
  return std::find(first_of_stage_.begin(), first_of_stage_.end(), instance) !=
         first_of_stage_.end();
}

void ForwardOrder::find_stages(const Graph& graph) {
  for (const std::uint32_t first : first_of_stage_) {
    const Block& block = graph.blocks[instances_[first].block];
    const auto begin = std::find_if(sites_.begin(), sites_.end(),
                                    [first](const OpSite& site) { return site.instance == first; });
    const auto at = static_cast<std::uint32_t>(begin - sites_.begin());
    if (!stages_.empty()) {
      stages_.back().end = stages_.back().loss = at;
      stages_.back().output = output_cell(first - 1);
    }
    stages_.push_back({at, 0, 0, storage_cell(first, block.input), 0});
  }
  const auto last = static_cast<std::uint32_t>(instances_.size() - 1);
  const auto end = static_cast<std::uint32_t>(sites_.size());
  const std::uint32_t of_loss =
      graph.trains ? ops_of_loss(graph.blocks[instances_[last].block]) : 0;
  stages_.back().end = end;
  stages_.back().loss = end - of_loss;
  stages_.back().output = output_cell(last);
}

std::vector<Cell> ForwardOrder::cells_named(std::string_view name) const {
  for (const NamedCell& named : named_) {
    if (named.name == name) return {named.cell};
  }
  return {};
}

void ForwardOrder::link(const Graph& graph, std::uint32_t instance) {
  const auto [index, first] = instances_[instance];
  const Block& block = graph.blocks[index];
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    const Tensor& tensor = block.tensors[id];
    Cell& cell = cell_of_[first + id];
    Cell& storage = storage_cell_of_[first + id];
    if (tensor.storage != id) {
      cell = first + id;
      continue;  // the storage's cell follows below: a view may come before its base
    }
    if (tensor.role == Role::parameter) {
      cell = storage = parameter_index(graph, instance, id);
    } else if (tensor.role == Role::cast_parameter && shares_weights(instance)) {
      cell = storage = this->cell(owners_[instance], id);
    } else if (tensor.shared || tensor.outlives_block) {
      cell = storage = named_cell(tensor.name);
    } else if (id == block.input && tensor.role == Role::input && !begins_stage(instance)) {
      const Block& previous = graph.blocks[instances_[instance - 1].block];
      cell = this->cell(instance - 1, previous.output);
      storage = storage_cell(instance - 1, previous.output);
    } else {
      cell = storage = first + id;
    }
  }
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    const TensorId base = block.tensors[id].storage;
    if (base != id) storage_cell_of_[first + id] = storage_cell_of_[first + base];
  }
  const auto ops = static_cast<std::uint32_t>(block.ops.size());
  for (std::uint32_t op = 0; op < ops; ++op) {
    const bool reuses = programs_[index].ops[op].casts && shares_weights(instance);
    sites_.push_back({instance, op, reuses});
  }
}

Cell ForwardOrder::named_cell(std::string_view name) {
  const auto known = std::find_if(named_.begin(), named_.end(),
                                  [name](const NamedCell& one) { return one.name == name; });
  if (known != named_.end()) return known->cell;
  named_.push_back({name, cells_});
  return cells_++;
}

std::uint32_t ForwardOrder::parameter_index(const Graph& graph, std::uint32_t instance,
                                            TensorId tensor) {
  const Block& block = graph.blocks[instances_[instance].block];
  if (block.tensors[tensor].shared) {
    return cell(0, embedding_table(graph.blocks[instances_.front().block]));
  }
  if (shares_weights(instance)) return cell(owners_[instance], tensor);
  const BlockProgram& compiled = programs_[instances_[instance].block];
  const Tensor& made = block.tensors[tensor];
  const std::int64_t rows =
      made.shape.empty() ? 1 : narrow_to_int64(made.shape.front().evaluate(graph.sizes));
  bool of_experts = false;
  for (std::uint32_t op = compiled.experts.begin; op < compiled.experts.end; ++op) {
    of_experts = of_experts || std::ranges::count(block.ops[op].inputs, tensor) > 0;
  }
  parameters_.push_back({instance, tensor, compiled.elements[tensor], rows, made.dtype, 0,
                         made.gradient_is_relaid, of_experts, made.unstepped});
  return static_cast<std::uint32_t>(parameters_.size() - 1);
}

void ForwardOrder::count_contributions() {
  for (const OpSite& site : sites_) {
    if (site.reuses) continue;
    const BlockProgram& block = program(site);
    const Slice handed = op(site).handed;
    for (std::uint32_t i = handed.begin; i < handed.end; ++i) {
      if (!block.handed[i].to_parameter) continue;
      ++parameters_[cell(site.instance, block.handed[i].input)].contributions;
    }
  }
}

void ForwardOrder::find_ends(const Graph& graph) {
  const Block& first = graph.blocks[instances_.front().block];
  const Tensor& input = first.tensors[first.input];
  if (!input.shared && input.role == Role::input) {
    batch_cells_.push_back(cell(0, first.input));
    batch_bytes_ = input.bytes().bytes(graph.sizes).value();
  }
  for (const NamedCell& named : named_) {
    if (named.name == kLabels) label_cells_.push_back(named.cell);
    if (named.name != kTokenIds) continue;
    batch_cells_.push_back(named.cell);
    const Expr tokens =
        Expr(Symbol::micro_batch) * (Expr(Symbol::seq_len) - Expr(graph.virtual_tokens));
    batch_bytes_ = (tokens * Expr(size_of(DType::int64))).bytes(graph.sizes).value();
    batch_is_token_ids_ = true;
  }
  for (const Block& block : graph.blocks) {
    for (const Tensor& tensor : block.tensors) {
      const bool images = tensor.shared && tensor.name == kImages;
      if (tensor.shared && tensor.name == kTypesOfTokens) reads_token_types_ = true;
      if (tensor.shared && tensor.name == kImageGrids) {
        grid_bytes_ = tensor.bytes().bytes(graph.sizes).value();
      }
      if (images) image_bytes_ = tensor.bytes().bytes(graph.sizes).value();
    }
  }
  const auto last = static_cast<std::uint32_t>(instances_.size() - 1);
  const Block& end = graph.blocks[instances_[last].block];
  for (const Tensor& tensor : end.tensors) {
    const bool labels = tensor.shared && tensor.name == kLabels && !batch_is_token_ids_;
    if (labels) label_bytes_ = tensor.bytes().bytes(graph.sizes).value();
  }
  loss_cell_ = cell(last, end.output);
  loss_bytes_ = end.tensors[end.output].bytes().bytes(graph.sizes).value();
  if (!answers_logits(graph)) {
    logits_cell_ = named_cell("logits");  // of no storage
    return;
  }
  logits_cell_ = storage_cell(last, graph.trains ? end.input : end.output);
  logits_tensor_ = graph.trains ? end.input : end.output;
  logits_bytes_ = end.tensors[logits_tensor_].bytes().bytes(graph.sizes).value();
  if (is_half(end.tensors[end.input].dtype)) {
    widened_logits_bytes_ = checked_multiply(programs_[instances_[last].block].elements[end.input],
                                             size_of(DType::fp32));
  }
}

std::vector<Cell> ForwardOrder::arguments_of(const Graph& graph, std::uint32_t site) const {
  const std::uint32_t instance = sites_[site].instance;
  const Block& block = graph.blocks[instances_[instance].block];
  std::vector<Cell> arguments = {storage_cell(instance, block.input)};
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    const Tensor& tensor = block.tensors[id];
    const bool named = tensor.shared && tensor.role != Role::parameter && id != block.input;
    if (named) arguments.push_back(storage_cell(instance, id));
  }
  for (const Op& op : block.ops) {
    if (!op.by_caller) break;
    for (const TensorId id : op.outputs) arguments.push_back(storage_cell(instance, id));
  }
  return arguments;
}

std::vector<Cell> ForwardOrder::inputs_of(const Graph& graph, std::uint32_t begin,
                                          std::uint32_t end) const {
  std::vector<Cell> made;
  std::vector<Cell> inputs;
  const auto has = [](const std::vector<Cell>& list, Cell cell_) {
    return std::find(list.begin(), list.end(), cell_) != list.end();
  };
  for (std::uint32_t i = begin; i < end; ++i) {
    const OpSite& site = sites_[i];
    const Block& block = graph.blocks[instances_[site.instance].block];
    const Op& op = block.ops[site.op];
    for (const TensorId id : op.inputs) {
      if (block.tensors[block.tensors[id].storage].role == Role::parameter) continue;
      const Cell found = storage_cell(site.instance, id);
      if (!has(made, found) && !has(inputs, found)) inputs.push_back(found);
    }
    for (const TensorId id : op.outputs) made.push_back(storage_cell(site.instance, id));
  }
  return inputs;
}

}  // namespace memest
