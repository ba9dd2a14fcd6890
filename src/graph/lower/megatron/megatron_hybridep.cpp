// HybridEPDispatch and HybridEPCombine of megatron-core 0.16.1 (transformer/moe/fused_a2a.py) over
// DeepEP's branch hybrid-ep (csrc/hybrid_ep, of early 2026). The handle is what its C++ makes; the
// kernels' own buffers lie outside of PyTorch's allocator (memory/states/dispatch_buffers.cpp).
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/megatron/megatron_routing.hpp"
#include "memest/graph/token_routing.hpp"

namespace memest {
namespace {

TokenRouting routing_of(const MixtureOfExperts& experts) {
  TokenRouting routing{.experts = experts.experts, .top_k = experts.top_k};
  if (experts.groups > 0) {
    routing.groups = experts.groups;
    routing.groups_kept = experts.groups_kept;
  }
  return routing;
}

/// Messages carry one rank's tokens, and a rank has so many bytes of a pass.
struct Exchanged {
  Message dispatch;
  Message combine;
  Expr received;
};
Exchanged exchanged(const MegatronContext& context, const Expr& tokens) {
  Message message{.kind = MessageKind::dispatch,
                  .group = RankGroup::expert,
                  .bytes = tokens,
                  .routing = routing_of(*context.experts)};
  const Message dispatch = message;
  message.kind = MessageKind::combine;
  // Copies a token: 5.27 over 8 ranks, to a 2⁻²⁰th.
  constexpr double kParts = 1 << 20;
  const double copies = ranks_reached(dispatch.routing, context.policy.expert);
  const Expr parts(static_cast<std::int64_t>(std::llround(copies * kParts)));
  return {dispatch, message, parts * tokens / Expr(static_cast<std::int64_t>(kParts))};
}

/// The tensors of the handle, on this rank: `tokens` of it, experts over `ranks`.
std::vector<TensorId> make_handle(BlockBuilder& block, const Expr& tokens) {
  constexpr std::string_view kName = "dispatch";
  const Expr ranks = Symbol::expert;
  const Expr own = Expr(Symbol::experts) / ranks;
  const Expr most = tokens * ranks;  // all tokens of all ranks may come
  // executor.cu, metadata_preprocess_core; permute.cu, permute_processing.
  return {block.make({kName, "places on ranks"}, {tokens, ranks}, DType::int32),
          block.make({kName, "own tokens"}, {tokens}, DType::boolean),
          block.make({kName, "tokens that came"}, {Expr(1)}, DType::int32),
          block.make({kName, "own experts"}, {most, own}, DType::boolean),
          block.make({kName, "map of rows"}, {most, own}, DType::int32),
          block.make({kName, "overflow"}, {Expr(1)}, DType::int32)};
}

}  // namespace

RoutedTokens hybridep_metadata(BlockBuilder& block, RoutedTokens routed) {
  // "HybridEP only supports float32 probs": self.token_probs.float().
  routed.probabilities =
      cast(block, {"dispatch", "probabilities in fp32"}, routed.probabilities, DType::fp32);
  block.name_attributes({routed.probabilities, routed.map});
  return routed;
}

DispatchedTokens hybridep_dispatch(BlockBuilder& block, const MegatronContext& context, TensorId x,
                                   const RoutedTokens& routed) {
  constexpr std::string_view kName = "dispatch";
  const DType dtype = block.dtype_of(x);
  const Expr tokens = context.routed_tokens();
  const Exchanged sent = exchanged(context, block.tensor(x).bytes());
  const Expr rows = Expr(Symbol::experts) / Expr(Symbol::expert) * rows_of_expert(context);
  DispatchedTokens dispatched;
  dispatched.x = x;
  dispatched.handle = make_handle(block, tokens);
  dispatched.tokens = block.make({kName, "tokens"}, {rows, context.h}, dtype);
  dispatched.probabilities = block.make({kName, "probabilities"}, {rows}, DType::fp32);
  Op op;
  op.kind = OpKind::copy;
  op.name = kName;
  op.inputs = {x, routed.probabilities, routed.map};
  op.outputs = dispatched.handle;
  op.outputs.insert(op.outputs.end(), {dispatched.tokens, dispatched.probabilities});
  op.saved = dispatched.handle;
  op.named_by_node = dispatched.handle;
  op.forward_messages = {{.kind = MessageKind::all_gather,
                          .group = RankGroup::expert,
                          .bytes = Expr(Symbol::expert) * block.tensor(routed.map).bytes()},
                         sent.dispatch};
  op.backward_messages = {sent.combine};
  BackwardWriter backward(op);
  const auto of_x = backward.make(x, dtype);
  const auto of_probabilities = backward.make(routed.probabilities, DType::fp32);
  backward.give(x, of_x, Reach::through_view);
  backward.give(routed.probabilities, of_probabilities);
  block.emit(std::move(op));
  // The permutation reads what has come and writes the rows, the way back likewise.
  block.ops().back().forward.bytes += sent.received;
  block.ops().back().backward.bytes += sent.received;
  for (const TensorId id : dispatched.handle) block.set_needs_gradient(id, false);
  // The manager names dispatched_probs, and its graph the node with the handle.
  block.name_attributes({dispatched.probabilities}, dispatched.handle);
  return dispatched;
}

TensorId hybridep_combine(BlockBuilder& block, const MegatronContext& context,
                          const DispatchedTokens& dispatched, TensorId rows) {
  const TensorId x = dispatched.x;
  const Exchanged sent = exchanged(context, block.tensor(x).bytes());
  const TensorId out = block.make({"combine"}, block.tensor(x).shape, block.dtype_of(rows));
  Op op;
  op.kind = OpKind::copy;
  op.name = "combine";
  op.inputs = {rows};
  op.outputs = {out};
  op.saved = dispatched.handle;
  op.named_by_node = dispatched.handle;
  op.forward_messages = {sent.combine};
  op.backward_messages = {sent.dispatch};
  BackwardWriter backward(op);
  backward.give(rows, backward.make(rows, block.dtype_of(rows)));
  block.emit(std::move(op));
  block.ops().back().forward.bytes += sent.received;
  block.ops().back().backward.bytes += sent.received;
  return out;
}

}  // namespace memest
