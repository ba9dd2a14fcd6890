// DeepSeek's routers (transformers 5.17, DeepseekV2TopkRouter and DeepseekV3TopkRouter): a product
// in fp32, scores of all experts, and a choice that may be among the best groups of experts only.
#include <string_view>
#include <utility>

#include "graph/lower/experts/mixture.hpp"

namespace memest {
namespace {

/// Which groups of experts a token may use.
struct ChosenGroups {
  Pair best;  ///< scores of the groups, and what of the experts they are made of
  TensorId indices = 0;
  TensorId mask = 0;
  TensorId by_expert = 0;
};

class GroupRouter {
 public:
  GroupRouter(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part)
      : block_(block), context_(context), part_(part), tokens_(context.dims.b * context.dims.s) {}

  RoutedChoice write(TensorId x) {
    Frame forward(block_);
    const TensorId logits = forward.local(logits_of(x));
    RoutedChoice chosen = context_.habits.router == RouterWriting::of_sigmoid
                              ? choose_by_sigmoid(forward, logits)
                              : choose_by_softmax(forward, logits);
    chosen.logits = logits;
    // topk_weights * self.routed_scaling_factor
    chosen.weights = scale(block_, {"router_weights", "scaled"}, chosen.weights);
    return chosen;
  }

 private:
  [[nodiscard]] Shape of_width(const Expr& width) const { return {tokens_, width}; }

  TensorId logits_of(TensorId x) {
    const Projection2d gate = {"gate", context_.dims.h, Symbol::experts};
    const TensorId rows = view(block_, {"gate", "rows"}, x, block_.tensor(x).shape);
    const TensorId weight = block_.parameter({"gate", "weight"}, {gate.out, gate.in});
    // F.linear(hidden_states.type(float32), self.weight.type(float32)): both in fp32, whatever the
    // model is in.
    const TensorId input = cast(block_, {"gate", "input in fp32"}, rows, DType::fp32);
    const TensorId wide = cast(block_, {"gate", "weight in fp32"}, weight, DType::fp32);
    Frame call(block_);  // arguments live until it returns, also where autocast narrows them again
    for (const TensorId argument : {input, wide}) call.local(argument);
    return product_with(block_, gate, {wide, {}}, {{tokens_}, input});
  }

  RoutedChoice choose_by_softmax(Frame& forward, TensorId logits) {
    TensorId scores = softmax(block_, "router_softmax", logits, DType::fp32);
    ChosenGroups groups;
    if (part_.groups > 0) {
      const Shape each = of_width(part_.groups);
      // V2: scores.view(-1, groups, experts / groups).max(dim=-1) makes values and indices, and
      // only the values are read.
      groups = groups_of(pair_of(block_, {{"groups", "scores"}, each, DType::fp32},
                                 {{"groups", "best experts"}, each, DType::int64}, scores));
      scores = without_others(groups, scores);
    }
    forward.local(scores);
    const auto [values, indices] = best_of(block_, part_, scores);
    forward.local(indices);
    if (part_.groups > 0) name(forward, groups);
    return {.weights = values, .indices = indices};
  }

