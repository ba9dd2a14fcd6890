// What a layer of Megatron-core keeps, against the closed forms of its paper (Korthikanti et al.
// 2022, "Reducing Activation Recomputation in Large Transformer Models").
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

const Expr b = Symbol::micro_batch;
const Expr s = Symbol::seq_len;
const Expr h = Symbol::hidden_size;
const Expr a = Symbol::heads;
const Expr k = Symbol::kv_heads;
const Expr d = Symbol::head_dim;
const Expr f = Symbol::ffn_size;
const Expr t = Symbol::tensor;

/// Beyond the paper's: means and reciprocal deviations of the two norms, in fp32.
const Expr kStatistics = Expr(16) * s * b;

LoweringPolicy megatron(std::int64_t tensor, bool sequence) {
  LoweringPolicy policy = policy_for(Framework::megatron, AttentionKernel::unfused);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.tensor = tensor;
  policy.sequence_parallel = sequence;
  policy.micro_batch = 2;
  return policy;
}

/// As many key/value heads as heads, h = a·d, f = 4·h.
Expr classic(const Expr& formula) {
  return formula.substitute(Symbol::kv_heads, a)
      .substitute(Symbol::head_dim, h / a)
      .substitute(Symbol::ffn_size, Expr(4) * h);
}

Expr gpt_layer(std::int64_t tensor, bool sequence) {
  ModelSpec model = gpt(0.1);
  std::get<DecoderSpec>(model.architecture).vocab_size = 50304;
  const Block block = layer(lowered(model, megatron(tensor, sequence)));
  return classic(block.saved_bytes(false));
}

const Expr E = 64;
const Expr K = Symbol::top_k;
const Expr g = Symbol::expert_ffn_size;

/// Llama with 64 experts a layer, 4 of them a token, and as many shared as `shared`.
ModelSpec experts(double capacity, double imbalance, std::int64_t shared = 0) {
  ModelSpec model = llama();
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.kinds.front().feed_forward = MixtureOfExperts{.experts = 64,
                                                        .top_k = 4,
                                                        .expert_size = 1024,
                                                        .shared_size = shared * 1024,
                                                        .capacity_factor = capacity,
                                                        .imbalance = imbalance};
  return model;
}

LoweringPolicy over_ranks(std::int64_t ranks) {
  LoweringPolicy policy = megatron(1, false);
  policy.expert = ranks;
  return policy;
}

/// What attention and norms keep, as a dense layer does without its feed-forward.
Expr without_feed_forward() {
  const Expr dense = layer(lowered(llama(), megatron(1, false))).saved_bytes(false);
  return dense - Expr(6) * b * s * f;
}

/// The experts of a rank stand one by one: their number is no letter.
Expr counted(const Expr& formula, std::int64_t ranks) {
  return formula.substitute(Symbol::experts, 64).substitute(Symbol::expert, ranks);
}

Expr saved(const ModelSpec& model, std::int64_t ranks) {
  return counted(layer(lowered(model, over_ranks(ranks))).saved_bytes(false), ranks);
}

Expr forward_products(const ModelSpec& model, std::int64_t ranks) {
  return counted(layer(lowered(model, over_ranks(ranks))).forward_flops(), ranks);
}

/// With layers of Transformer Engine, one sequence a micro-batch.
LoweringPolicy te(std::int64_t tensor, bool sequence) {
  LoweringPolicy policy = megatron(tensor, sequence);
  policy.implementation.layers = LayerSpec::te;
  policy.implementation.attention = AttentionKernel::te;
  policy.micro_batch = 1;
  return policy;
}

/// The state of the random numbers of an attention kernel: two words.
const Expr kRandomState = 16;

/// 4·h of two norms' inputs and outputs each, queries, keys, values and the attention's output, its
/// log-sum-exp, the gated feed-forward's three, and the norms' reciprocal deviations.
Expr te_layer(const Expr& whole) {
  return b * s *
             (8 * h * whole + 4 * a * d / t + 4 * k * d / t + 4 * a / t + 6 * f / t + 8 * whole) +
         kRandomState;
}

}  // namespace

