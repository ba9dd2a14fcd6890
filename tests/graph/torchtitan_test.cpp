// What a layer of torchtitan keeps under tensor parallelism, and what it refuses.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy torchtitan(std::int64_t tensor) {
  LoweringPolicy policy = policy_for(Framework::torchtitan, AttentionKernel::sdpa_flash);
  policy.implementation.norm = NormKernel::fused;
  policy.tensor = tensor;
  policy.sequence_parallel = tensor > 1;
  policy.micro_batch = 2;
  return policy;
}

Expr kept(std::int64_t tensor) {
  return layer(lowered(llama(), torchtitan(tensor))).saved_bytes(false);
}

ModelSpec qwen3() {
  ModelSpec model = llama();
  auto& attention = std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention);
  attention.qk_norm = QkNorm::per_head;
  attention.qk_norm_kind = Norm{NormKind::rmsnorm};
  return model;
}

ModelSpec qwen3_of_experts(const MixtureOfExperts& experts) {
  ModelSpec model = qwen3();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward = experts;
  return model;
}

constexpr MixtureOfExperts kExperts = {.experts = 128, .top_k = 8, .expert_size = 768};

std::string refusal_of_experts(const MixtureOfExperts& experts, LoweringPolicy policy) {
  policy.casts_arguments = true;
  const auto result = lower(qwen3_of_experts(experts), policy);
  const auto* unavailable = std::get_if<Unavailable>(&result);
  return unavailable == nullptr ? "" : unavailable->sentence;
}

/// What a layer of Qwen3 keeps more than one of LLaMA.
Expr kept_more(LoweringPolicy policy) {
  policy.casts_arguments = true;
  const Expr normed = layer(lowered(qwen3(), policy)).saved_bytes(false);
  return normed - layer(lowered(llama(), policy)).saved_bytes(false);
}

/// Raw queries and keys of a rank, and their deviations.
Expr normed_heads() {
  const Expr heads = Expr(Symbol::heads) + Symbol::kv_heads;
  const Expr tokens = Expr(Symbol::micro_batch) * Symbol::seq_len;
  return tokens * heads * (2 * Expr(Symbol::head_dim) + 4);
}

std::string refusal_of_qwen3(LoweringPolicy policy) {
  policy.casts_arguments = true;
  const auto result = lower(qwen3(), policy);
  const auto* unavailable = std::get_if<Unavailable>(&result);
  return unavailable == nullptr ? "" : unavailable->sentence;
}

}  // namespace

TEST_CASE("torchtitan's tensor parallelism divides all of a layer but two gathered inputs") {
  const Expr t = Symbol::tensor;
  const Expr gathered = Expr(4) * Symbol::micro_batch * Expr(Symbol::seq_len) * Symbol::hidden_size;
  const Expr seeds = 24;  // what attention keeps to draw its random numbers again
  const Expr whole = kept(1) - gathered - seeds;
  CHECK(kept(4) == whole / t + gathered + seeds);
}

TEST_CASE(
    "torchtitan's Qwen3 keeps raw queries and keys, their deviations, and a cast table more") {
  const Expr table = 4 * Expr(Symbol::seq_len) * Symbol::head_dim;
  CHECK(kept_more(torchtitan(1)) == normed_heads() + table);
}

TEST_CASE("torchtitan's Qwen3 divides the norms of heads over tensor ranks, and not its table") {
  const Expr table = 4 * Expr(Symbol::seq_len) * Symbol::head_dim;
  CHECK(kept_more(torchtitan(4)) == normed_heads() / Expr(Symbol::tensor) + table);
}

TEST_CASE("torchtitan's Qwen3 keeps rows of its table over context ranks, as LLaMA rotations") {
  LoweringPolicy policy = torchtitan(1);
  policy.implementation.attention = AttentionKernel::sdpa_cudnn;
  policy.context = 4;
  // Two numbers of 16 bits a channel, and half a complex one of 64.
  CHECK(kept_more(policy) == normed_heads());
}

TEST_CASE("gradients of Qwen3's heads over tensor ranks are never summed in place") {
  for (const std::int64_t tensor : {1, 4}) {
    LoweringPolicy policy = torchtitan(tensor);
    policy.casts_arguments = true;
    int wrapped = 0;
    for (const Op& op : layer(lowered(qwen3(), policy)).ops) {
      if (op.name != "q_rotary" && op.name != "k_rotary") continue;
      for (const InputGradient& one : op.gradients) wrapped += one.reach == Reach::wrapped ? 1 : 0;
    }
    // x·cos and both halves of each.
    CHECK(wrapped == (tensor == 1 ? 0 : 6));
  }
}

