// MoELayer with TopKRouter, MoEAlltoAllTokenDispatcher (without fused permutation) and
// SequentialMLP. Where a capacity is given, experts' inputs are padded to it; without one every
// token finds its experts, and this rank's get `imbalance` times their mean.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/experts/expert_rows.hpp"
#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/megatron/megatron_routing.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

class MegatronExpertsWriter {
 public:
  MegatronExpertsWriter(BlockBuilder& block, const MegatronContext& context)
      : block_(block),
        context_(context),
        experts_(*context.experts),
        pads_(experts_.capacity_factor > 0),
        local_(experts_.experts / context.policy.expert),
        exchanges_(context.policy.expert > 1),
        tokens_(context.routed_tokens()),
        sent_to_expert_(rows_of_expert(context)),
        of_expert_(sent_to_expert_ * context.expert_cut()),
        received_(Expr(Symbol::experts) / Expr(Symbol::expert) * sent_to_expert_),
        gathered_(received_ * context.expert_cut()),
        // moe_pad_expert_input_to_capacity: every rank sends and receives capacity rows for each
        // expert, empty ones included.
        sent_(pads_ ? received_ : tokens_ * Expr(Symbol::top_k)) {}

  TensorId write(TensorId x) {
    const bool shares = experts_.shared_size > 0;
    const TensorId shared = shares ? shared_experts(x) : 0;
    Frame forward(block_);
    const RoutedTokens routed = route_tokens(block_, context_, x);
    block_.end_part(GraphScope::moe_router);
    if (context_.policy.implementation.token_dispatcher == TokenDispatcher::hybridep) {
      const TensorId out = by_hybridep(forward, x, routed);
      if (shares) forward.local(shared);
      return shares ? add(block_, {"add_shared_experts"}, out, shared) : out;
    }
    block_.name_attributes({routed.probabilities, routed.map});
    const Permuted permuted = permute(x, routed);
    block_.end_part(GraphScope::moe_preprocess);
    TensorId probabilities = permuted.probabilities;
    TensorId given = permuted.tokens;
    if (exchanges_) {
      given = exchanged_rows(block_, {"dispatch", "tokens"}, given, received_);
      probabilities =
          exchanged_rows(block_, {"dispatch", "probabilities"}, probabilities, received_);
    }
    TensorId out = compute_experts(given, probabilities);
    if (exchanges_) out = exchanged_rows(block_, {"combine", "tokens"}, out, sent_);
    for (const TensorId local : {out, permuted.tokens}) forward.local(local);
    if (shares) forward.local(shared);
    for (const TensorId local : {probabilities, given}) forward.local(local);
    out = moved(block_, {{"unpermute"}, block_.tensor(x).shape, block_.dtype_of(x)},
                {out, permuted.indices});
    return shares ? add(block_, {"add_shared_experts"}, out, shared) : out;
  }

 private:
  using Permuted = PermutedTokens;

  /// MoEFlexTokenDispatcher: the library permutes by expert and exchanges in one call.
  TensorId by_hybridep(Frame& forward, TensorId x, RoutedTokens routed) {
    routed = hybridep_metadata(block_, routed);
    block_.end_part(GraphScope::moe_preprocess);
    const DispatchedTokens dispatched = hybridep_dispatch(block_, context_, x, routed);
    const TensorId rows = forward.local(expert_rows(dispatched.tokens, dispatched.probabilities));
    const TensorId out = hybridep_combine(block_, context_, dispatched, rows);
    for (const TensorId local : {dispatched.probabilities, dispatched.tokens}) forward.local(local);
    return out;
  }

  /// Answers of the experts, of rows sorted by expert.
  TensorId expert_rows(TensorId tokens, TensorId probabilities) {
    return context_.te() ? te_experts(block_, context_, tokens, probabilities)
                         : sequential_experts(tokens, probabilities);
  }

  [[nodiscard]] Shape by_expert() const { return {tokens_, Expr(Symbol::experts)}; }

  /// An MLP of its own size, before the rest.
  TensorId shared_experts(TensorId x) {
    const PartOfLayer inside(block_, &LayerParts::shared_experts);
    MegatronContext context = context_;
    context.feed_forward = {.size = experts_.shared_size, .gated = true};
    context.norm_apart = true;
    const std::int64_t count = experts_.shared_size / experts_.expert_size;
    // moe_shared_expert_intermediate_size; SharedExpertMLP is an MLP of that width over the sharded
    // sequence.
    const bool whole = experts_.shared_size % experts_.expert_size == 0;
    context.f = whole ? count * Expr(Symbol::expert_ffn_size) : Expr(experts_.shared_size);
    if (context.sequence) context.f = context.f / context.t;
    const TensorId out = megatron_feed_forward(block_, context, x);
    if (!experts_.shared_gate) return out;
    constexpr std::string_view kGate = "shared_expert_gate";
    Frame forward(block_);
    const TensorId logits =
        forward.local(linear(block_, {kGate, context_.h, Expr(1)}, {{context_.s, context_.b}, x}));
    const TensorId score = forward.local(function(block_, {kGate, "score"}, Keeps::result, logits));
    return multiply(block_, {kGate, "gated"}, out, score);
  }

