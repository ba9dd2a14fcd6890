#include "block_program.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

class Compiler {
 public:
  Compiler(const Block& block, const Bindings& sizes) : block_(block) {
    program_.elements.reserve(block.tensors.size());
    for (const Tensor& tensor : block.tensors) {
      program_.elements.push_back(narrow_to_int64(tensor.elements().evaluate(sizes)));
    }
  }

  BlockProgram compile() && {
    program_.ops.reserve(block_.ops.size());
    for (const Op& op : block_.ops) program_.ops.push_back(compile(op));
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
    made.trains = !op.gradients.empty();
    compile_forward(op, made);
    if (made.trains) compile_backward(op, made);
    return made;
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
    made.outputs = slice(program_.tensors, [&] {
      program_.tensors.insert(program_.tensors.end(), op.outputs.begin(), op.outputs.end());
    });
    made.saved = slice(program_.tensors, [&] { append_saved(op, made); });
    made.released = slice(program_.tensors, [&] {
      for (const TensorId id : op.releases) {
        program_.tensors.push_back(block_.tensors[id].storage);
      }
    });
  }

  void make(TensorId id, Holding holding) {
    // The block's result has a second name where later blocks know it by one.
    const bool twice =
        block_.tensors[id].outlives_block && block_.tensors[block_.output].storage == id;
    program_.made.push_back({id, bytes(id, block_.tensors[id].dtype), holding,
                             static_cast<std::uint8_t>(twice ? 2 : 1),
                             block_.tensors[id].for_backward});
  }

  void append_saved(const Op& op, OpProgram& made) {
    if (!made.trains) return;
    made.keeps = !op.saved.empty();
    const auto begin = static_cast<std::ptrdiff_t>(program_.tensors.size());
    for (const TensorId id : op.saved) {
      const TensorId storage = block_.tensors[id].storage;
      if (std::find(op.outputs.begin(), op.outputs.end(), storage) != op.outputs.end()) {
        made.keeps_result = true;
      }
      if (storage_of(id).role == Role::parameter) continue;
      const auto from = program_.tensors.begin() + begin;
      if (std::find(from, program_.tensors.end(), storage) == program_.tensors.end()) {
        program_.tensors.push_back(storage);
      }
    }
  }

  void compile_backward(const Op& op, OpProgram& made) {
    made.gradients = slice(program_.made_gradients, [&] {
      for (const BackwardTensor& tensor : op.backward_tensors) {
        program_.made_gradients.push_back(
            {tensor.like, bytes(tensor.like, tensor.dtype), Holding::temporaries});
      }
    });
    made.steps = slice(program_.steps, [&] {
      program_.steps.insert(program_.steps.end(), op.backward_steps.begin(),
                            op.backward_steps.end());
    });
    made.reductions = reductions_of(op, made);
    made.handed = slice(program_.handed, [&] {
      for (std::size_t i = 0; i < op.gradients.size(); ++i) {
        hand(op, i, program_.made_gradients.data() + made.gradients.begin);
        if (op.gradients[i].tensor == InputGradient::kHandedOn) made.hands_on = true;
      }
    });
  }

  /// The first of the last steps that come in pairs: a sum is made, what it sums goes.
  [[nodiscard]] std::uint32_t reductions_of(const Op& op, const OpProgram& made) const {
    const auto sums = [&](const Step& make, const Step& drop) {
      if (make.kind != StepKind::allocate || drop.kind != StepKind::free) return false;
      const auto* gradients = program_.made_gradients.data() + made.gradients.begin;
      return make.tensor != drop.tensor &&
             gradients[make.tensor].bytes < gradients[drop.tensor].bytes;
    };
    std::uint32_t begin = made.steps.end;
    if (op.kind != OpKind::multiply && op.kind != OpKind::add) return begin;
    while (begin >= made.steps.begin + 2 &&
           sums(program_.steps[begin - 2], program_.steps[begin - 1])) {
      begin -= 2;
    }
    return begin;
  }

  void hand(const Op& op, std::size_t index, MadeGradient* gradients) {
    const InputGradient& gradient = op.gradients[index];
    const Tensor& input = block_.tensors[gradient.input];
    const bool to_parameter = input.role == Role::parameter && input.storage == gradient.input;
    if (gradient.tensor != InputGradient::kHandedOn) {
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
  BlockProgram program_;
};

}  // namespace

BlockProgram compile(const Block& block, const Bindings& sizes) {
  return Compiler(block, sizes).compile();
}

}  // namespace memest