  /// The bias counts for the choice alone, whose scores therefore take no gradient.
  RoutedChoice choose_by_sigmoid(Frame& forward, TensorId logits) {
    const TensorId scores =
        forward.local(function(block_, {"router_sigmoid"}, Keeps::result, logits));
    const Shape all = of_width(Symbol::experts);
    // The bias is a buffer in the model's type; autocast sums in fp32.
    const DType dtype = promoted(block_.dtype_of(scores), context_.policy.weights);
    const DType summed = context_.policy.autocast ? DType::fp32 : dtype;
    const TensorId biased = made(block_, {{"choice", "scores"}, all, dtype}, {scores});
    // V3: view(-1, groups, experts / groups).topk(2, dim=-1)[0].sum(dim=-1). 256 experts in 8
    // groups of 32: the best two of each.
    constexpr std::int64_t kBestExperts = 2;  // a group's score is their sum
    const Shape pairs = {tokens_, Expr(part_.groups), Expr(kBestExperts)};
    Pair best = pair_of(block_, {{"groups", "best scores"}, pairs, dtype},
                        {{"groups", "best experts"}, pairs, DType::int64}, biased);
    best.first = made(block_, {{"groups", "scores"}, of_width(part_.groups), summed}, {best.first});
    const ChosenGroups groups = groups_of(best);
    const TensorId others = others_than(groups);
    block_.tensor(others).held_by_graph = true;
    const TensorId allowed = [&] {
      Frame renaming(block_);
      renaming.local(biased);
      // scores_for_choice = scores_for_choice.masked_fill(...) rebinds its own name.
      return made(block_, {{"choice", "allowed"}, all, dtype}, {biased, others});
    }();
    const Pair chosen =
        pair_of(block_, {{"top_k", "scores"}, of_choices(part_, tokens_), dtype},
                {{"top_k", "indices"}, of_choices(part_, tokens_), DType::int64}, allowed);
    for (const TensorId local : {others, allowed}) forward.local(local);
    name(forward, groups);
    forward.local(chosen.second);
    const Made weights = {
        {"router_weights", "chosen"}, of_choices(part_, tokens_), block_.dtype_of(scores)};
    TensorId values = moved(block_, weights, {scores, chosen.second, Indexing::gather});
    // denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20
    if (part_.weights_over_sum) {
      values = over_sum(block_, values, Denominator::guarded, forward);
    }
    return {.weights = values, .indices = chosen.second};
  }

  ChosenGroups groups_of(const Pair& best) {
    ChosenGroups groups{.best = best};
    block_.tensor(best.second).held_by_graph = true;
    const Shape kept = of_width(part_.groups_kept);
    const DType dtype = block_.dtype_of(best.first);
    groups.indices = pair_of(block_, {{"groups", "kept scores"}, kept, dtype},
                             {{"groups", "kept"}, kept, DType::int64}, best.first)
                         .second;
    const Shape each = of_width(part_.groups);
    // zeros_like(group_scores), then scatter_(1, group_idx, 1) in place.
    groups.mask = made(block_, {{"groups", "mask"}, each, dtype}, {best.first, groups.indices});
    const Shape all = of_width(Symbol::experts);
    // group_mask.unsqueeze(-1).expand(...).reshape(-1, experts) copies, but where a group has one
    // expert or all of them.
    const bool seen = part_.groups == 1 || part_.groups == part_.experts;
    groups.by_expert =
        seen ? block_.alias({"groups", "mask by expert"}, groups.mask, all)
             : made(block_, {{"groups", "mask by expert"}, all, dtype}, {groups.mask});
    return groups;
  }

  /// The experts of groups that are not kept.
  TensorId others_than(const ChosenGroups& groups) {
    const Shape all = of_width(Symbol::experts);
    const TensorId kept =
        made(block_, {{"groups", "experts"}, all, DType::boolean}, {groups.by_expert});
    return made(block_, {{"groups", "other experts"}, all, DType::boolean}, {kept});
  }

  TensorId without_others(const ChosenGroups& groups, TensorId scores) {
    // scores.masked_fill(~score_mask.bool(), 0.0): .bool() and ~ make a tensor each.
    const TensorId others = others_than(groups);
    const DType dtype = block_.dtype_of(scores);
    const TensorId out = block_.make({"choice", "allowed"}, block_.tensor(scores).shape, dtype);
    Op op;
    op.kind = OpKind::mask;
    op.name = "choice";
    op.inputs = {scores, others};
    op.outputs = {out};
    op.saved = {others};
    BackwardWriter backward(op);
    backward.give(scores, backward.make(scores, dtype));
    block_.emit(std::move(op));
    return out;
  }

  static void name(Frame& forward, const ChosenGroups& groups) {
    for (const TensorId local :
         {groups.best.second, groups.best.first, groups.indices, groups.mask, groups.by_expert}) {
      forward.local(local);
    }
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  Expr tokens_;
};

}  // namespace

RoutedChoice route_by_groups(BlockBuilder& block, const DecoderContext& context,
                             const MixtureOfExperts& part, TensorId x) {
  return GroupRouter(block, context, part).write(x);
}

}  // namespace memest