TEST_CASE("torchtitan's Qwen3 refuses what PyTorch's DTensors have no sharding for") {
  LoweringPolicy policy = torchtitan(2);
  CHECK(refusal_of_qwen3(policy).empty());
  policy.implementation.attention = AttentionKernel::sdpa_math;
  CHECK(refusal_of_qwen3(policy).starts_with("PyTorch's math kernel takes no heads"));
  policy.implementation.attention = AttentionKernel::sdpa_cudnn;
  policy.context = 2;
  CHECK(refusal_of_qwen3(policy).starts_with("PyTorch's context parallelism takes no heads"));
  policy = torchtitan(1);
  policy.implementation.torchtitan = TorchtitanRelease::v0_1_0;
  CHECK(refusal_of_qwen3(policy).starts_with("torchtitan has Qwen3 from 0.2.0 on"));
}

TEST_CASE("torchtitan's mixture keeps rows that are filled up to eights for every expert") {
  LoweringPolicy policy = torchtitan(1);
  policy.casts_arguments = true;
  const Expr h = Symbol::hidden_size;
  const Expr experts = Symbol::experts;
  const Expr size = Symbol::expert_ffn_size;
  const Expr tokens = Expr(Symbol::micro_batch) * Symbol::seq_len;
  const Expr pairs = tokens * Symbol::top_k;
  // Of a token the router's scores, and its denominator; of a pair its expert, its score, its
  // weight, its place, its token, and what its expert answers in fp32.
  const Expr routed = tokens * (Expr(4) * experts + 4) + pairs * (Expr(8 + 4 + 4 + 8 + 8) + 4 * h);
  // Of a row its input and where it comes from, both products, the activation and what goes down.
  const Expr rows = pairs + Expr(8) * experts;
  const Expr filled = rows * (2 * h + 8 * size + 4) + Expr(4) * experts;
  const Expr dense = tokens * Expr(8) * Symbol::ffn_size;
  const auto kept = [&policy](const ModelSpec& model) {
    return layer(lowered(model, policy)).saved_bytes(false);
  };
  CHECK(kept(qwen3_of_experts(kExperts)) - kept(qwen3()) == routed + filled - dense);
  // Three products of these rows, and one of a row of weights for each token.
  Expr flops;
  for (const Op& op : layer(lowered(qwen3_of_experts(kExperts), policy)).ops) {
    if (op.kind == OpKind::batched_matmul) flops += op.forward.flops;
  }
  CHECK(flops == Expr(6) * rows * h * size + Expr(2) * pairs * h);
}

TEST_CASE("torchtitan's tensor ranks route all tokens and have a part of every expert") {
  const auto graph_of = [](std::int64_t tensor) {
    LoweringPolicy policy = torchtitan(tensor);
    policy.casts_arguments = true;
    return lowered(qwen3_of_experts(kExperts), policy);
  };
  const Graph one = graph_of(1);
  const Graph four = graph_of(4);
  const auto bytes = [](const Graph& graph, std::string_view op, std::string_view name) {
    const Block block = layer(graph);
    for (const Tensor& tensor : block.tensors) {
      if (tensor.op == op && tensor.name == name) return tensor.bytes().evaluate(graph.sizes);
    }
    return Int128{};
  };
  for (const std::string_view name : {"expert_gate_proj", "expert_up_proj", "expert_down_proj"}) {
    CHECK(bytes(one, name, "weight") == 4 * bytes(four, name, "weight"));
  }
  CHECK(bytes(one, "expert_up_proj", "product") == 4 * bytes(four, "expert_up_proj", "product"));
  CHECK(bytes(one, "expert_down_proj", "product") == bytes(four, "expert_down_proj", "product"));
  CHECK(bytes(one, "router_softmax", "out") == bytes(four, "router_softmax", "out"));
  const auto elements_of = [](const Graph& graph, std::string_view name) {
    std::int64_t elements = 1;
    for (const ParameterTensor& row : graph.parameters.parameters) {
      if (row.name != name) continue;
      for (const std::int64_t side : row.shape) elements *= side;
    }
    return elements;
  };
  CHECK(elements_of(one, "moe.experts.w2") == 4 * elements_of(four, "moe.experts.w2"));
  CHECK(elements_of(one, "moe.router.gate.weight") == elements_of(four, "moe.router.gate.weight"));
}

