#include "memory/ledger/graph_terms.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/moments/moments.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

const Tensor& storage_of(const Block& block, TensorId id) {
  return block.tensors[block.tensors[id].storage];
}

/// Whether the storage is known beyond its block by `name`.
bool is_named(const Tensor& storage, std::string_view name) {
  return (storage.shared || storage.outlives_block) && storage.name == name;
}

bool any_named(const Block& block, const std::vector<TensorId>& ids, std::string_view name) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](TensorId id) { return is_named(storage_of(block, id), name); });
}

bool is_saved(const Graph& graph, std::string_view name) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [name](const Block& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [&](const Op& op) { return any_named(block, op.saved, name); });
  });
}

PassedOn passed_on(const Graph& graph, std::size_t maker, const Tensor& tensor) {
  PassedOn result{.bytes = tensor.bytes(), .maker = maker, .last = maker, .for_layers = false};
  for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
    const Block& block = graph.blocks[i];
    for (const Op& op : block.ops) {
      if (any_named(block, op.releases, tensor.name)) result.last = i;
      if (block.checkpointable && any_named(block, op.inputs, tensor.name))
        result.for_layers = true;
    }
  }
  return result;
}

/// The layer that comes first, where `id` of the block before it is its input.
std::optional<std::size_t> layer_entered(const Graph& graph, std::size_t maker, TensorId id) {
  const auto made = std::find_if(graph.order.begin(), graph.order.end(),
                                 [maker](const BlockRun& run) { return run.block == maker; });
  if (made == graph.order.end() || std::next(made) == graph.order.end()) return std::nullopt;
  const Block& block = graph.blocks[maker];
  const std::size_t next = std::next(made)->block;
  const bool enters =
      block.tensors[block.output].storage == id && graph.blocks[next].checkpointable;
  return enters ? std::optional(next) : std::nullopt;
}

bool keeps_input(const Block& block) {
  const TensorId input = block.tensors[block.input].storage;
  return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op& op) {
    return std::any_of(op.saved.begin(), op.saved.end(),
                       [&](TensorId id) { return block.tensors[id].storage == input; });
  });
}

/// Whether an operation that runs in the process's first forward alone makes the tensor.
bool is_made_once(const Block& block, TensorId id) {
  return std::any_of(block.ops.begin(), block.ops.end(), [id](const Op& op) {
    return op.once && std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end();
  });
}

/// Bytes of the model's buffers that ops save: they are there anyway.
Expr kept_buffers(const Graph& graph) {
  Expr bytes;
  std::set<std::string_view> seen;
  for (const Block& block : graph.blocks) {
    for (const Op& op : block.ops) {
      for (const TensorId id : op.saved) {
        const Tensor& tensor = storage_of(block, id);
        if (tensor.role != Role::buffer || !tensor.shared) continue;
        if (seen.insert(tensor.name).second) bytes += tensor.bytes();
      }
    }
  }
  return bytes;
}

/// Layers are called with it beside the residual stream; each tensor counts once.
Expr bound_bytes(const Graph& graph) {
  Expr bytes;
  std::set<std::string_view> seen;
  for (const Block& block : graph.blocks) {
    if (!block.checkpointable) continue;
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      const Tensor& tensor = storage_of(block, id);
      const bool is_there = tensor.role == Role::parameter || tensor.role == Role::buffer;
      if (!block.tensors[id].shared || is_there || id == block.input) continue;
      if (seen.insert(tensor.name).second) bytes += tensor.bytes();
    }
  }
  return bytes;
}

}  // namespace

bool PassedOn::is_held_forward(const Site& site, bool checkpoints) const {
  if (site.before[maker] == 0) return false;
  const bool in_its_layer = enters == site.block && site.layers_before == 0;
  // The first checkpoint's input, or what the layer's first operation saved.
  const bool kept = enters && (checkpoints || kept_by_layer);
  return site.before[last] == 0 && !in_its_layer && !kept;
}

Expr passing_bytes(const Graph& graph, const Expr& stream) {
  // The gradient that came last; interleaved also the next input and the next gradient, received
  // ahead.
  constexpr std::int64_t kPassing = 1;
  constexpr std::int64_t kPassingInterleaved = 3;
  return Expr(graph.stages.size() > 1 ? kPassingInterleaved : kPassing) * stream;
}

std::vector<PassedOn> passed_on(const Graph& graph) {
  std::vector<PassedOn> result;
  for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
    const Block& block = graph.blocks[i];
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      const Tensor& tensor = block.tensors[id];
      if (!tensor.outlives_block || tensor.storage != id || is_saved(graph, tensor.name)) continue;
      if (is_made_once(block, id)) continue;
      PassedOn& passed = result.emplace_back(passed_on(graph, i, tensor));
      passed.enters = layer_entered(graph, i, id);
      passed.kept_by_layer = passed.enters && keeps_input(graph.blocks[*passed.enters]);
    }
  }
  return result;
}

