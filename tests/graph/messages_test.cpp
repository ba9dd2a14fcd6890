// What ranks of tensor parallelism send one another in a layer: two all-reduces of the stream a
// pass (Shoeybi et al. 2019, "Megatron-LM", section 3), each of which sequence parallelism takes
// apart into an all-gather and a reduce-scatter (Korthikanti et al. 2022, section 4.2.2).
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

const Expr kStream = Expr(2) * Symbol::micro_batch * Expr(Symbol::seq_len) * Symbol::hidden_size;

LoweringPolicy policy_of(Framework framework, std::int64_t tensor, bool sequence) {
  LoweringPolicy policy =
      policy_for(framework, framework == Framework::megatron ? AttentionKernel::unfused
                                                             : AttentionKernel::sdpa_flash);
  if (framework == Framework::megatron) policy.implementation.loss = LossKernel::vocab_parallel;
  if (framework == Framework::torchtitan) policy.implementation.norm = NormKernel::fused;
  policy.tensor = tensor;
  policy.sequence_parallel = sequence;
  policy.micro_batch = 2;
  return policy;
}

/// Messages of a layer of one kind, and the bytes of all of them.
struct Sent {
  int count = 0;
  Expr bytes;
};
Sent sent(const Block& block, MessageKind kind, std::vector<Message> Op::* pass) {
  Sent sum;
  for (const Op& op : block.ops) {
    for (const Message& message : op.*pass) {
      if (message.kind != kind || message.group != RankGroup::tensor) continue;
      ++sum.count;
      sum.bytes += message.bytes;
    }
  }
  return sum;
}

Block layer_of(Framework framework, std::int64_t tensor, bool sequence) {
  return layer(lowered(llama(), policy_of(framework, tensor, sequence)));
}

}  // namespace

TEST_CASE("without tensor parallelism nothing is sent") {
  for (const Framework framework : {Framework::megatron, Framework::torchtitan}) {
    for (const Block& block : lowered(llama(), policy_of(framework, 1, false)).blocks) {
      for (const Op& op : block.ops) {
        CHECK(op.forward_messages.empty());
        CHECK(op.backward_messages.empty());
      }
    }
  }
}

TEST_CASE("a layer under tensor parallelism sums its stream twice a pass") {
  const Block block = layer_of(Framework::megatron, 4, false);
  for (const auto pass : {&Op::forward_messages, &Op::backward_messages}) {
    const Sent sums = sent(block, MessageKind::all_reduce, pass);
    CHECK(sums.count == 2);
    CHECK(sums.bytes == 2 * kStream);
  }
}

TEST_CASE("sequence parallelism gathers and scatters the same bytes") {
  const Block block = layer_of(Framework::megatron, 4, true);
  CHECK(sent(block, MessageKind::all_reduce, &Op::forward_messages).count == 0);
  CHECK(sent(block, MessageKind::all_gather, &Op::forward_messages).bytes == 2 * kStream);
  CHECK(sent(block, MessageKind::reduce_scatter, &Op::forward_messages).bytes == 2 * kStream);
  CHECK(sent(block, MessageKind::reduce_scatter, &Op::backward_messages).bytes == 2 * kStream);
  // The inputs of both column-parallel products are gathered once more beside the two gradients.
  CHECK(sent(block, MessageKind::all_gather, &Op::backward_messages).bytes == 4 * kStream);
}

TEST_CASE("experts cut as all else is gather the rows of all their parts, and scatter their sum") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward =
      MixtureOfExperts{.experts = 8, .top_k = 2, .expert_size = 256, .capacity_factor = 1};
  LoweringPolicy policy = policy_of(Framework::megatron, 4, true);
  const auto bytes_of = [&](MessageKind kind) {
    return sent(layer(lowered(model, policy)), kind, &Op::forward_messages).bytes;
  };
  const Expr cut_gathers = bytes_of(MessageKind::all_gather);
  const Expr cut_scatters = bytes_of(MessageKind::reduce_scatter);
  policy.whole_experts = true;
  policy.expert = 2;
  // Of all b·s·K pairs the rows and their probabilities go, and the rows come back.
  const Expr pairs = Symbol::micro_batch * Expr(Symbol::seq_len) * Symbol::top_k;
  const Expr rows = Expr(2) * pairs * Symbol::hidden_size;
  CHECK(cut_gathers == bytes_of(MessageKind::all_gather) + rows + Expr(2) * pairs);
  CHECK(cut_scatters == bytes_of(MessageKind::reduce_scatter) + rows);
}

TEST_CASE("torchtitan gathers and scatters twice a pass") {
  const Block block = layer_of(Framework::torchtitan, 4, true);
  for (const auto pass : {&Op::forward_messages, &Op::backward_messages}) {
    CHECK(sent(block, MessageKind::all_gather, pass).bytes == 2 * kStream);
    CHECK(sent(block, MessageKind::reduce_scatter, pass).bytes == 2 * kStream);
  }
}

TEST_CASE("a loss over shards of the vocabulary sums three numbers a token") {
  const Expr numbers = Expr(3 * 4) * Symbol::micro_batch * Symbol::seq_len;
  const Graph graph = lowered(llama(), policy_of(Framework::megatron, 4, true));
  CHECK(sent(graph.blocks.back(), MessageKind::all_reduce, &Op::forward_messages).bytes == numbers);
  CHECK(sent(graph.blocks.back(), MessageKind::all_reduce, &Op::backward_messages).count == 0);
}

namespace {

/// A layer of 64 experts over 8 ranks, whose tokens go so.
Block layer_of_experts(TokenDispatcher dispatcher) {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward = MixtureOfExperts{
      .experts = 64, .top_k = 4, .expert_size = 1024, .capacity_factor = 0, .imbalance = 1};
  LoweringPolicy policy = policy_of(Framework::megatron, 1, false);
  policy.expert = 8;
  policy.implementation.token_dispatcher = dispatcher;
  return layer(lowered(model, policy));
}

std::vector<MessageKind> kinds_of(const Block& block, std::vector<Message> Op::* pass) {
  std::vector<MessageKind> kinds;
  for (const Op& op : block.ops) {
    for (const Message& message : op.*pass) kinds.push_back(message.kind);
  }
  return kinds;
}

}  // namespace

TEST_CASE("an exchange takes its message alone, and a row goes to each expert of a token") {
  const Block block = layer_of_experts(TokenDispatcher::alltoall);
  int exchanges = 0;
  for (const Op& op : block.ops) {
    if (op.kind != OpKind::exchange) continue;
    ++exchanges;
    CHECK(op.forward.bytes.is_zero());
    CHECK(op.backward.bytes.is_zero());
    CHECK(op.forward_messages == op.backward_messages);
  }
  CHECK(exchanges == 3);
  CHECK(kinds_of(block, &Op::forward_messages) == std::vector(3, MessageKind::all_to_all));
}

TEST_CASE("Hybrid-EP sends a rank's tokens once each way, and its backwards change places") {
  const Block block = layer_of_experts(TokenDispatcher::hybridep);
  using enum MessageKind;
  CHECK(kinds_of(block, &Op::forward_messages) == std::vector{all_gather, dispatch, combine});
  CHECK(kinds_of(block, &Op::backward_messages) == std::vector{combine, dispatch});
  for (const Op& op : block.ops) {
    for (const Message& message : op.backward_messages) CHECK(message.bytes == kStream);
  }
}

}  // namespace memest