TEST_CASE("torchtitan's expert ranks send every pair there and back, and fill up their own rows") {
  const auto layer_of = [](std::int64_t ranks) {
    LoweringPolicy policy = torchtitan(1);
    policy.casts_arguments = true;
    policy.expert = ranks;
    return layer(lowered(qwen3_of_experts(kExperts), policy));
  };
  const Block alone = layer_of(1);
  const Block shared = layer_of(4);
  const Expr h = Symbol::hidden_size;
  const Expr pairs = Expr(Symbol::micro_batch) * Symbol::seq_len * Symbol::top_k;
  const Expr experts = Symbol::experts;
  const Expr own = experts / Symbol::expert;
  const Expr fewer = Expr(8) * experts - Expr(8) * own;
  const Expr of_row = 2 * h + 8 * Expr(Symbol::expert_ffn_size) + 4;
  CHECK(alone.saved_bytes(false) - shared.saved_bytes(false) ==
        fewer * of_row + Expr(4) * experts - Expr(4) * own);
  std::vector<Message> forward;
  std::vector<Message> backward;
  for (const Op& op : shared.ops) {
    forward.insert(forward.end(), op.forward_messages.begin(), op.forward_messages.end());
    backward.insert(backward.end(), op.backward_messages.begin(), op.backward_messages.end());
  }
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].bytes == Expr(8) * experts);
  for (const Message& message : {forward[1], forward[2], backward[0], backward[1]}) {
    CHECK(message.kind == MessageKind::all_to_all);
    CHECK(message.group == RankGroup::expert);
    CHECK(message.bytes == Expr(2) * pairs * h);
  }
  CHECK(backward.size() == 2);
}

TEST_CASE("of pairs that do not divide, torchtitan's first rank has the first experts' more") {
  LoweringPolicy policy = torchtitan(1);
  policy.casts_arguments = true;
  policy.expert = 4;
  policy.micro_batch = 1;
  policy.seq_len = 102;
  // 306 pairs: the first two of eight experts get 39 of every rank, the others 38.
  const Graph graph =
      lowered(qwen3_of_experts({.experts = 8, .top_k = 3, .expert_size = 64}), policy);
  const Block block = layer(graph);
  std::vector<Int128> rows;
  for (const Tensor& tensor : block.tensors) {
    if (tensor.op != "dispatch" || tensor.name == "counts of all ranks") continue;
    if (tensor.shape.size() == 2) rows.push_back(tensor.shape.front().evaluate(graph.sizes));
  }
  const std::vector<Int128> expected = {4 * (39 + 39), 306};
  CHECK(rows == expected);
}

TEST_CASE("torchtitan's list of operators counts its products without the router's") {
  LoweringPolicy policy = torchtitan(1);
  policy.casts_arguments = true;
  std::string kept;
  for (const Op& op : layer(lowered(qwen3_of_experts(kExperts), policy)).ops) {
    if (op.kind == OpKind::linear && op.kept_selectively) kept += std::string(op.name) + " ";
    if (op.kind == OpKind::batched_matmul) CHECK_FALSE(op.kept_selectively);
  }
  CHECK(kept == "q_proj v_proj ");
}