Expr shared_bytes(const Graph& graph) { return graph.saved_in_common() - kept_buffers(graph); }

Expr layer_input_bytes(const Block& block) {
  Expr bytes = input_bytes(block);
  for (const Op& op : block.ops) {
    for (const TensorId id : op.outputs) {
      // A checkpoint saves all tensors that its block is called with.
      if (op.by_caller) bytes += block.tensors[id].bytes();
    }
  }
  return bytes;
}

Expr sent_bytes(const Graph& graph) {
  const auto layer = std::ranges::find_if(graph.blocks, &Block::checkpointable);
  if (layer != graph.blocks.end()) return layer_input_bytes(*layer);
  const Block& end = graph.blocks[graph.order.front().block];
  return graph.trains ? input_bytes(end) : end.tensors[end.output].bytes();
}

bool has_equal_stages(const Graph& graph) {
  const std::vector<std::span<const BlockRun>> stages = graph.stage_runs();
  return std::all_of(stages.begin(), stages.end(), [&](const auto& stage) {
    return graph.layers(stage) == graph.layers(stages.front());
  });
}

LedgerTerm answered_term(const Graph& graph, const std::vector<std::int64_t>& before) {
  Expr bytes;
  for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
    const Block& block = graph.blocks[i];
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      const Tensor& tensor = block.tensors[id];
      const auto saves = [&](const Op& op) {
        return std::any_of(op.saved.begin(), op.saved.end(),
                           [&](TensorId saved) { return block.tensors[saved].storage == id; });
      };
      if (tensor.storage != id || !tensor.answered) continue;
      // Keys and values that attention saves count there: the cache refers to them and copies
      // nothing.
      if (std::any_of(block.ops.begin(), block.ops.end(), saves)) continue;
      bytes += before[i] * tensor.bytes();
    }
  }
  return {"key-value cache", TermGroup::activations, bytes,
          "transformers 5.17, DynamicCache: keys and values of every layer, as they are made", ""};
}

LedgerTerm batch_term(const Graph& graph) {
  return {"batch", TermGroup::buffers, input_bytes(graph.blocks[graph.order.front().block]),
          "the loop holds the batch until the next one", ""};
}

LedgerTerm earlier_arguments_term(const Graph& graph, const Job& job, bool backward) {
  const TrainingSpec& training = *job.training;
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  LedgerTerm term = {
      "arguments of the checkpoints of steps before",
      TermGroup::activations,
      {},
      "torch/utils/checkpoint.py, CheckpointFunction: its node keeps the function, a loss the node",
      ""};
  if (!plan.holds_answer || plan.saves_arguments) return term;
  const LoopHabits& habits = loop_habits_of(training.implementation);
  const bool of_step = habits.keeps_step_loss() && training.steps > 1;
  const bool of_micro_step = !backward && habits.keeps_micro_step_loss() &&
                             (training.gradient_accumulation > 1 || habits.names_outputs);
  const std::int64_t losses = (of_step ? 1 : 0) + (of_micro_step ? 1 : 0);
  if (losses > 0) term.formula = losses * bound_bytes(graph);
  return term;
}

bool batch_is_kept(const Graph& graph) {
  const Block& block = graph.blocks[graph.order.front().block];
  if (block.tensors[block.input].shared) return true;
  for (const Op& op : block.ops) {
    for (const TensorId id : op.saved) {
      if (block.tensors[id].storage == block.input) return true;
    }
  }
  return false;
}

LedgerTerm held_logits_term(const Graph& graph) {
  const Block& last = graph.blocks[graph.order.back().block];
  Expr logits = answers_logits(graph) ? input_bytes(last) : Expr();
  const bool ends_inside = std::ranges::any_of(last.ops, &Op::ends_model);
  for (TensorId id = 0; ends_inside && id < last.tensors.size(); ++id) {
    const Tensor& tensor = last.tensors[id];
    if (tensor.storage == id && tensor.answered) logits += tensor.bytes();
  }
  return {"logits held by the caller", TermGroup::activations, std::move(logits),
          "a loop that keeps the model's outputs keeps the logits until the next forward", ""};
}

