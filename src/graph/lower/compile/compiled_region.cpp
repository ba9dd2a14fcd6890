#include "graph/lower/compile/compiled_region.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/index_lists.hpp"
#include "graph/lower/compile/generated_kernels.hpp"
#include "memest/diag/expect.hpp"

namespace memest {
namespace {

class RegionWriter {
 public:
  RegionWriter(Block eager, RegionPlace place, const Float8Region& float8)
      : block_(std::move(eager)),
        checkpoint_(place.checkpoint),
        values_(block_, place.input),
        kernels_(block_, values_),
        float8_(block_, values_, kernels_, float8),
        written_(kernels_.size(), false) {
    count_readers();
    count_savers();
    find_recomputed();
  }

  Block write() && {
    block_.output = values_.value(block_.output);
    const std::vector<Op> eager = block_.ops;
    const std::size_t eager_tensors = block_.tensors.size();
    ops_.reserve(eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i) {
      if (values_.runner(i) == Runner::caller) ops_.push_back(eager[i]);
      if (values_.runner(i) != Runner::library) continue;
      for (const TensorId input : eager[i].inputs) write_kernels_for(values_.value(input));
      write_library(eager[i], i);
    }
    for (TensorId id = 0; id < eager_tensors; ++id) {
      if (block_.tensors[id].outlives_block) write_kernels_for(values_.value(id));
    }
    write_kernels_for(block_.output);
    block_.ops = std::move(ops_);
    write_releases(eager);
    block_.compiled = true;
    return std::move(block_);
  }

 private:
  /// A result that several library kernels read gets a gradient from each of them, and the fused
  /// kernel of its backward reads them all.
  struct Readers {
    std::size_t count = 0;
    std::size_t written = 0;
    std::vector<TensorId> names;  // the result's own first
  };

  void count_readers() {
    readers_.resize(block_.tensors.size());
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      if (values_.runner(i) != Runner::library) continue;
      for (const InputGradient& gradient : block_.ops[i].gradients) {
        const TensorId value = values_.value(gradient.input);
        if (values_.is_generated(value)) ++readers_[value].count;
      }
    }
  }

  void count_savers() {
    savers_.assign(block_.tensors.size(), 0);
    const auto count = [this](const std::vector<TensorId>& saved) {
      for (const TensorId id : saved) ++savers_[block_.tensors[id].storage];
    };
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      if (values_.runner(i) == Runner::library) count(block_.ops[i].saved);
    }
    for (std::size_t i = 0; i < kernels_.size(); ++i) count(kernels_.kernel(i).kept());
  }

  /// Finds the ops that a checkpoint in the region recomputes for what the backward reads.
  void find_recomputed() {
    recomputed_.assign(block_.ops.size(), false);
    for (TensorId id = 0; id < block_.tensors.size(); ++id) {
      if (!values_.is_kept(id) || !values_.maker(id)) continue;
      if (!is_read_by_weights_alone(id)) recompute(*values_.maker(id));
    }
  }

  void recompute(std::size_t at) {
    if (recomputed_[at]) return;
    recomputed_[at] = true;
    if (block_.ops[at].kept_selectively) return;
    for (const TensorId input : block_.ops[at].inputs) {
      if (const auto maker = values_.maker(values_.value(input))) recompute(*maker);
    }
  }

