// The experts of torchtitan 0.2.2's mixtures (models/moe/moe.py, GroupedExperts; kernels.py and
// utils.py beside it), alone or over expert-parallel ranks (distributed/expert_parallel.py,
// ExpertParallel): tokens go to the ranks of their experts and their outputs come back.
#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/lower/experts/expert_rows.hpp"
#include "graph/lower/experts/torchtitan_mixture.hpp"
#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/tensor_parallel.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Rows of each expert are filled up to a multiple of so many (TOKEN_GROUP_ALIGN_SIZE_M).
constexpr std::int64_t kRowsOfGroup = 8;

/// Where the filled-up rows come from, and what the products know of them.
struct FilledRows {
  TensorId rows = 0;
  TensorId sources = 0;  ///< indices of 32 bits; -1: a row of zeros
  TensorId counts = 0;   ///< of each expert, filled up
};

/// Pairs that the experts of the first of `ranks` get, of which each sends `sent`, where a tensor
/// rank's pairs are dealt out to all experts in turn (debug.moe_force_load_balance).
std::int64_t received_by_first(const MixtureOfExperts& part, const LoweringPolicy& policy,
                               std::int64_t sent) {
  const std::int64_t own = part.experts / policy.expert;
  const auto dealt = [&](std::int64_t pairs) {
    return checked_multiply(pairs / part.experts, own) + std::min(pairs % part.experts, own);
  };
  std::int64_t received = 0;
  for (std::int64_t rank = 0; rank < policy.expert; ++rank) {
    const std::int64_t first = checked_multiply(sent, rank % policy.tensor);
    received = checked_add(received, dealt(first + sent) - dealt(first));
  }
  return received;
}

class GroupedExpertsWriter {
 public:
  GroupedExpertsWriter(BlockBuilder& block, const DecoderContext& context,
                       const MixtureOfExperts& part)
      : block_(block),
        context_(context),
        part_(part),
        ranks_(context.policy.expert),
        h_(context.dims.h),
        pairs_(pairs_of_rank(context)) {
    const std::int64_t sent =
        checked_multiply(checked_multiply(context.policy.micro_batch, context.policy.seq_len),
                         part.top_k) /
        (ranks_ > 1 ? context.policy.tensor : 1);
    const std::int64_t surplus =
        ranks_ > 1 ? received_by_first(part, context.policy, sent) - sent : 0;
    received_ = pairs_ + Expr(surplus);
    if (ranks_ > 1) own_ = experts_ / Expr(Symbol::expert);
    // _permute: _round_up(x.shape[0] + num_local_experts * 8, 8): as if every expert's rows had to
    // be filled up.
    const std::int64_t received = sent + surplus;
    const std::int64_t odd = (kRowsOfGroup - received % kRowsOfGroup) % kRowsOfGroup;
    filled_ = received_ + Expr(kRowsOfGroup) * own_ + Expr(odd);
    even_ = (received + odd) % (part.experts / ranks_) == 0;
  }

  /// Over expert-parallel ranks the module's hooks dispatch its arguments and combine its result.
  TensorId write(const PairsOfExperts& pairs) {
    if (ranks_ == 1) return in_padding_wrapper(pairs);
    Frame call(block_);
    const FilledRows filled = dispatch(pairs, call);
    const TensorId out = call.local(run_experts(filled));
    return combine(out, filled, call);
  }

 private:
  /// GroupedExperts.forward in indices_padding_wrapper.
  TensorId in_padding_wrapper(const PairsOfExperts& pairs) {
    Frame wrapper(block_);
    // TensorParallel._prepare_input_fn: to_local(grad_placements=(Partial(),)).
    const TensorId routed =
        context_.shards_tensors() ? summed_back(block_, "pairs_on_ranks", pairs.rows) : pairs.rows;
    const FilledRows filled = fill(routed, pairs.counts);
    for (const TensorId local : {filled.rows, filled.sources, filled.counts}) wrapper.local(local);
    const TensorId out = wrapper.local(run_experts(filled));
    return without_filling(out, filled.sources);
  }

  /// _permute
  FilledRows fill(TensorId routed, TensorId counts) {
    Frame function(block_);
    FilledRows filled = places_of(counts, function);
    const DType dtype = block_.dtype_of(routed);
    const TensorId zero = made(block_, {{"filling", "zeros"}, {h_}, dtype});
    const TensorId joined = concatenate(block_, {"filling", "rows and zeros"}, {{routed, zero}},
                                        {received_ + Expr(1), h_});
    filled.rows = rows_at(block_, {{"filling", "rows"}, {filled_, h_}, dtype},
                          {.count = filled_, .rows = received_ + Expr(1), .narrow = true},
                          {joined, filled.sources});
    return filled;
  }

  /// One number for each of the rank's experts, of `from`.
  TensorId by_expert(std::string_view name, DType dtype, TensorId from) {
    return made(block_, {{"filling", name}, {own_}, dtype}, {from});
  }

  /// torch.cumsum in `dtype`, to which numbers of another type are cast first.
  TensorId running_sum(std::string_view name, DType dtype, TensorId from) {
    const Shape shape = block_.tensor(from).shape;
    const TensorId out = block_.make({"filling", name}, shape, dtype);
    Course course;
    const auto result = course.make(name, out, dtype);
    const bool casts = block_.dtype_of(from) != dtype;
    const auto wide = casts ? course.make("numbers to add up", out, dtype) : result;
    KernelLaunch scan;
    scan.kind = KernelLaunch::Kind::scan;
    scan.reduced = shape.front();
    scan.dtype = dtype;
    course.launch(std::move(scan));
    if (casts) course.drop(wide);
    Op op;
    op.kind = OpKind::reduce;
    op.name = "filling";
    op.inputs = {from};
    op.outputs = {out};
    std::move(course).write_forward(block_, op, {result});
    block_.emit(std::move(op));
    return out;
  }