TEST_CASE("experts keep their input, both halves and their product for every pair") {
  const Expr tokens = b * s;
  const Expr pairs = tokens * K;
  // Of a pair beside the 2h + 6g of the products: where it goes, where its probability is, and
  // that; of a token and expert whether it is taken; of a choice its softmax and number.
  const Expr formula =
      without_feed_forward() + pairs * (2 * h + 6 * g + 8 + 8 + 2) + tokens * E + pairs * (4 + 8);
  CHECK(saved(experts(1.0, 1.0), 8) == formula);
  // As many tokens come as go, whatever ranks the experts are on.
  CHECK(saved(experts(1.0, 1.0), 1) == formula);
  CHECK(saved(experts(1.0, 1.0), 64) == formula);
}

TEST_CASE("a capacity of 1.5 keeps room for half as many pairs again") {
  const Expr pairs = b * s * K;
  CHECK(saved(experts(1.5, 1.0), 8) - saved(experts(1.0, 1.0), 8) ==
        pairs / 2 * (2 * h + 6 * g + 8 + 8 + 2));
}

TEST_CASE("without a capacity the fullest rank's experts keep what the imbalance brings") {
  const Expr pairs = b * s * K;
  CHECK(saved(experts(0, 1.5), 8) - saved(experts(0, 1.0), 8) == pairs / 2 * (2 * h + 6 * g + 2));
}

TEST_CASE("shared experts are a dense feed-forward beside the others") {
  CHECK(saved(experts(1.0, 1.0, 2), 8) - saved(experts(1.0, 1.0), 8) == Expr(12) * b * s * g);
}

TEST_CASE("what runs of a mixture of experts follows top-K, not the number of experts", "[peers]") {
  const Expr pairs = b * s * K;
  const Expr dense = layer(lowered(llama(), megatron(1, false))).forward_flops();
  const Expr attention = dense - Expr(6) * b * s * h * f;
  CHECK(forward_products(experts(1.0, 1.0), 8) ==
        attention + Expr(2) * b * s * h * E + Expr(6) * pairs * h * g);
  CHECK(forward_products(experts(0, 1.0), 8) == forward_products(experts(1.0, 1.0), 8));
}

TEST_CASE("Transformer Engine's experts keep a map of rows in place of the orders") {
  const auto kept = [](const ModelSpec& model) {
    LoweringPolicy policy = over_ranks(8);
    policy.implementation.layers = LayerSpec::te;
    policy.implementation.attention = AttentionKernel::te;
    return counted(layer(lowered(model, policy)).saved_bytes(false), 8);
  };
  const Expr tokens = b * s;
  const Expr pairs = tokens * K;
  // The norm before the experts is a module of its own; its output is theirs as before.
  CHECK(kept(experts(1.0, 1.0)) - kept(llama()) == pairs * (2 * h + 6 * g + 2) + tokens * E +
                                                       pairs * (4 + 8) + 4 * tokens * (2 * E + 1) -
                                                       Expr(6) * tokens * f);
}

namespace {

/// Latent attention of DeepSeek V3's sizes in dense layers.
ModelSpec latent_model() {
  ModelSpec model = llama();
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  const LatentAttention latent{.heads = 128,
                               .q_lora_rank = 1536,
                               .kv_lora_rank = 512,
                               .qk_nope_head_dim = 128,
                               .qk_rope_head_dim = 64,
                               .v_head_dim = 128};
  decoder.attention = latent;
  decoder.position = RotaryPosition{.rotary_dim = 64};
  return model;
}

LoweringPolicy over_te(LoweringPolicy policy) {
  policy.implementation.layers = LayerSpec::te;
  policy.implementation.attention = AttentionKernel::te;
  return policy;
}

}  // namespace

TEST_CASE("a context rank routes the tokens of its part of the sequence") {
  const auto kept = [](const ModelSpec& model, std::int64_t context) {
    LoweringPolicy policy = over_te(over_ranks(8));
    policy.context = context;
    return counted(layer(lowered(model, policy)).saved_bytes(false), 8);
  };
  CHECK(kept(experts(1.0, 1.0), 2) - kept(llama(), 2) ==
        kept(experts(1.0, 1.0), 1) - kept(llama(), 1));
}

