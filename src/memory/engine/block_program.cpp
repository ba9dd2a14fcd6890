#include "memory/engine/block_program.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Whether tensors of `type` have gradients.
bool is_floating(DType type) {
  return type == DType::fp32 || type == DType::bf16 || type == DType::fp16;
}

class Compiler {
 public:
  Compiler(const Block& block, const Bindings& sizes, const std::optional<LaunchDevice>& device)
      : block_(block), sizes_(sizes), device_(device) {
    program_.elements.reserve(block.tensors.size());
    for (const Tensor& tensor : block.tensors) {
      program_.elements.push_back(narrow_to_int64(tensor.elements().evaluate(sizes)));
    }
  }

  BlockProgram compile() && {
    program_.ops.reserve(block_.ops.size());
    for (const Op& op : block_.ops) {
      program_.ops.push_back(compile(op));
      if (!reach(op.forward_messages, RankGroup::expert)) continue;
      const auto end = static_cast<std::uint32_t>(program_.ops.size());
      if (program_.experts.end == 0) program_.experts.begin = end - 1;
      program_.experts.end = end;
    }
    program_.output = block_.output;
    return std::move(program_);
  }

 private:
  template <class Item, class Fill>
  static Slice slice(std::vector<Item>& list, const Fill& fill) {
    const auto begin = static_cast<std::uint32_t>(list.size());
    fill();
    return {begin, static_cast<std::uint32_t>(list.size())};
  }

  [[nodiscard]] std::int64_t bytes(TensorId tensor, DType dtype) const {
    return checked_multiply(program_.elements[tensor], size_of(dtype));
  }
  [[nodiscard]] const Tensor& storage_of(TensorId tensor) const {
    return block_.tensors[block_.tensors[tensor].storage];
  }

  OpProgram compile(const Op& op) {
    OpProgram made;
    made.workspace = op.workspace;
    made.forward_buffer = value(op.forward_buffer);
    made.backward_buffer = value(op.backward_buffer);
    made.adds_to_buffer = op.adds_to_buffer;
    if (op.adds_to_buffer && op.keeps_unread) made.unread = unread_gradient(*op.adds_to_buffer);
    made.once = op.once;
    made.by_caller = op.by_caller;
    made.ends_autocast = op.ends_autocast;
    made.casts_answer = op.ends_autocast && op.kind == OpKind::cast;
    made.kept_selectively = op.kept_selectively;
    made.trains = !op.gradients.empty();
    made.drops = op.kind == OpKind::dropout;
    made.looks_up =
        op.kind == OpKind::embedding && std::ranges::any_of(op.inputs, [this](TensorId id) {
          return storage_of(id).role == Role::parameter;
        });
    if (made.drops) made.dropped = op.inputs.front();
    compile_forward(op, made);
    if (made.trains) compile_backward(op, made);
    return made;
  }

  [[nodiscard]] UnreadGradient unread_gradient(TensorId parameter) const {
    UnreadGradient unread{{}, bytes(parameter, block_.tensors[parameter].dtype)};
    for (const Expr& size : block_.tensors[parameter].shape) unread.shape.push_back(value(size));
    return unread;
  }