  /// generate_permute_indices; `caller` names all that it answers.
  FilledRows places_of(TensorId counts, Frame& caller) {
    Frame function(block_);
    const TensorId last = running_sum("last pairs", DType::int64, counts);
    const TensorId starts = function.local(
        made(block_, {{"filling", "first pairs"}, {experts_}, DType::int64}, {last}));
    const TensorId totals = function.local(by_expert(
        "pairs or 8", DType::int64, by_expert("pairs of all ranks", DType::int64, counts)));
    // (total_tokens_per_expert + alignment - 1) // alignment * alignment
    TensorId groups = totals;
    for (const std::string_view step : {"pairs + 8", "pairs + 7", "groups", "rows"}) {
      groups = by_expert(step, DType::int64, groups);
    }
    FilledRows filled;
    filled.counts = function.local(by_expert("rows in int32", DType::int32, groups));
    const TensorId ends = function.local(running_sum("last rows", DType::int64, filled.counts));
    const TensorId first = function.local(by_expert("first rows", DType::int64, ends));
    filled.sources =
        function.local(made(block_, {{"filling", "sources"}, {filled_}, DType::int32}, {first}));
    for (const TensorId local : {starts, totals}) function.local(local);
    caller.local(by_expert("last rows in int32", DType::int32, ends));
    return filled;
  }

  /// _run_experts_grouped_mm
  TensorId run_experts(const FilledRows& filled) {
    Frame function(block_);
    const TensorId ends = function.local(running_sum("ends", DType::int32, filled.counts));
    const bool cut = context_.shards_tensors() && ranks_ == 1;
    const Expr f =
        cut ? Expr(Symbol::expert_ffn_size) / Symbol::tensor : Expr(Symbol::expert_ffn_size);
    const auto product = [&](std::string_view name, TensorId x, const Expr& out, const Expr& in) {
      return grouped_product(block_, {.name = name,
                                      .weight = block_.parameter({name, "weight"}, {own_, out, in}),
                                      .x = x,
                                      .ends = ends,
                                      .rows = filled_,
                                      .experts = own_,
                                      .even = even_});
    };
    const TensorId active = activation(block_, {"expert_activation", part_.activation},
                                       product("expert_gate_proj", filled.rows, f, h_));
    const TensorId up = product("expert_up_proj", filled.rows, f, h_);
    const TensorId hidden = function.local(multiply(block_, {"expert_gate_times_up"}, active, up));
    return product("expert_down_proj", hidden, h_, f);
  }

  /// _unpermute: out_unpermuted[permuted_indices, :] = out, but for the last row.
  TensorId without_filling(TensorId out, TensorId sources) {
    const Shape rows = {received_ + Expr(1), h_};
    const TensorId empty = made(block_, {{"experts", "empty rows"}, rows, block_.dtype_of(out)});
    const TensorId all = put_rows(
        block_, {{"experts", "rows of pairs"}, empty, {.x = out, .indices = sources}, true});
    return slice(block_, {"experts", "of pairs"}, all, {received_, h_});
  }

  /// ExpertParallel._token_dispatch. `call` names what the module is called with.
  FilledRows dispatch(const PairsOfExperts& pairs, Frame& call) {
    Frame hook(block_);
    const TensorId counts = hook.local(exchanged("counts of all ranks", pairs.counts, experts_));
    // .view(ep_degree, -1).sum(dim=1) of what is sent and of what comes, read on the host.
    for (const auto& [name, from] : {std::pair{"sent", pairs.counts}, std::pair{"got", counts}}) {
      made(block_, {{"dispatch", name}, {Symbol::expert}, DType::int64}, {from});
    }
    const TensorId routed = hook.local(exchanged("tokens", pairs.rows, received_));
    const FilledRows filled = fill(routed, counts);
    block_.name_attributes({filled.sources});
    for (const TensorId local : {filled.rows, filled.counts}) call.local(local);
    return filled;
  }

  /// ExpertParallel._token_combine.
  TensorId combine(TensorId out, const FilledRows& filled, Frame& call) {
    const TensorId rows = call.local(without_filling(out, filled.sources));
    return exchanged("results", rows, pairs_);
  }

  TensorId exchanged(std::string_view name, TensorId x, const Expr& rows) {
    return exchanged_rows(block_, {"dispatch", name}, x, rows);
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  std::int64_t ranks_;
  const Expr experts_ = Symbol::experts;
  Expr own_ = Symbol::experts;  ///< experts of a rank
  Expr h_;
  Expr pairs_;
  Expr received_;  ///< pairs of the rank's experts
  Expr filled_;    ///< rows that the products are called with
  bool even_ = false;
};

}  // namespace

Expr pairs_of_rank(const DecoderContext& context) {
  const Expr pairs = context.dims.b * context.dims.s * Expr(Symbol::top_k);
  return context.policy.expert > 1 && context.shards_tensors() ? pairs / Expr(Symbol::tensor)
                                                               : pairs;
}

TensorId torchtitan_experts(BlockBuilder& block, const DecoderContext& context,
                            const MixtureOfExperts& part, const PairsOfExperts& pairs) {
  return GroupedExpertsWriter(block, context, part).write(pairs);
}

}  // namespace memest