TEST_CASE("a squared ReLU without a gate keeps two of a layer's widths in place of three") {
  ModelSpec model = llama();
  auto& part = std::get<DenseFeedForward>(
      std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward);
  part.gated = false;
  part.activation = ActivationFunction::relu2;
  CHECK(std::holds_alternative<Unavailable>(lower(model, megatron(1, false))));
  CHECK(layer(lowered(model, te(2, true))).saved_bytes(false) ==
        te_layer(Expr(1) / t) - 2 * b * s * f / t);
}

TEST_CASE("latent attention keeps its latents, and queries, keys and values of every head") {
  const ModelSpec model = latent_model();
  LoweringPolicy policy = megatron(1, false);
  CHECK(std::holds_alternative<Unavailable>(lower(model, policy)));
  policy = over_te(policy);
  // Two norms of the stream with their statistics, latents and their norms, heads, the attention's
  // log-sum-exp and random state, the feed-forward, and the cosines and sines of q and k.
  const Expr of_token =
      8 * h + 16 + 2 * (1536 + 1536 + 576 + 512) + 4 * a * 192 + 4 * a * 128 + 4 * a + 6 * f;
  CHECK(layer(lowered(model, policy)).saved_bytes(false) == b * s * of_token + 8 * s * 64 + 16);
  // Over ranks of shards of the sequence all but the tables of angles is divided.
  policy = over_te(megatron(4, true));
  CHECK(layer(lowered(model, policy)).saved_bytes(false) == b * s / t * of_token + 8 * s * 64 + 16);
  // Without shards what the latents are made of and the norms are every rank's.
  policy = over_te(megatron(4, false));
  const Expr of_heads = 4 * a * 192 + 4 * a * 128 + 4 * a + 6 * f;
  CHECK(layer(lowered(model, policy)).saved_bytes(false) ==
        b * s * (of_token - of_heads + of_heads / t) + 8 * s * 64 + 16);
}

TEST_CASE("heads that are made again leave the latents that they are made of") {
  // Beside the stream's norms, the feed-forward and attention's output with its statistics.
  const Block block = layer(lowered(latent_model(), over_te(megatron(1, false))));
  const SelectiveRecompute parts{.attention_core = false, .latent_projection = true};
  CHECK(block.saved_bytes_beside(parts) ==
        b * s * (8 * h + 8 + 2 * (1536 + 576) + 2 * a * 128 + 4 * a + 6 * f) + 16);
}

TEST_CASE("tensor ranks have latents' products whole on one side, and a share on the other") {
  const auto held = [](std::int64_t ranks, std::string_view name) {
    const Graph graph = lowered(latent_model(), over_te(megatron(ranks, ranks > 1)));
    for (const ParameterTensor& row : graph.parameters.parameters) {
      if (row.name == "self_attention." + std::string(name) + ".weight") return row.shape;
    }
    return std::vector<std::int64_t>();
  };
  CHECK(held(4, "linear_q_down_proj") == held(1, "linear_q_down_proj"));
  CHECK(held(4, "linear_kv_down_proj") == std::vector<std::int64_t>{512 + 64, 4096});
  CHECK(held(4, "linear_q_up_proj") == std::vector<std::int64_t>{128 / 4 * 192, 1536});
  CHECK(held(4, "linear_kv_up_proj") == std::vector<std::int64_t>{128 / 4 * 256, 512});
  CHECK(held(4, "linear_proj") == std::vector<std::int64_t>{4096, 128 / 4 * 128});
}

