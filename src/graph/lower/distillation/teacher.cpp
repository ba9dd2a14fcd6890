#include "memest/spec/compression/teacher.hpp"

#include <array>
#include <utility>

#include "graph/lower/distillation/distillation.hpp"
#include "memest/graph/lower.hpp"

namespace memest {
namespace {

/// Letters that stand for a model's sizes, and so for the student's in the whole graph.
constexpr std::array kSizesOfModel = {
    Symbol::hidden_size,     Symbol::heads,      Symbol::kv_heads,      Symbol::head_dim,
    Symbol::ffn_size,        Symbol::layers,     Symbol::experts,       Symbol::top_k,
    Symbol::expert_ffn_size, Symbol::rotary_dim, Symbol::max_positions, Symbol::vocab_size};

/// Blocks with numbers in the place of those letters.
class InNumbers {
 public:
  explicit InNumbers(const Bindings& sizes) : sizes_(sizes) {}

  void write(Block& block) const {
    for (Tensor& tensor : block.tensors) {
      for (Expr& size : tensor.shape) set(size);
    }
    for (Op& op : block.ops) write(op);
  }

 private:
  void set(Expr& formula) const {
    for (const Symbol symbol : kSizesOfModel) {
      if (!sizes_.has(symbol) || !formula.uses(symbol)) continue;
      formula = formula.substitute(symbol, Expr(sizes_.at(symbol)));
    }
  }

  void write(Op& op) const {
    for (Expr* formula : {&op.forward.flops, &op.forward.bytes, &op.backward.flops,
                          &op.backward.bytes, &op.forward_buffer, &op.backward_buffer}) {
      set(*formula);
    }
    for (KernelLaunch& launch : op.forward_launches) {
      for (Expr* formula : {&launch.outer, &launch.reduced, &launch.inner, &launch.scratch_bytes}) {
        set(*formula);
      }
    }
  }

  const Bindings& sizes_;
};

/// A frozen model in evaluation.
LoweringPolicy policy_of_teacher(const LoweringPolicy& student) {
  LoweringPolicy policy = student;
  policy.teacher = nullptr;
  // FSDP passes a unit's weights as it gathers them.
  if (policy.stored) {
    policy.stored = student.teacher->weights;
  } else {
    policy.weights = student.teacher->weights;
  }
  if (!policy.autocast) policy.compute = policy.weights;
  policy.gradients = false;
  // A reference's own weights require gradients: under no_grad too autocast keeps their copies.
  policy.frozen = student.teacher->use != TeacherUse::reference;
  policy.reference_is_model = student.teacher->use == TeacherUse::own_reference;
  policy.dropout = false;
  policy.copies_answers = false;  // no wrapper is around it
  policy.key_value_cache = false;
  policy.embeddings_want_gradient = false;
  policy.end = ForwardEnd::logits;
  return policy;
}

}  // namespace

std::optional<Unavailable> append_teacher(const LoweringPolicy& policy, Graph& graph) {
  if (policy.teacher == nullptr) return std::nullopt;
  const bool distils = policy.teacher->use == TeacherUse::distillation;
  std::variant<Graph, Unavailable> lowered =
      lower(policy.teacher->model, policy_of_teacher(policy));
  if (auto* refused = std::get_if<Unavailable>(&lowered)) {
    return Unavailable{(distils ? "of the teacher: " : "of the reference: ") +
                       std::move(refused->sentence)};
  }
  auto& teacher = std::get<Graph>(lowered);
  const InNumbers in_numbers(teacher.sizes);
  const std::size_t first = graph.blocks.size();
  for (Block& block : teacher.blocks) {
    in_numbers.write(block);
    block.name.insert(0, distils ? "teacher's " : "reference's ");
    block.checkpointable = false;  // no unit of the student's
    graph.blocks.push_back(std::move(block));
  }
  for (const BlockRun& run : teacher.order)
    graph.teacher.push_back({first + run.block, run.repeat});
  graph.teacher_parameters = std::move(teacher.parameters);
  return std::nullopt;
}

}  // namespace memest