  /// Kept for the gradient of a product's weight, and for nothing before it.
  [[nodiscard]] bool is_read_by_weights_alone(TensorId value) const {
    if (!values_.is_generated(value)) return false;
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      const Op& op = block_.ops[i];
      const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](TensorId id) { return values_.value(id) == value; });
      if (!reads || values_.runner(i) == Runner::nobody) continue;
      if (op.kind != OpKind::linear || is_needed(op.outputs.front())) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_needed(TensorId value) const {
    if (values_.is_kept(value)) return true;
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      const Op& op = block_.ops[i];
      const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](TensorId id) { return values_.value(id) == value; });
      if (!reads || values_.runner(i) == Runner::nobody) continue;
      if (std::any_of(op.outputs.begin(), op.outputs.end(),
                      [this](TensorId out) { return is_needed(values_.value(out)); })) {
        return true;
      }
    }
    return false;
  }

  void write_library(Op op, std::size_t at) {
    op.releases.clear();
    for (InputGradient& gradient : op.gradients) gradient.input = next_name(gradient.input);
    if (checkpoint_ == RegionCheckpoint::inside) {
      op.kept_selectively = op.kept_selectively && recomputed_[at];
      if (waits(op)) give_up_weight(op);
    }
    if (is_in_float8(op)) float8_.write_product(op, at);
    ops_.push_back(std::move(op));
  }

  /// In a region that is compiled with its checkpoint: a product whose input nothing computed again
  /// needs. Its weight's gradient comes with the kernel that makes the input.
  [[nodiscard]] bool waits(const Op& op) const {
    return op.kind == OpKind::linear && !is_in_float8(op) && op.inputs.size() == 2 &&
           op.gradients.size() == 2 && readers_[values_.value(op.inputs[0])].count == 1 &&
           is_read_by_weights_alone(values_.value(op.inputs[0]));
  }

  void give_up_weight(Op& op) const {
    const TensorId weight = values_.value(op.inputs[1]);
    const auto of_weight = std::find_if(
        op.gradients.begin(), op.gradients.end(),
        [&](const InputGradient& gradient) { return values_.value(gradient.input) == weight; });
    const std::uint8_t gone = of_weight->tensor;
    op.gradients.erase(of_weight);
    std::erase_if(op.backward_steps, [gone](const Step& step) { return step.tensor == gone; });
    std::erase(op.saved, op.inputs[0]);
  }

  /// The product that waits for its operand number `place`.
  [[nodiscard]] const Op* waiting_reader(TensorId value, std::size_t place) const {
    if (checkpoint_ != RegionCheckpoint::inside) return nullptr;
    const auto reads = [&](const Op& op) {
      return op.inputs.size() > place && values_.value(op.inputs[place]) == value && waits(op);
    };
    const auto reader = std::find_if(block_.ops.begin(), block_.ops.end(), reads);
    return reader == block_.ops.end() ? nullptr : &*reader;
  }

  /// Before all else, or where the region is recomputed after it.
  void take_over_weight(const GeneratedKernel& kernel, Op& op) const {
    const Op* product = waiting_reader(kernel.result, 0);
    if (product == nullptr) return;
    TensorId weight = values_.value(product->inputs[1]);
    // Where the weight is a copy in another type, takes the parameter itself.
    if (const auto maker = values_.maker(weight)) {
      weight = values_.value(block_.ops[*maker].inputs.front());
    }
    op.gradients.push_back({weight, make(op, weight), Reach::directly});
    op.saved.push_back(kernel.result);
    const auto place = static_cast<std::uint8_t>(op.saved.size() - 1);
    op.backward_steps.push_back({StepKind::drop_saved, place});
    op.waiting_steps = op.backward_steps.size();
    // A gradient of the product's own waits with it.
    const TensorId out = product->outputs.front();
    if (!is_given_as_it_comes(out)) make_beside_recomputed(op, out);
  }

  /// Whether the gradient of `value` is what the block is given, as it is.
  [[nodiscard]] bool is_given_as_it_comes(TensorId value) const {
    const std::size_t last = kernels_.needed_for(block_.output).back();
    return has(kernels_.kernel(last).reads, value) &&
           block_.tensors[value].dtype == block_.tensors[block_.output].dtype;
  }

  TensorId next_name(TensorId input) {
    const TensorId value = values_.value(input);
    Readers& readers = readers_[value];
    if (readers.names.empty()) return value;
    return readers.names[readers.written++];
  }

  void write_kernels_for(TensorId value) {
    for (const std::size_t index : kernels_.needed_for(value)) {
      if (written_[index]) continue;
      written_[index] = true;
      for (const TensorId read : kernels_.kernel(index).reads) write_kernels_for(read);
      write_kernel(kernels_.kernel(index));
    }
  }

  void write_kernel(const GeneratedKernel& kernel) {
    Op op = named(kernel);
    op.inputs = kernel.reads;
    if (kernel.is_joint) stand_for_no_storage(kernel);
    op.outputs = {kernel.result};
    Readers& readers = readers_[kernel.result];
    for (std::size_t i = 0; i < readers.count && readers.count > 1; ++i) {
      readers.names.push_back(i == 0 ? kernel.result : second_name(kernel.result));
      if (i > 0) op.outputs.push_back(readers.names.back());
    }
    op.outputs.insert(op.outputs.end(), kernel.remembers.begin(), kernel.remembers.end());
    write_backward(kernel, op);
    write_traffic(kernel, op);
    float8_.write_kernel(kernel, op);
    ops_.push_back(std::move(op));
  }

  /// After the operation that makes the result, or the one that looks at whole rows.
  [[nodiscard]] Op named(const GeneratedKernel& kernel) const {
    Op op;
    const Op& last = block_.ops[kernel.ops.back()];
    op.name = last.name;
    op.kind = kernel.is_joint ? OpKind::add : last.kind;
    for (const std::size_t i : kernel.ops) {
      const Op& part = block_.ops[i];
      if (class_of(part.kind) == OpClass::normalization) op.kind = part.kind;
      op.part_of.feed_forward = op.part_of.feed_forward || part.part_of.feed_forward;
    }
    return op;
  }

  void stand_for_no_storage(const GeneratedKernel& kernel) {
    const TensorId storage = block_.tensors[kernel.reads.front()].storage;
    for (TensorId id = 0; id < readers_.size(); ++id) {
      if (values_.value(id) == kernel.result) block_.tensors[id].storage = storage;
    }
  }

  TensorId second_name(TensorId result) {
    Tensor tensor = block_.tensors[result];
    tensor.storage = block_.tensors[result].storage;
    block_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(block_.tensors.size() - 1);
  }

  [[nodiscard]] Expr bytes(TensorId id) const { return block_.tensors[id].bytes(); }

  [[nodiscard]] bool is_parameter(TensorId id) const {
    return block_.tensors[id].role == Role::parameter;
  }

  [[nodiscard]] std::vector<const FusedGradient*> made_gradients(
      const GeneratedKernel& kernel) const {
    std::vector<const FusedGradient*> made;
    for (const FusedGradient& gradient : kernel.gradients) {
      if (!hands_on(kernel, gradient)) made.push_back(&gradient);
    }
    return made;
  }

  [[nodiscard]] bool hands_on(const GeneratedKernel& kernel, const FusedGradient& gradient) const {
    const bool single = readers_[kernel.result].count < 2;
    return single && gradient.ends_at == kernel.result && !is_parameter(gradient.like) &&
           block_.tensors[gradient.like].dtype == block_.tensors[kernel.result].dtype;
  }

  /// Where one gradient is all that is made, element by element, it takes the incoming one's place.
  /// _inductor/scheduler.py, decide_inplace_update: a pointwise kernel takes the buffer of an input
  /// that is read for the last time and has its size.
  [[nodiscard]] bool in_place(const GeneratedKernel& kernel,
                              const std::vector<const FusedGradient*>& made) const {
    return made.size() == 1 && kernel.gradients.size() == 1 && kernel.is_elementwise &&
           readers_[kernel.result].count == 1 && !is_parameter(made.front()->like) &&
           bytes(made.front()->like) == bytes(kernel.result);
  }

  /// A kept value that ends here, and that this gradient alone is computed from: it is written
  /// over.
  [[nodiscard]] std::optional<TensorId> place_among_kept(const GeneratedKernel& kernel,
                                                         const FusedGradient& gradient) const {
    const bool narrowed = values_.is_narrowed(kernel.result);
    if (!kernel.is_elementwise || narrowed || is_parameter(gradient.like)) return std::nullopt;
    for (const TensorId value : gradient.reads) {
      const bool own = values_.maker(value) && block_.tensors[value].storage == value &&
                       savers_[value] == 1 && bytes(value) == bytes(gradient.like);
      const bool read_by_others = std::any_of(
          kernel.gradients.begin(), kernel.gradients.end(), [&](const FusedGradient& other) {
            return &other != &gradient && has(other.reads, value);
          });
      if (own && !read_by_others) return value;
    }
    return std::nullopt;
  }

  void write_backward(const GeneratedKernel& kernel, Op& op) {
    const std::vector<const FusedGradient*> made = made_gradients(kernel);
    const bool taken_over = waiting_reader(kernel.result, 1) != nullptr;
    if (kernel.gradients.empty() || taken_over) return;
    op.saved = kernel.kept();
    take_over_weight(kernel, op);
    const bool replaces = in_place(kernel, made);
    std::optional<TensorId> taken;
    for (const FusedGradient& gradient : kernel.gradients) {
      std::uint8_t tensor = InputGradient::kHandedOn;
      Reach reach = Reach::summed;
      const bool hands = hands_on(kernel, gradient);
      if (!taken && !hands && !replaces) {
        taken = place_among_kept(kernel, gradient);
        if (taken) {
          const auto place = std::find(op.saved.begin(), op.saved.end(), *taken);
          std::rotate(op.saved.begin(), place, place + 1);
          make_beside_recomputed(op, gradient.like);
          tensor = InputGradient::kKept;
        }
      }
      if (hands) reach = Reach::directly;
      if (!hands && !replaces && tensor != InputGradient::kKept) tensor = make(op, gradient.like);
      for (const TensorId input : gradient.inputs) op.gradients.push_back({input, tensor, reach});
    }
  }

  /// In a region that computes again, kept values are results of the kernel that reads them.
  void make_beside_recomputed(Op& op, TensorId like) const {
    if (checkpoint_ == RegionCheckpoint::inside) op.made_when_recomputed.push_back(like);
  }

  [[nodiscard]] std::uint8_t make(Op& op, TensorId like) const {
    const auto tensor = static_cast<std::uint8_t>(op.backward_tensors.size());
    op.backward_tensors.push_back({like, block_.tensors[like].dtype});
    op.backward_steps.push_back({StepKind::allocate, tensor});
    return tensor;
  }

  /// Counts values read and written once; a joint is part of the kernels that read it.
  void write_traffic(const GeneratedKernel& kernel, Op& op) const {
    const std::vector<const FusedGradient*> made = made_gradients(kernel);
    if (!op.gradients.empty() && !made.empty()) {
      const std::size_t incoming = std::max<std::size_t>(readers_[kernel.result].count, 1);
      op.backward.bytes = Expr(static_cast<std::int64_t>(incoming)) * bytes(kernel.result);
      for (const TensorId id : kernel.kept()) op.backward.bytes += bytes(id);
      for (const FusedGradient* gradient : made) op.backward.bytes += bytes(gradient->like);
    }
    if (kernel.is_joint) return;
    for (const TensorId id : kernel.reads) op.forward.bytes += bytes(id);
    op.forward.bytes += bytes(kernel.result);
    for (const TensorId id : kernel.remembers) op.forward.bytes += bytes(id);
  }

  /// A tensor ends with its last reader; what the region is called with is the caller's.
  void write_releases(const std::vector<Op>& eager) {
    const std::size_t end = block_.ops.size() - 1;
    std::vector<std::optional<std::size_t>> last(block_.tensors.size());
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      const Op& op = block_.ops[i];
      const bool callers = op.by_caller;
      for (const auto* list : {&op.inputs, &op.outputs}) {
        for (const TensorId id : *list) last[block_.tensors[id].storage] = callers ? end : i;
      }
    }
    const TensorId result = block_.tensors[block_.output].storage;
    for (TensorId id = 0; id < block_.tensors.size(); ++id) {
      const Tensor& tensor = block_.tensors[id];
      const bool ends = tensor.storage == id && last[id] && id != result && !tensor.shared &&
                        !tensor.outlives_block && tensor.role != Role::parameter;
      if (ends) block_.ops[id == block_.input ? end : *last[id]].releases.push_back(id);
    }
    for (const Op& op : eager) {
      for (const TensorId id : op.releases) {
        if (block_.tensors[id].shared) block_.ops[end].releases.push_back(id);
      }
    }
  }

  Block block_;
  RegionCheckpoint checkpoint_;
  RegionValues values_;
  GeneratedKernels kernels_;
  Float8InRegion float8_;
  std::vector<bool> written_;        // by generated kernel
  std::vector<Readers> readers_;     // by value
  std::vector<std::size_t> savers_;  // by storage
  std::vector<bool> recomputed_;     // by eager op
  std::vector<Op> ops_;
};

}  // namespace

Block compiled(Block eager, RegionPlace place, const Float8Region& float8) {
  return RegionWriter(std::move(eager), place, float8).write();
}

}  // namespace memest
