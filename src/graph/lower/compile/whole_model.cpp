#include "graph/lower/compile/whole_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/lower/ops/block_builder.hpp"

namespace memest {
namespace {

const Op* maker_of(const Block& block, TensorId tensor) {
  const auto made = std::find_if(block.ops.begin(), block.ops.end(), [tensor](const Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
  });
  return made == block.ops.end() ? nullptr : &*made;
}

bool looks_up(const Op* op) { return op != nullptr && op->kind == OpKind::embedding; }

constexpr double kCostOfStep = kTenthsOfStep / 10.0;
constexpr double kCostOfFused = kTenthsOfFused / 10.0;
/// Steps of the normalized rows, of a 16-bit sum that is widened for them, and of the sum's addends
/// in fp32; a dropout multiplies twice between.
constexpr int kStepsOfRows = 1;
constexpr int kStepsOfSum = 4;
constexpr int kStepsOfAddends = 4;
constexpr int kStepsOfDropout = 2;

/// Tokens' rows and positions' rows, which all sequences share, are kept instead of their sum where
/// they cost less.
bool keeps_addends(DType dtype, std::int64_t micro_batch, bool drops) {
  const bool wide = dtype == DType::fp32;
  const int steps = kStepsOfAddends + (wide ? 0 : 1) + (drops ? kStepsOfDropout : 0);
  const double rows = 1 + 1 / static_cast<double>(micro_batch);
  return rows * std::pow(kCostOfStep, steps) <
         kCostOfFused * std::pow(kCostOfStep, wide ? kStepsOfRows : kStepsOfSum);
}

/// _inductor's embedding_dense_backward adds rows to zeros in fp32 and, of a narrower or a tied
/// table, makes the gradient from that.
void write_table_gradient(const Block& block, bool tied, Op& op) {
  const TensorId table = op.gradients.front().input;
  op.backward_tensors.clear();
  op.backward_steps.clear();
  op.backward_launches.clear();
  op.gradients.clear();
  BackwardWriter backward(op);
  const auto sums = backward.make(table, DType::fp32);
  const DType dtype = block.tensors[table].dtype;
  if (dtype == DType::fp32 && !tied) return backward.give(table, sums);
  const auto gradient = backward.make(table, dtype);
  backward.drop(sums);
  backward.give(table, gradient, Reach::summed);
}

}  // namespace

RegionInput first_layer_input(const Block& embedding, std::int64_t micro_batch) {
  const Op* maker = maker_of(embedding, embedding.output);
  if (looks_up(maker)) return RegionInput::argument;
  const bool drops = maker != nullptr && maker->kind == OpKind::dropout;
  if (drops) maker = maker_of(embedding, maker->inputs.front());
  const bool of_rows = maker != nullptr && maker->kind == OpKind::add &&
                       std::all_of(maker->inputs.begin(), maker->inputs.end(), [&](TensorId input) {
                         return looks_up(maker_of(embedding, input));
                       });
  const DType dtype = embedding.tensors[embedding.output].dtype;
  return of_rows && keeps_addends(dtype, micro_batch, drops) ? RegionInput::addends
                                                             : RegionInput::sum;
}

Block compiled_embedding(Block embedding, RegionInput first, bool tied) {
  const Expr whole = embedding.tensors[embedding.output].elements();
  for (Op& op : embedding.ops) {
    if (op.kind != OpKind::embedding) continue;
    const TensorId rows = op.outputs.front();
    const bool of_tokens = embedding.tensors[rows].elements() == whole;
    // The tokens' rows are as large as what the first norm keeps.
    if (first == RegionInput::addends && !of_tokens) op.saved.push_back(rows);
    if (!op.gradients.empty()) write_table_gradient(embedding, tied && of_tokens, op);
  }
  return compiled(std::move(embedding), {});
}

/// should_ban_recomputation, "reduction op": a number of all targets is never computed again.
Block compiled_loss(Block loss) {
  for (std::size_t i = 0; i < loss.ops.size(); ++i) {
    Op& mean = loss.ops[i];
    if (mean.kind != OpKind::cross_entropy) continue;
    Op count;
    count.kind = OpKind::reduce;
    count.name = mean.name;
    count.inputs = {mean.inputs.back()};
    count.outputs = {mean.outputs.back()};
    mean.inputs.push_back(mean.outputs.back());
    mean.outputs.pop_back();
    loss.ops.insert(loss.ops.begin() + static_cast<std::ptrdiff_t>(i), std::move(count));
    break;
  }
  return compiled(std::move(loss), {});
}

}  // namespace memest