  /// Tokens that an expert takes of this rank.
  [[nodiscard]] Expr of_source() const { return sent_to_expert_ / Expr(Symbol::expert); }

  Permuted permute(TensorId x, const RoutedTokens& routed) {
    Permuted permuted;
    {
      if (context_.te()) return permute_fused(x, routed);
      Frame function(block_);
      permuted = pads_ ? permute_padded(function, x, routed) : permute_all(function, x, routed);
    }
    block_.name_attributes({permuted.indices});
    return permuted;
  }

  Permuted permute_fused(TensorId x, const RoutedTokens& routed) {
    const Permuted permuted = te_permute(block_, sent_, x, routed.probabilities);
    block_.name_attributes({permuted.indices});
    return permuted;
  }

  TensorId permuted_tokens(TensorId x, TensorId indices) {
    return moved(block_, {{"permute", "tokens"}, {sent_, context_.h}, block_.dtype_of(x)},
                 {x, indices});
  }

  /// The first tokens of each expert's, sorted by whether they are its own.
  Permuted permute_padded(Frame& function, TensorId x, const RoutedTokens& routed) {
    const Expr experts = Symbol::experts;
    const Shape transposed = {experts, tokens_};
    const Shape kept = {experts, of_source()};
    const TensorId numbers =
        made(block_, {{"permute", "map in int8"}, by_expert(), DType::int8}, {routed.map});
    const TensorId by_rows =
        function.local(made(block_, {{"permute", "map"}, transposed, DType::int8}, {numbers}));
    // permute with drop_and_pad: routing_map.to(int8).T.contiguous().argsort(dim=-1,
    // descending=True, stable=True)[:, :capacity].
    const TensorId order = sort_rows(by_rows, transposed);
    Permuted permuted;
    permuted.indices = made(block_, {{"permute", "indices"}, kept, DType::int64}, {order});
    const TensorId probabilities = function.local(
        copy(block_, {"permute", "probabilities"}, routed.probabilities, transposed));
    const TensorId first =
        function.local(made(block_, {{"permute", "experts"}, {experts}, DType::int64}));
    const TensorId starts = made(block_, {{"permute", "starts"}, {experts}, DType::int64}, {first});
    const TensorId flat =
        made(block_, {{"permute", "flat indices"}, kept, DType::int64}, {starts, permuted.indices});
    function.local(flat);
    const DType dtype = block_.dtype_of(probabilities);
    permuted.probabilities =
        moved(block_, {{"permute", "own probabilities"}, {sent_}, dtype}, {probabilities, flat});
    permuted.tokens = permuted_tokens(x, permuted.indices);
    return permuted;
  }

  /// argsort, stable: short rows are sorted with their numbers, long ones as segments of all
  /// (aten/src/ATen/native/cuda/Sort.cpp); CUB's scratch for these is left out.
  TensorId sort_rows(TensorId rows, const Shape& shape) {
    constexpr std::int64_t kShortRows = 4096;
    const std::int64_t tokens =
        checked_multiply(context_.policy.micro_batch, context_.policy.seq_len) /
        (context_.sequence ? context_.policy.tensor : 1);
    Frame sort(block_);
    const Pair sorted = pair_of(block_, {{"sort", "values"}, shape, DType::int8},
                                {{"sort", "order"}, shape, DType::int64}, rows);
    if (tokens <= kShortRows) {
      sort.local(made(block_, {{"sort", "numbers"}, {tokens_}, DType::int64}, {sorted.first}));
    } else {
      const TensorId numbers = made(block_, {{"sort", "numbers"}, shape, DType::int64});
      const TensorId pairs = made(block_, {{"sort", "pairs"}, shape, DType::int64});
      sort.local(made(block_, {{"sort", "keys"}, shape, DType::int8}, {sorted.first}));
      for (const TensorId local : {pairs, numbers}) sort.local(local);
    }
    sort.local(sorted.first);
    return sorted.second;
  }

  /// masked_select of all pairs of a token and an expert.
  Permuted permute_all(Frame& function, TensorId x, const RoutedTokens& routed) {
    const Shape transposed = {Expr(Symbol::experts), tokens_};
    const TensorId map = function.local(
        made(block_, {{"permute", "map"}, transposed, DType::boolean}, {routed.map}));
    const TensorId counted =
        function.local(made(block_, {{"permute", "tokens counted"}, {tokens_}, DType::int64}));
    Permuted permuted;
    permuted.indices =
        made(block_, {{"permute", "indices"}, {sent_}, DType::int64}, {map, counted});
    const TensorId probabilities =
        copy(block_, {"permute", "probabilities"}, routed.probabilities, transposed);
    const DType dtype = block_.dtype_of(probabilities);
    permuted.probabilities =
        moved(block_, {{"permute", "own probabilities"}, {sent_}, dtype}, {probabilities, map});
    permuted.tokens = permuted_tokens(x, permuted.indices);
    return permuted;
  }