  void compile_forward(const Op& op, OpProgram& made) {
    made.scratch = slice(program_.made, [&] {
      for (const TensorId id : op.forward_scratch) make(id, Holding::temporaries);
    });
    made.made = slice(program_.made, [&] {
      for (const TensorId id : op.outputs) {
        if (block_.tensors[id].storage != id) continue;
        const bool cast = block_.tensors[id].role == Role::cast_parameter;
        make(id, cast ? Holding::cast_weights : Holding::activations);
        if (!cast) continue;
        made.casts = true;
        made.parameter = op.inputs.front();
      }
    });
    std::vector<std::uint32_t> launches;  // where each begins
    made.launches = slice(program_.launches, [&] {
      for (const KernelLaunch& launch : op.forward_launches) {
        const ScratchSteps steps = scratch_of(launch);
        launches.push_back(static_cast<std::uint32_t>(program_.launched.size()));
        program_.launched.push_back(slice(program_.launches, [&] {
          program_.launches.insert(program_.launches.end(), steps.begin(), steps.end());
        }));
      }
    });
    append_course(op, launches, made);
    made.outputs = slice(program_.tensors, [&] {
      program_.tensors.insert(program_.tensors.end(), op.outputs.begin(), op.outputs.end());
    });
    made.saved = slice(program_.tensors, [&] { append_saved(op, made); });
    const std::vector<UnpackedTensor> unpacked = unpacked_by(block_, op, sizes_);
    made.listed = slice(program_.tensors, [&] {
      const std::vector<TensorId> listed = listed_of(block_, op, unpacked);
      program_.tensors.insert(program_.tensors.end(), listed.begin(), listed.end());
    });
    made.unlisted = slice(program_.tensors, [&] { append_unlisted(made.saved, made.listed); });
    made.packed = slice(program_.packed, [&] {
      for (const UnpackedTensor& one : unpacked) {
        program_.packed.push_back({one.tensor, value(one.bytes), one.lying, one.made_by_op});
      }
    });
    made.released = slice(program_.tensors, [&] {
      for (const TensorId id : op.releases) {
        program_.tensors.push_back(block_.tensors[id].storage);
      }
    });
    made.named = slice(program_.tensors, [&] { append_named(op, made); });
    made.names_graph =
        !op.attributes.empty() && is_floating(block_.tensors[op.attributes[0]].dtype);
    made.attributes = slice(program_.tensors, [&] {
      for (const TensorId id : op.attributes) {
        program_.tensors.push_back(block_.tensors[id].storage);
      }
      made.attributes_by_graph = static_cast<std::uint32_t>(program_.tensors.size());
      for (const TensorId id : op.attributes_by_graph) {
        program_.tensors.push_back(block_.tensors[id].storage);
      }
    });
  }

  /// `launches`: where each of the op's begins.
  void append_course(const Op& op, const std::vector<std::uint32_t>& launches, OpProgram& made) {
    const std::vector<TensorId> kept = block_.kept_by_list(op);
    made.kept = slice(program_.tensors, [&] {
      program_.tensors.insert(program_.tensors.end(), kept.begin(), kept.end());
    });
    made.course = slice(program_.steps, [&] {
      for (const Step& step : op.forward_steps) {
        const bool launch = step.kind == StepKind::launch;
        const bool makes =
            step.kind == StepKind::allocate && step.tensor < op.forward_scratch.size();
        const bool stays =
            makes && std::ranges::find(kept, op.forward_scratch[step.tensor]) != kept.end();
        program_.steps.push_back({step.kind, launch ? launches[step.tensor] : step.tensor,
                                  op.keeps_selectively(step), stays});
      }
    });
  }

  void make(TensorId id, Holding holding) {
    // The block's result has a second name where later blocks know it by one.
    const bool twice =
        block_.tensors[id].held_by_graph ||
        (block_.tensors[id].outlives_block && block_.tensors[block_.output].storage == id);
    program_.made.push_back({id, bytes(id, block_.tensors[id].dtype), holding,
                             static_cast<std::uint8_t>(twice ? 2 : 1),
                             block_.tensors[id].for_backward, block_.tensors[id].for_dropout,
                             block_.tensors[id].answered, block_.tensors[id].held_by_graph});
  }

  void append_saved(const Op& op, OpProgram& made) {
    if (!made.trains) return;
    made.keeps = !op.saved.empty();
    made.keeps_result = op.saves_behind;
    const auto begin = static_cast<std::ptrdiff_t>(program_.tensors.size());
    for (const TensorId id : op.saved) {
      const TensorId storage = block_.tensors[id].storage;
      if (std::find(op.outputs.begin(), op.outputs.end(), storage) != op.outputs.end()) {
        made.keeps_result = true;
      }
      // A parameter is there as long as the model is; of one gathered in fp8 a node keeps the scale
      // that it has now.
      if (storage_of(id).role == Role::parameter) {
        if (block_.tensors[id].dtype != DType::fp8) continue;
        made.saves_scale = true;
        made.parameter = id;
        continue;
      }
      const auto from = program_.tensors.begin() + begin;
      if (std::find(from, program_.tensors.end(), storage) == program_.tensors.end()) {
        program_.tensors.push_back(storage);
      }
    }
  }

  void append_named(const Op& op, OpProgram& made) {
    for (const TensorId id : op.named_by_node) {
      if (storage_of(id).role == Role::parameter) {
        made.names_weight = true;
        made.parameter = id;
      } else {
        program_.tensors.push_back(block_.tensors[id].storage);
      }
    }
  }