TEST_CASE("torchtitan's other mixtures, and ranks that share one, are refused by name") {
  const LoweringPolicy policy = torchtitan(1);
  CHECK(refusal_of_experts(kExperts, policy).empty());
  const auto refused_with = [&](auto change) {
    MixtureOfExperts experts = kExperts;
    change(experts);
    return refusal_of_experts(experts, policy);
  };
  const std::string others = "of torchtitan's mixtures of experts Qwen3's is available";
  CHECK(refused_with([](auto& one) { one.shared_size = 768; }).starts_with(others));
  CHECK(refused_with([](auto& one) { one.correction_bias_buffer = true; }).starts_with(others));
  CHECK(refused_with([](auto& one) { one.balance_loss = true; }).starts_with(others));
  CHECK(refused_with([](auto& one) {
          one.capacity_factor = 1;
        }).starts_with("torchtitan computes every token's experts"));
  CHECK(refused_with([](auto& one) { one.experts = 400; }).find("399 experts") !=
        std::string::npos);
  LoweringPolicy ranks = torchtitan(2);
  CHECK(refusal_of_experts(kExperts, ranks).empty());
  CHECK(refused_with([](auto& one) { one.expert_size = 767; }).empty());
  MixtureOfExperts odd = kExperts;
  odd.expert_size = 767;
  CHECK(refusal_of_experts(odd, ranks).find("767 cannot be cut evenly") != std::string::npos);
  ranks = policy;
  ranks.runs_again = RunsAgain::all_but_selected;
  CHECK(refusal_of_experts(kExperts, ranks).empty());
  odd = kExperts;
  odd.experts = 128;
  ModelSpec narrow = qwen3_of_experts(odd);
  std::get<SoftmaxAttention>(std::get<DecoderSpec>(narrow.architecture).attention).kv_heads = 1;
  ranks.casts_arguments = true;
  const auto taken = lower(narrow, ranks);
  REQUIRE(std::holds_alternative<Unavailable>(taken));
  CHECK(std::get<Unavailable>(taken).sentence.find("for the router's product") !=
        std::string::npos);
  ranks.runs_again = RunsAgain::all;
  CHECK(std::holds_alternative<Graph>(lower(narrow, ranks)));
  ranks = policy;
  ranks.parts = {{.first = 0, .count = 1}};
  CHECK(refusal_of_experts(kExperts, ranks).find("pipeline") != std::string::npos);
  ranks = policy;
  ranks.expert = 3;
  CHECK(refusal_of_experts(kExperts, ranks).find("cannot be shared evenly") != std::string::npos);
  ranks = torchtitan(2);
  ranks.expert = 2;
  CHECK(refusal_of_experts(kExperts, ranks).find("expert_tensor: 1") != std::string::npos);
  ranks = policy;
  ranks.implementation.compile = CompileScope::blocks;
  CHECK(refusal_of_experts(kExperts, ranks).find("torch.compile") != std::string::npos);
}

TEST_CASE("torchtitan before 0.2.0 keeps keys and values of every query head") {
  LoweringPolicy policy = torchtitan(1);
  policy.implementation.torchtitan = TorchtitanRelease::v0_1_0;
  const Expr tokens = Expr(Symbol::micro_batch) * Symbol::seq_len;
  const Expr repeats = (Expr(Symbol::heads) - Symbol::kv_heads) * Symbol::head_dim;
  const Expr both = Expr(2) * size_of(DType::bf16) * tokens * repeats;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) - kept(1) == both);
}

TEST_CASE("torchtitan before 0.2.0 asks for flash, and for cuDNN from compute capability 10.0 on") {
  const auto kept_with = [](AttentionKernel kernel, TorchtitanRelease release,
                            ComputeCapability capability) {
    LoweringPolicy policy = torchtitan(1);
    policy.implementation.attention = kernel;
    policy.implementation.torchtitan = release;
    policy.capability = capability;
    return layer(lowered(llama(), policy)).saved_bytes(false);
  };
  const auto means = [&](AttentionKernel kernel, TorchtitanRelease release,
                         ComputeCapability capability) {
    return kept_with(AttentionKernel::sdpa, release, capability) ==
           kept_with(kernel, release, capability);
  };
  for (const TorchtitanRelease early : {TorchtitanRelease::dec_2024, TorchtitanRelease::v0_1_0}) {
    CHECK(means(AttentionKernel::sdpa_flash, early, kAmpere));
    CHECK(means(AttentionKernel::sdpa_flash, early, kHopper));
    CHECK(means(AttentionKernel::sdpa_cudnn, early, kBlackwell));
  }
  CHECK(means(AttentionKernel::sdpa_cudnn, TorchtitanRelease::v0_2_2, kHopper));
  CHECK_FALSE(means(AttentionKernel::sdpa_flash, TorchtitanRelease::v0_2_2, kHopper));
}