TEST_CASE("shards of the sequence gather what of the latents turns, and each rank its own FLOPs") {
  const auto block = [](std::int64_t ranks, bool sequence) {
    return layer(lowered(latent_model(), over_te(megatron(ranks, sequence))));
  };
  const auto gathered = [](const Block& one, std::string_view name) {
    std::int64_t messages = 0;
    for (const Op& op : one.ops) {
      if (op.name != name) continue;
      for (const Message& message : op.forward_messages) {
        messages += message.kind == MessageKind::all_gather ? 1 : 0;
      }
    }
    return messages;
  };
  CHECK(gathered(block(4, true), "kv_down_proj") == 1);
  CHECK(gathered(block(4, true), "kv_up_proj") == 1);
  CHECK(gathered(block(4, false), "kv_down_proj") == 0);
  const Expr into = 2 * b * s * h * (1536 + 576);
  const auto of_product = [](const Block& one, std::string_view name) {
    Expr flops;
    for (const Op& op : one.ops) {
      if (op.name == name) flops += op.forward.flops;
    }
    return flops;
  };
  const auto into_latents = [&](const Block& one) {
    return of_product(one, "q_down_proj") + of_product(one, "kv_down_proj");
  };
  CHECK(into_latents(block(4, true)) == into / t);
  CHECK(into_latents(block(4, false)) == into);
}

TEST_CASE("a rank has its share of the experts and all of the rest") {
  const auto parameters = [](std::int64_t ranks) {
    const Graph graph = lowered(experts(1.0, 1.0), over_ranks(ranks));
    std::int64_t all = 0;
    std::int64_t own = 0;
    for (const ParameterTensor& row : graph.parameters.parameters) {
      std::int64_t elements = row.count;
      for (const std::int64_t size : row.shape) elements *= size;
      all += elements;
      if (row.expert_parallel) own += elements;
    }
    return std::pair(all, own);
  };
  const std::int64_t layers = 32;
  const std::int64_t of_experts = layers * 64 * 3 * 4096 * 1024;
  const auto [all, own] = parameters(1);
  CHECK(own == 0);  // every replica has all of them
  CHECK(parameters(8) == std::pair(all - of_experts / 8 * 7, of_experts / 8));
}

TEST_CASE("a GPT layer of Megatron keeps s·b·h·(34 + 5·a·s/h)", "[formulas]") {
  CHECK(gpt_layer(1, false) == s * b * h * (34 + Expr(5) * a * s / h) + kStatistics);
}

TEST_CASE("its tensor parallelism divides 24 of the 34, and sequence parallelism the rest",
          "[formulas]") {
  CHECK(gpt_layer(4, false) == s * b * h * (10 + 24 / t + Expr(5) * a * s / (h * t)) + kStatistics);
  CHECK(gpt_layer(4, true) == s * b * h / t * (34 + Expr(5) * a * s / h) + kStatistics / t);
}

TEST_CASE("a Llama layer of Megatron keeps repeated keys and values and the softmax") {
  const Expr tokens = b * s;
  const auto kept = [&](std::int64_t tensor, bool sequence) {
    return layer(lowered(llama(), megatron(tensor, sequence))).saved_bytes(false);
  };
  const auto formula = [&](const Expr& whole) {
    return tokens * (2 * (4 * h * whole + a * d / t + 3 * f / t) + 6 * a * d / t + 8 * whole) +
           2 * b * a / t * s * s + 8 * s * d;  // with the cosines and sines of the layer
  };
  CHECK(kept(4, false) == formula(1));
  CHECK(kept(4, true) == formula(1 / t));
  CHECK(kept(1, false) == formula(1).substitute(Symbol::tensor, 1));
}

TEST_CASE("a Llama layer of Transformer Engine keeps what its fused kernels read") {
  const auto kept = [&](std::int64_t tensor, bool sequence) {
    return layer(lowered(llama(), te(tensor, sequence))).saved_bytes(false);
  };
  CHECK(kept(1, false) == te_layer(1).substitute(Symbol::tensor, 1));
  CHECK(kept(4, false) == te_layer(1));
  CHECK(kept(4, true) == te_layer(1 / t));
}

TEST_CASE("flash attention keeps as much, and of several sequences its output twice") {
  LoweringPolicy policy = te(4, true);
  policy.implementation.attention = AttentionKernel::flash_2;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) == te_layer(1 / t));
  policy.micro_batch = 2;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) ==
        te_layer(1 / t) + 2 * b * s * a * d / t);
}