  [[nodiscard]] bool is_among(TensorId storage, Slice of) const {
    const auto begin = program_.tensors.begin();
    return std::find(begin + of.begin, begin + of.end, storage) != begin + of.end;
  }

  void append_unlisted(Slice saved, Slice listed) {
    for (std::uint32_t i = saved.begin; i < saved.end; ++i) {
      const TensorId storage = program_.tensors[i];
      if (!is_among(storage, listed)) program_.tensors.push_back(storage);
    }
  }

  void compile_backward(const Op& op, OpProgram& made) {
    made.gradients = slice(program_.made_gradients, [&] {
      for (const BackwardTensor& tensor : op.backward_tensors) {
        program_.made_gradients.push_back(
            {tensor.like, bytes(tensor.like, tensor.dtype), Holding::temporaries});
      }
    });
    made.launched = static_cast<std::uint32_t>(op.backward_tensors.size());
    made.steps = slice(program_.steps, [&] {
      for (std::size_t i = 0; i < op.backward_steps.size(); ++i) {
        const Step& step = op.backward_steps[i];
        if (i == op.own_steps) made.reductions = static_cast<std::uint32_t>(program_.steps.size());
        if (i == op.waiting_steps) made.waiting = static_cast<std::uint32_t>(program_.steps.size());
        if (step.kind == StepKind::launch) {
          append_launch(op.backward_launches[step.tensor], made);
        } else if (step.kind == StepKind::drop_saved) {
          program_.steps.push_back({step.kind, place_among_saved(op.saved[step.tensor], made)});
        } else {
          program_.steps.push_back({step.kind, step.tensor});
        }
      }
    });
    made.gradients.end = static_cast<std::uint32_t>(program_.made_gradients.size());
    made.made_when_recomputed = slice(program_.made_gradients, [&] {
      for (const TensorId like : op.made_when_recomputed) {
        program_.made_gradients.push_back(
            {like, bytes(like, block_.tensors[like].dtype), Holding::temporaries});
      }
    });
    if (op.own_steps >= op.backward_steps.size()) made.reductions = made.steps.end;
    if (op.waiting_steps >= op.backward_steps.size()) made.waiting = made.steps.end;
    made.product = made.steps.begin + static_cast<std::uint32_t>(op.first_product) - 1;
    made.handed = slice(program_.handed, [&] {
      for (std::size_t i = 0; i < op.gradients.size(); ++i) {
        hand(op, i, program_.made_gradients.data() + made.gradients.begin);
        if (op.gradients[i].tensor == InputGradient::kHandedOn) made.hands_on = true;
        if (op.gradients[i].tensor == InputGradient::kKept) made.hands_kept = true;
      }
    });
  }

  [[nodiscard]] std::uint32_t place_among_saved(TensorId id, const OpProgram& made) const {
    const auto begin = program_.tensors.begin() + made.saved.begin;
    const auto end = program_.tensors.begin() + made.saved.end;
    return static_cast<std::uint32_t>(std::find(begin, end, block_.tensors[id].storage) - begin);
  }

  [[nodiscard]] std::int64_t value(const Expr& size) const {
    return narrow_to_int64(size.evaluate(sizes_));
  }