TEST_CASE("torchtitan's compile leaves the loss eager up to March 2025, shards of logits too") {
  for (const std::int64_t tensor : {1, 4}) {
    LoweringPolicy policy = torchtitan(tensor);
    policy.implementation.compile = CompileScope::blocks;
    policy.implementation.loss_parallel = tensor > 1;
    const auto compiles_loss = [&](TorchtitanRelease release) {
      policy.implementation.torchtitan = release;
      return lowered(llama(), policy).blocks.back().compiled;
    };
    CHECK_FALSE(compiles_loss(TorchtitanRelease::dec_2024));
    CHECK_FALSE(compiles_loss(TorchtitanRelease::mar_2025));
    CHECK(compiles_loss(TorchtitanRelease::v0_1_0));
    CHECK(compiles_loss(TorchtitanRelease::v0_2_2));
  }
}

TEST_CASE("torchtitan's list keeps float8 linears' largest values, and before February 2025 more") {
  const auto kept_of = [](TorchtitanRelease release, std::optional<Float8Recipe> recipe) {
    LoweringPolicy policy = torchtitan(1);
    policy.implementation.torchtitan = release;
    policy.capability = kHopper;
    if (recipe) policy.float8 = Float8Linears{*recipe, false, {"output"}};
    return layer(lowered(llama(), policy)).selectively_kept_bytes();
  };
  const Expr in_bf16 = kept_of(TorchtitanRelease::v0_2_2, {});
  CHECK(kept_of(TorchtitanRelease::dec_2024, {}) == in_bf16);
  // Seven linears of two operands, a number of two bytes each.
  const Expr largest = in_bf16 + Expr(28);
  for (const TorchtitanRelease release :
       {TorchtitanRelease::v0_2_2, TorchtitanRelease::v0_1_0, TorchtitanRelease::mar_2025}) {
    CHECK(kept_of(release, Float8Recipe::tensorwise) == largest);
    CHECK(kept_of(release, Float8Recipe::rowwise) == in_bf16);
  }
  const Expr h = Symbol::hidden_size;
  const Expr f = Symbol::ffn_size;
  const Expr a = Expr(Symbol::heads) * Symbol::head_dim;
  const Expr k = Expr(Symbol::kv_heads) * Symbol::head_dim;
  const Expr inputs = Expr(Symbol::micro_batch) * Symbol::seq_len * (5 * h + a + f);
  const Expr weights = 2 * h * (a + k) + 3 * h * f;
  CHECK(kept_of(TorchtitanRelease::dec_2024, Float8Recipe::tensorwise) ==
        largest + 2 * (inputs + weights));
}

TEST_CASE("torchtitan's chunked loss widens an eighth of the logits at a time") {
  LoweringPolicy policy = torchtitan(1);
  policy.implementation.torchtitan = TorchtitanRelease::mar_2025;
  policy.implementation.loss = LossKernel::chunked;
  const auto wide_of = [&](std::int64_t tokens) {
    policy.seq_len = tokens;
    std::vector<Expr> wide;
    const Graph graph = lowered(llama(), policy);
    for (const Op& op : graph.blocks.back().ops) {
      if (op.kind != OpKind::cast) continue;
      wide.push_back(graph.blocks.back().tensors[op.outputs.front()].elements());
    }
    return wide;
  };
  const Expr logits = Expr(Symbol::micro_batch) * Symbol::seq_len * Symbol::vocab_size;
  CHECK(wide_of(128) == std::vector<Expr>(8, logits / Expr(8)));
  // torch.chunk: 5 tokens each but for the last of 7 chunks.
  const Expr row = Expr(Symbol::micro_batch) * Symbol::vocab_size;
  CHECK(wide_of(33) ==
        std::vector<Expr>{5 * row, 5 * row, 5 * row, 5 * row, 5 * row, 5 * row, 3 * row});
  policy.tensor = 4;
  policy.sequence_parallel = true;
  policy.seq_len = 128;
  CHECK(std::get<Unavailable>(lower(llama(), policy)).sentence ==
        "torchtitan's chunked loss is available without tensor, context and pipeline parallelism");
}

TEST_CASE("torchtitan's tensor parallelism refuses whole sequences and uneven sizes") {
  LoweringPolicy policy = torchtitan(4);
  policy.sequence_parallel = false;
  CHECK(std::holds_alternative<Unavailable>(lower(llama(), policy)));
  CHECK(std::holds_alternative<Unavailable>(lower(llama(), torchtitan(7))));
  CHECK(std::holds_alternative<Graph>(lower(llama(), torchtitan(4))));
}

}  // namespace memest