TEST_CASE("norms of queries and keys keep what they read, head by head") {
  ModelSpec model = llama();
  auto& attention = std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention);
  attention.qk_norm = QkNorm::per_head;
  attention.qk_norm_kind = std::get<DecoderSpec>(model.architecture).norm;
  const Expr heads = (a + k) / t;
  CHECK(layer(lowered(model, te(4, true))).saved_bytes(false) ==
        te_layer(1 / t) + b * s * (2 * heads * d + 4 * heads));
}

TEST_CASE("products of Transformer Engine add their weights' gradients to the buffer alone") {
  const Block block = layer(lowered(llama(), te(4, true)));
  Expr added;
  for (const Op& op : block.ops) {
    if (op.kind != OpKind::linear) continue;
    REQUIRE(op.adds_to_buffer.has_value());
    added += block.tensors[*op.adds_to_buffer].elements();
    for (const InputGradient& gradient : op.gradients) CHECK(gradient.input != *op.adds_to_buffer);
  }
  const Expr gains = 2 * h;
  CHECK(added + gains == block.trained_parameters());
}

TEST_CASE("heads exchanged over context ranks are kept with the output, a ring's last keys alone") {
  LoweringPolicy policy = te(1, false);
  policy.context = 4;
  const Expr alone = te_layer(1).substitute(Symbol::tensor, 1);
  policy.context_exchange = ContextExchange::all_to_all;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) == alone + 2 * b * s * a * d);
  policy.context_exchange = ContextExchange::ring;
  const Expr states = kRandomState * Expr(Symbol::context) - kRandomState;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) == alone + states);
}

TEST_CASE("a window leaves out scores, sinks and experts' biases are parameters, with no shards") {
  ModelSpec model = experts(0, 1.0);
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  const LoweringPolicy policy = over_te(megatron(1, false));
  const Block plain = layer(lowered(model, policy));
  std::get<SoftmaxAttention>(decoder.attention).sinks = true;
  auto& part = std::get<MixtureOfExperts>(decoder.kinds.front().feed_forward);
  part.expert_bias = part.router_bias = true;
  const Block full = layer(lowered(model, policy));
  const Expr g = Symbol::expert_ffn_size;
  const Expr count = Symbol::experts;
  CHECK(full.trained_parameters() - plain.trained_parameters() ==
        a + count + Expr(part.experts) * (2 * g + h));
  decoder.kinds.front().sliding_window = 128;
  const Block windowed = layer(lowered(model, policy));
  const auto core = [](const Block& block) {
    return *std::find_if(block.ops.begin(), block.ops.end(),
                         [](const Op& op) { return op.kind == OpKind::attention; });
  };
  CHECK(core(windowed).window == 128);
  CHECK(core(windowed).forward.flops * s * s ==
        core(full).forward.flops * Expr(128) * (2 * s - Expr(128)));
  CHECK(windowed.saved_bytes(false) == full.saved_bytes(false));
  LoweringPolicy other = policy;
  other.context = 2;
  CHECK(std::holds_alternative<Unavailable>(lower(model, other)));
  other = policy;
  other.implementation.attention = AttentionKernel::flash_2;
  CHECK(std::holds_alternative<Unavailable>(lower(model, other)));
}

TEST_CASE("a ring passes latents' keys and values in their own widths, and exchanges no heads") {
  LoweringPolicy policy = over_te(megatron(1, false));
  const Block whole = layer(lowered(latent_model(), policy));
  policy.context = 4;
  policy.context_exchange = ContextExchange::ring;
  const Block part = layer(lowered(latent_model(), policy));
  const auto core = [](const Block& block) {
    return *std::find_if(block.ops.begin(), block.ops.end(),
                         [](const Op& op) { return op.kind == OpKind::attention; });
  };
  CHECK(part.saved_bytes(false) - whole.saved_bytes(false) ==
        kRandomState * Expr(Symbol::context) - kRandomState);
  CHECK(core(part).forward_messages.front().bytes == b * s * a * Expr(2 * (192 + 128)));
  CHECK(core(part).forward.flops == core(whole).forward.flops * Expr(Symbol::context));
  CHECK(core(part).backward.flops == core(whole).backward.flops * Expr(Symbol::context));
  policy.context_exchange = ContextExchange::all_to_all;
  CHECK(std::holds_alternative<Unavailable>(lower(latent_model(), policy)));
}