  [[nodiscard]] ScratchSteps scratch_of(const KernelLaunch& launch) const {
    const std::int64_t outer = value(launch.outer);
    const std::int64_t reduced = value(launch.reduced);
    const std::int64_t inner = value(launch.inner);
    const std::int64_t element = size_of(launch.dtype);
    if (launch.kind == KernelLaunch::Kind::scan) return scan_scratch(reduced, element);
    if (!device_) return {};
    switch (launch.kind) {
      case KernelLaunch::Kind::reduction:
        return reduction_scratch(sum_of_middle(outer, reduced, inner, element), *device_);
      case KernelLaunch::Kind::channel_sum:
        return reduction_scratch(sum_of_channels(outer, reduced, inner, element), *device_);
      case KernelLaunch::Kind::maximum: {
        Reduction maximum = sum_of_middle(outer, reduced, inner, element);
        // MaxNanFunctor compares in the tensor's own type, where a sum of 16-bit numbers is one in
        // fp32.
        maximum.accumulate_bytes = element;
        return reduction_scratch(maximum, *device_);
      }
      case KernelLaunch::Kind::norm_backward:
        return norm_backward_scratch({outer, reduced, element, launch.has_bias}, *device_);
      case KernelLaunch::Kind::embedding_backward:
        return embedding_backward_scratch({outer, reduced, inner, element}, *device_);
      case KernelLaunch::Kind::sort:
        return sort_scratch(reduced, *device_);
      case KernelLaunch::Kind::index_sum:
        return index_sum_scratch({outer, reduced, launch.dtype == DType::int32}, *device_);
      case KernelLaunch::Kind::host_index_sum:
        return host_index_sum_scratch(outer, reduced, *device_);
      case KernelLaunch::Kind::index_order:
        return index_order_scratch(outer, reduced, *device_);
      case KernelLaunch::Kind::count_flags:
        return count_flags_scratch(reduced, *device_);
      case KernelLaunch::Kind::select_flags:
        return select_flags_scratch(reduced, *device_);
      case KernelLaunch::Kind::grouped_product:
        if (launch.dtype != DType::bf16) return {};
        return grouped_product_scratch({reduced, outer, inner}, *device_);
      case KernelLaunch::Kind::scan:
        break;
    }
    return {};
  }

  /// The launch's requests as steps; its own tensors follow those of the op.
  void append_launch(const KernelLaunch& launch, const OpProgram& made) {
    std::vector<std::uint32_t> tensor_of;
    const bool makes = launch.kind == KernelLaunch::Kind::embedding_backward;
    const ScratchSteps steps = scratch_of(launch);
    if (makes && steps.empty()) program_.steps.push_back({StepKind::allocate, launch.result});
    std::uint32_t replaced = launch.result;
    for (const ScratchStep& step : steps) {
      const auto block = static_cast<std::size_t>(step.block);
      if (step.kind == ScratchStep::Kind::release) {
        program_.steps.push_back({StepKind::free, tensor_of[block]});
        continue;
      }
      const bool result = step.kind == ScratchStep::Kind::result;
      tensor_of.resize(block + 1);
      tensor_of[block] = result ? launch.result
                                : static_cast<std::uint32_t>(program_.made_gradients.size()) -
                                      made.gradients.begin;
      if (!result)
        program_.made_gradients.push_back({kKernelScratch, step.bytes, Holding::temporaries});
      if (step.kind == ScratchStep::Kind::replacement) {
        replace(replaced, tensor_of[block]);
        program_.steps.push_back({StepKind::allocate, replaced++});
        continue;
      }
      program_.steps.push_back({StepKind::allocate, tensor_of[block]});
    }
  }

  /// The storage made as `tensor` is scratch from its beginning on.
  void replace(std::uint32_t tensor, std::uint32_t scratch) {
    const auto made =
        std::find_if(program_.steps.rbegin(), program_.steps.rend(), [tensor](const auto& step) {
          return step.kind == StepKind::allocate && step.tensor == tensor;
        });
    made->tensor = scratch;
  }

  void hand(const Op& op, std::size_t index, MadeGradient* gradients) {
    const InputGradient& gradient = op.gradients[index];
    const Tensor& input = block_.tensors[gradient.input];
    const bool to_parameter = input.role == Role::parameter && input.storage == gradient.input;
    if (gradient.tensor < InputGradient::kKept) {
      gradients[gradient.tensor].holding =
          to_parameter ? Holding::gradients : Holding::passing_gradients;
    }
    const bool last = std::none_of(
        op.gradients.begin() + static_cast<std::ptrdiff_t>(index) + 1, op.gradients.end(),
        [&](const InputGradient& later) { return later.tensor == gradient.tensor; });
    program_.handed.push_back({gradient.input, gradient.tensor, gradient.reach, last, to_parameter,
                               bytes(gradient.input, input.dtype)});
  }

  const Block& block_;
  const Bindings& sizes_;
  const std::optional<LaunchDevice>& device_;
  BlockProgram program_;
};

}  // namespace

BlockProgram compile(const Block& block, const Bindings& sizes,
                     const std::optional<LaunchDevice>& device) {
  return Compiler(block, sizes, device).compile();
}

}  // namespace memest