  /// Rows by rank and expert become rows by expert and rank, or back.
  TensorId by_other(Place place, TensorId x) {
    // MoEAlltoAllTokenDispatcher sorts chunks by expert only where num_local_experts > 1
    // (sort_chunks_by_idxs, or a transpose of [ranks, experts, capacity, h] when padded).
    if (local_ == 1 || (pads_ && !exchanges_ && !context_.cuts_experts())) return x;
    if (!pads_) return reordered_rows(block_, place, x, gathered_);
    const Shape shape = block_.tensor(x).shape;
    return copy(block_, place, view_copied_back(block_, {place.op, "view"}, x, shape), shape);
  }

  /// Rows of all ranks that an expert is cut over, or this rank's part of their sum (the regions of
  /// tensor_parallel/mappings.py, whose backwards are each other).
  TensorId across_cut(Place place, TensorId x, const Expr& rows, MessageKind kind) {
    const bool gathers = kind == MessageKind::all_gather;
    const Expr own = block_.tensor(x).bytes();
    const Expr whole = gathers ? own * context_.expert_cut() : own;
    const MessageKind back = gathers ? MessageKind::reduce_scatter : MessageKind::all_gather;
    return sent_rows(block_, {place, x, rows},
                     {{.kind = kind, .bytes = whole}, {.kind = back, .bytes = whole}});
  }

  TensorId compute_experts(TensorId tokens, TensorId probabilities) {
    Frame compute(block_);
    if (context_.cuts_experts()) {
      constexpr MessageKind kGather = MessageKind::all_gather;
      tokens = across_cut({"gather", "tokens"}, tokens, gathered_, kGather);
      probabilities = across_cut({"gather", "probabilities"}, probabilities, gathered_, kGather);
    }
    tokens = by_other({"sort_by_expert"}, tokens);
    probabilities = by_other({"sort_probabilities"}, probabilities);
    for (const TensorId local : {tokens, probabilities}) compute.local(local);
    const TensorId joined = compute.local(expert_rows(tokens, probabilities));
    const TensorId by_rank = by_other({"sort_by_rank"}, joined);
    if (!context_.cuts_experts()) return by_rank;
    return across_cut({"scatter"}, by_rank, received_, MessageKind::reduce_scatter);
  }

  TensorId expert(TensorId tokens, TensorId probabilities) {
    const Expr g = Expr(Symbol::expert_ffn_size) / context_.expert_cut();
    const TensorId both = parallel_product(
        block_, context_,
        {.name = "expert_up_proj", .in = context_.h, .out = Expr(2) * g, .rows = {of_expert_}},
        tokens);
    const TensorId active = [&] {
      Frame function(block_);
      function.local(both);
      return weighted_swiglu(block_, g, both, probabilities);
    }();
    return parallel_product(
        block_, context_,
        {.name = "expert_down_proj", .in = g, .out = context_.h, .rows = {of_expert_}}, active);
  }

  TensorId sequential_experts(TensorId tokens, TensorId probabilities) {
    // SequentialMLP.forward splits and joins nothing for one expert.
    if (local_ == 1) return expert(tokens, probabilities);
    const auto count = static_cast<std::size_t>(local_);
    const std::vector<TensorId> inputs =
        split(block_, "split_tokens", tokens,
              std::vector<SplitPart>(count, {{"split_tokens"}, {of_expert_, context_.h}}));
    const std::vector<TensorId> weights =
        split(block_, "split_probabilities", probabilities,
              std::vector<SplitPart>(count, {{"split_probabilities"}, {of_expert_, Expr(1)}}));
    std::vector<TensorId> outputs;
    for (std::size_t i = 0; i < count; ++i) outputs.push_back(expert(inputs[i], weights[i]));
    Frame list(block_);
    // output_local_list goes as a list does, from its last element.
    for (std::size_t i = count; i > 0; --i) list.local(outputs[i - 1]);
    return concatenate(block_, {"join_experts"}, {std::move(outputs)}, {gathered_, context_.h});
  }

  BlockBuilder& block_;
  const MegatronContext& context_;
  const MixtureOfExperts& experts_;
  bool pads_;
  std::int64_t local_;  // experts
  bool exchanges_;
  Expr tokens_;
  Expr sent_to_expert_;  // rows, by ranks that each have another part of it or are alone
  Expr of_expert_;       // rows
  Expr received_;        // rows of all experts of this rank
  Expr gathered_;        // and of the ranks that have the other parts of them
  Expr sent_;            // rows
};

}  // namespace

TensorId megatron_experts(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  return MegatronExpertsWriter(block, context).write(x);
}

}  // namespace memest