TEST_CASE("a sequence on several ranks is attended to as a whole") {
  LoweringPolicy policy = te(1, false);
  const auto core = [&] {
    const Block block = layer(lowered(llama(), policy));
    const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::attention; });
    return found->forward.flops;
  };
  const Expr one = core();
  policy.context = 2;
  CHECK(core() == one * Expr(Symbol::context));
}

TEST_CASE("a ring passes keys and values on beside its kernels, heads are exchanged before them") {
  LoweringPolicy policy = te(1, false);
  policy.context = 4;
  const auto core = [&] {
    const Block block = layer(lowered(llama(), policy));
    return *std::find_if(block.ops.begin(), block.ops.end(),
                         [](const Op& op) { return op.kind == OpKind::attention; });
  };
  const Expr queries = 2 * b * s * a * d;
  const Expr pair = 4 * b * s * k * d;
  policy.context_exchange = ContextExchange::ring;
  const Op ring = core();
  CHECK(ring.kernels == 4);
  CHECK(ring.parts == 1);
  const auto passed = [](const Expr& bytes) {
    return std::vector<Message>{
        {MessageKind::send, RankGroup::context, bytes, /*asynchronous=*/true, /*times=*/3}};
  };
  CHECK(ring.forward_messages == passed(pair));
  CHECK(ring.backward_messages == passed(2 * pair));
  policy.context_exchange = ContextExchange::all_to_all;
  const Op exchange = core();
  CHECK(exchange.kernels == 1);
  CHECK(exchange.parts == 4);
  CHECK(exchange.forward_messages == exchange.backward_messages);
  Expr sent;
  for (const Message& message : exchange.forward_messages) {
    CHECK(message.kind == MessageKind::all_to_all);
    sent += message.bytes;
  }
  CHECK(sent == 2 * queries + pair);
}

namespace {

/// The layers of a Llama in which adapters of rank 16 are trained: the first one, and the others.
std::pair<Block, Block> adapted_layers(const std::vector<std::string>& targets) {
  ModelSpec model = llama();
  model.adapter = Adapter{.rank = 16, .targets = targets, .whole_modules = {}, .parallel = true};
  const Graph graph = lowered(model, megatron(1, false));
  std::vector<Block> layers;
  for (const Block& block : graph.blocks) {
    if (block.checkpointable) layers.push_back(block);
  }
  REQUIRE(layers.size() == 2);
  return {layers[0], layers[1]};
}

}  // namespace

TEST_CASE("A product keeps its input for its adapter alone, and no layer before the first") {
  const Expr dense = layer(lowered(llama(), megatron(1, false))).saved_bytes(false);
  const Expr narrow = 2 * b * s * 16;
  const auto [first, other] =
      adapted_layers({"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"});
  CHECK(other.saved_bytes(false) == dense + 4 * narrow);
  // The first norm: its input and a number a row.
  CHECK(first.saved_bytes(false) == dense + 4 * narrow - 2 * b * s * h - 4 * b * s);
  const auto attention = adapted_layers({"linear_qkv", "linear_proj"});
  CHECK(attention.second.saved_bytes(false) == dense + 2 * narrow - 2 * b * s * (h + f));
}

TEST_CASE("A frozen product makes its input's gradient alone, an adapter's both") {
  const auto [first, other] = adapted_layers({"linear_qkv"});
  const auto flops = [](const Block& block, std::string_view name) {
    const auto op = std::find_if(block.ops.begin(), block.ops.end(),
                                 [name](const Op& one) { return one.name == name; });
    return std::pair(op->forward.flops, op->backward.flops);
  };
  const auto own = flops(other, "qkv_proj");
  CHECK(own.second == own.first);
  const auto narrow = flops(other, "qkv_proj.linear_in");
  CHECK(narrow.first == 2 * b * s * h * 16);
  CHECK(narrow.second == 2 * narrow.first);
  CHECK(flops(first, "qkv_proj").second.is_zero());
}

}  // namespace memest