namespace {

/// One of every shape of the weights whose gradients are added to the buffer without one.
Expr unread_gradient_bytes(const Graph& graph) {
  std::set<std::vector<std::int64_t>> shapes;
  Expr bytes;
  for (const Block& block : graph.blocks) {
    for (const Op& op : block.ops) {
      // Megatron's wgrad GEMM adds to main_grad; autograd still wants a tensor of the weight's
      // shape.
      if (!op.adds_to_buffer || !op.keeps_unread) continue;
      const Tensor& weight = block.tensors[*op.adds_to_buffer];
      std::vector<std::int64_t> shape;
      for (const Expr& size : weight.shape) {
        shape.push_back(narrow_to_int64(size.evaluate(graph.sizes)));
      }
      if (shapes.insert(std::move(shape)).second) bytes += weight.bytes();
    }
  }
  return bytes;
}

/// Bytes that modules hold between two forwards and no backward waits for.
Expr attribute_bytes(const Graph& graph) {
  Expr bytes;
  for (const BlockRun& run : graph.order) {
    const Block& block = graph.blocks[run.block];
    for (const Op& holder : block.ops) {
      for (const TensorId id : holder.attributes) {
        const TensorId storage = block.tensors[id].storage;
        const auto saves = [&](const Op& op) {
          return std::any_of(op.saved.begin(), op.saved.end(), [&](TensorId saved) {
            return block.tensors[saved].storage == storage;
          });
        };
        if (std::any_of(block.ops.begin(), block.ops.end(), saves)) continue;
        bytes += run.repeat * block.tensors[storage].bytes();
      }
    }
  }
  return bytes;
}

}  // namespace

LedgerTerm loaded_mask_term(const Job& job) {
  const bool loads =
      job.training->implementation.layers == LayerSpec::te && job.parallelism.context == 1;
  const Expr s = Symbol::seq_len;
  return {"attention mask", TermGroup::buffers, loads ? Expr(Symbol::micro_batch) * s * s : Expr(),
          "Megatron-LM, the data loader of its training program: a mask of every sequence, unless "
          "--no-create-attention-mask-in-dataloader",
          ""};
}

std::vector<LedgerTerm> process_terms(const Graph& graph) {
  Expr largest;
  Expr unstepped;
  Expr tables;
  const auto consider = [&](const Expr& bytes) {
    // GlobalMemoryBuffer.get_tensor makes a buffer anew where a larger one is asked for, and never
    // gives one back.
    if (bytes.evaluate(graph.sizes) > largest.evaluate(graph.sizes)) largest = bytes;
  };
  for (const Block& block : graph.blocks) {
    for (const Op& op : block.ops) {
      consider(op.forward_buffer);
      consider(op.backward_buffer);
    }
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      if (block.tensors[id].unstepped) unstepped += block.tensors[id].bytes();
      if (is_made_once(block, id) && block.tensors[id].outlives_block) {
        tables += block.tensors[id].bytes();
      }
    }
  }
  std::vector<LedgerTerm> terms;
  if (!unstepped.is_zero()) {
    terms.push_back({"gradients that no optimizer takes", TermGroup::gradients, unstepped,
                     "litgpt 0.5.13, finetune/lora.py: StableEmbedding wants gradients behind "
                     "mark_only_lora_as_trainable(), and zero_grad() does not know them",
                     ""});
  }
  if (!largest.is_zero()) {
    terms.push_back({"global memory buffer", TermGroup::buffers, largest,
                     "Megatron-core 0.16.1, GlobalMemoryBuffer: attention scores, or what sequence "
                     "parallelism gathers",
                     ""});
  }
  if (const Expr unread = unread_gradient_bytes(graph); !unread.is_zero()) {
    terms.push_back({"unread gradients of the weights' shapes", TermGroup::gradients, unread,
                     "Transformer Engine 2.11, get_dummy_wgrad: one tensor of every shape, for "
                     "gradients that its products add to Megatron's buffer",
                     ""});
  }
  const Expr attributes = attribute_bytes(graph);
  if (!attributes.is_zero()) {
    terms.push_back({"routing that the dispatchers hold", TermGroup::buffers, attributes,
                     "Megatron-core 0.16.1, MoEAlltoAllTokenDispatcher: attributes until the next "
                     "forward",
                     ""});
  }
  if (!tables.is_zero()) {
    terms.push_back({"rotary table", TermGroup::buffers, tables,
                     "Megatron-core 0.16.1, RotaryEmbedding.forward's lru_cache", ""});
  }
  return terms;
}

std::vector<LedgerTerm> teacher_terms(const Graph& graph, const Job& job) {
  const DType type = job.training->teacher->weights;
  const Inventory& teacher = graph.teacher_parameters;
  const std::int64_t bytes = checked_add(checked_multiply(elements_of(teacher), size_of(type)),
                                         buffer_bytes(teacher).value());
  const bool distils = job.training->teacher->use == TeacherUse::distillation;
  const std::string whose = distils ? "the teacher's" : "the reference's";
  return {{whose + " weights (" + std::string(name_of(type)) + ")", TermGroup::weights, Expr(bytes),
           "a frozen model beside the one that is trained", ""}};
}

std::vector<std::size_t> undominated(const std::vector<SizePolynomial>& totals) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const bool dominated = std::any_of(result.begin(), result.end(), [&](std::size_t kept) {
      return totals[kept].dominates(totals[i]);
    });
    if (dominated) continue;
    std::erase_if(result, [&](std::size_t kept) { return totals[i].dominates(totals[kept]); });
    result.push_back(i);
  }
  return result;
}

}  // namespace memest
