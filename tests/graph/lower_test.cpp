// Which blocks a model becomes, which kernel `sdpa` means, and what has no graph.
#include "memest/graph/lower.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "models.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

DecoderSpec& decoder_of(ModelSpec& model) { return std::get<DecoderSpec>(model.architecture); }

std::string refusal_of(const ModelSpec& model, const LoweringPolicy& policy) {
  const auto result = lower(model, policy);
  const auto* why = std::get_if<Unavailable>(&result);
  return why == nullptr ? std::string() : why->sentence;
}

bool keeps(const Block& block, std::string_view op, std::string_view name) {
  for (const Op& each : block.ops) {
    for (const TensorId id : each.saved) {
      if (block.tensors[id].op == op && block.tensors[id].name == name) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("adjacent layers of one kind are a run, and a kind is lowered once") {
  ModelSpec model = llama();
  DecoderSpec& decoder = decoder_of(model);
  decoder.kinds.push_back(decoder.kinds[0]);
  decoder.kinds[1].sliding_window = 128;
  decoder.order = {{0, 2}, {1, 1}, {0, 3}, {0, 1}};
  const Graph graph = lowered(model, policy_for(Framework::transformers, AttentionKernel::sdpa));
  REQUIRE(graph.blocks.size() == 5);
  std::vector<std::int64_t> repeats;
  for (const BlockRun& run : graph.order) repeats.push_back(run.repeat);
  REQUIRE(repeats == std::vector<std::int64_t>{1, 2, 1, 4, 1, 1});
  REQUIRE(graph.order[1].block == graph.order[3].block);
  REQUIRE(graph.blocks[graph.order[2].block].name == "layer (sliding window)");
}

TEST_CASE("a window that the sequence fills takes a mask and repeated heads") {
  ModelSpec model = llama();
  decoder_of(model).kinds[0].sliding_window = 2048;
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  REQUIRE(keeps(layer(lowered(model, policy)), "attention_mask", "out"));
  policy.seq_len = 2047;
  REQUIRE_FALSE(keeps(layer(lowered(model, policy)), "attention_mask", "out"));
}

TEST_CASE(
    "beside adapters a frozen matrix keeps no input and before the first there is no gradient") {
  ModelSpec model = llama();
  model.adapter = Adapter{.rank = 16, .targets = {"v_proj"}, .whole_modules = {}};
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  const Graph graph = lowered(model, policy);
  REQUIRE(graph.order[1].repeat == 1);
  REQUIRE(graph.order[2].repeat == 31);
  const Block& first = graph.blocks[graph.order[1].block];
  const Block& next = graph.blocks[graph.order[2].block];
  REQUIRE_FALSE(keeps(first, "q_rotary", "cos"));
  REQUIRE(keeps(first, "v_proj.lora", "input"));
  REQUIRE_FALSE(keeps(first, "attention_norm", "scaled"));
  REQUIRE_FALSE(keeps(next, "gate_times_up", "out"));
  REQUIRE(keeps(next, "attention_norm", "in fp32"));
  REQUIRE(first.trained_parameters().evaluate(graph.sizes) == 16 * (4096 + 1024));
  policy.embeddings_want_gradient = true;
  REQUIRE(lowered(model, policy).order[1].repeat == 32);
}

TEST_CASE("DoRA keeps its base's result, and with dropout the weight in the input's type") {
  ModelSpec model = llama();
  model.adapter = Adapter{.kind = AdapterKind::dora, .rank = 16, .targets = {"v_proj"}};
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  policy.embeddings_want_gradient = true;
  const Block plain = layer(lowered(model, policy));
  REQUIRE(keeps(plain, "v_proj", "out"));
  REQUIRE_FALSE(keeps(plain, "v_proj.dora", "eye"));
  REQUIRE_FALSE(keeps(plain, "v_proj.dora", "weight in type"));
  REQUIRE(plain.trained_parameters().evaluate(lowered(model, policy).sizes) ==
          16 * (4096 + 1024) + 1024);
  model.adapter->dropout = 0.1;
  const Block dropped = layer(lowered(model, policy));
  REQUIRE_FALSE(keeps(dropped, "v_proj", "out"));
  REQUIRE(keeps(dropped, "v_proj.dora", "weight in type"));
}

TEST_CASE("a prompt stands before a sequence's own tokens, and its layers keep no input") {
  ModelSpec model = llama();
  model.adapter = Adapter{.kind = AdapterKind::prompt_tuning, .virtual_tokens = 20};
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  const Graph graph = lowered(model, policy);
  CHECK(graph.virtual_tokens == 20);
  CHECK(graph.sizes.at(Symbol::seq_len) == policy.seq_len + 20);
  const Block& first = graph.blocks[graph.order.front().block];
  CHECK(first.trained_parameters().evaluate(graph.sizes) == 20 * 4096);
  CHECK(first.tensors[first.output].name == "prompted embeddings");
  CHECK_FALSE(keeps(layer(graph), "attention_norm", "scaled"));
  CHECK(keeps(layer(graph), "attention_norm", "in fp32"));
  CHECK(graph.order[1].repeat == 32);
  model.adapter->kind = AdapterKind::p_tuning;
  model.adapter->encoder_hidden_size = 128;
  const Graph encoded = lowered(model, policy);
  const Block& prompt = encoded.blocks[encoded.order.front().block];
  CHECK(prompt.trained_parameters().evaluate(encoded.sizes) ==
        20 * 4096 + 4096 * 128 + 128 + 128 * 128 + 128 + 128 * 4096 + 4096);
  CHECK(keeps(prompt, "mlp_head.1", "out"));
  decoder_of(model).scaled_embedding = true;
  CHECK_THAT(refusal_of(model, policy), ContainsSubstring("prompts before the embeddings"));
}

TEST_CASE("IA3 keeps what it scales, and VeRA what its vectors scale") {
  ModelSpec model = llama();
  model.adapter = Adapter{
      .kind = AdapterKind::ia3, .targets = {"v_proj", "down_proj"}, .scaled_inputs = {"down_proj"}};
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  policy.embeddings_want_gradient = true;
  const Block scaled = layer(lowered(model, policy));
  REQUIRE(keeps(scaled, "v_proj", "out"));
  REQUIRE(keeps(scaled, "down_proj.ia3_l", "input"));
  REQUIRE_FALSE(keeps(scaled, "down_proj", "out"));
  model.adapter =
      Adapter{.kind = AdapterKind::vera, .rank = 256, .targets = {"v_proj", "down_proj"}};
  const Block vectors = layer(lowered(model, policy));
  REQUIRE(keeps(vectors, "v_proj.vera_A", "out"));
  REQUIRE(keeps(vectors, "v_proj.vera_B", "out"));
  REQUIRE_FALSE(keeps(vectors, "v_proj.vera_lambda_b", "input"));
}

TEST_CASE("an adapter of what a model does not have is refused by name") {
  ModelSpec model = llama();
  model.adapter = Adapter{.rank = 16, .targets = {"q_proj", "c_attn"}, .whole_modules = {}};
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  REQUIRE_THAT(refusal_of(model, policy), ContainsSubstring("'c_attn'"));
}

TEST_CASE("a module that is trained in full beside adapters is trained in the weights' type") {
  ModelSpec model = llama();
  model.adapter =
      Adapter{.rank = 16, .targets = {"v_proj"}, .whole_modules = {"lm_head", "o_proj"}};
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  const Graph graph = lowered(model, policy);
  const Block& layer = graph.blocks[graph.order[2].block];
  const Block& head = graph.blocks[graph.order[3].block];
  const std::int64_t whole = 4096 * 4096;
  REQUIRE(layer.trained_parameters().evaluate(graph.sizes) == 16 * (4096 + 1024) + whole);
  REQUIRE(head.trained_parameters().evaluate(graph.sizes) == 4096 * 128256);
  std::int64_t trained = 0;
  for (const ParameterTensor& row : graph.parameters.parameters) {
    if (row.whole_module) trained += row.count * row.shape[0] * row.shape[1];
  }
  REQUIRE(trained == 32 * whole + 4096 * 128256);
  model.adapter->whole_modules = {"embed_tokens"};
  REQUIRE_THAT(refusal_of(model, policy), ContainsSubstring("'embed_tokens'"));
  model.adapter->whole_modules = {"lm_head"};
  decoder_of(model).tied_embeddings = true;
  REQUIRE_THAT(refusal_of(model, policy), ContainsSubstring("'lm_head'"));
}

TEST_CASE("sdpa is cuDNN on 9.0, flash on 8.0, math for fp32 with grouped heads") {
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  const auto kept_beside = [&policy] {
    const Block block = layer(lowered(llama(), policy));
    for (const Op& op : block.ops) {
      if (op.kind == OpKind::attention) return op.saved.size() - 4;
    }
    return std::size_t{0};
  };
  // Flash and cuDNN keep log-sum-exp, seed and offset; flash has a seed of two words.
  REQUIRE(kept_beside() == 3);
  const Expr cudnn = layer(lowered(llama(), policy)).saved_bytes(false);
  policy.capability = kAmpere;
  REQUIRE(layer(lowered(llama(), policy)).saved_bytes(false) == cudnn + 8);
  policy.weights = DType::fp32;
  policy.compute = DType::fp32;
  REQUIRE(kept_beside() == 0);
}

TEST_CASE("the efficient kernel keeps its sums in rows of 32 and works in tiles of 64") {
  const LoweringPolicy policy =
      policy_for(Framework::transformers, AttentionKernel::sdpa_efficient);
  const Block block = layer(lowered(gpt2(), policy));
  const Expr heads = Expr(Symbol::micro_batch) * Symbol::heads;
  for (const Op& op : block.ops) {
    if (op.kind != OpKind::attention) continue;
    REQUIRE(block.tensors[op.saved.back()].bytes() == 4 * heads * Symbol::seq_len_32);
    REQUIRE(block.tensors[op.backward_tensors.back().like].bytes() ==
            heads * Symbol::seq_len_64 / 64 * (16 + 4 * 64 * 64));
  }
}

TEST_CASE("roundings of the sequence are bound with it") {
  Bindings sizes;
  bind_tokens(sizes, 3, 130);
  REQUIRE(sizes.at(Symbol::micro_batch) == 3);
  REQUIRE(sizes.at(Symbol::seq_len_8) == 136);
  REQUIRE(sizes.at(Symbol::seq_len_32) == 160);
  REQUIRE(sizes.at(Symbol::seq_len_64) == 192);
  REQUIRE(sizes.at(Symbol::seq_len_128) == 256);
  REQUIRE_THROWS_AS(bind_tokens(sizes, 1, std::numeric_limits<std::int64_t>::max()), OverflowError);
}

TEST_CASE("GPT-OSS keeps a column of its sinks beside the probabilities, of every head") {
  ModelSpec model = llama();
  model.model_type = "gpt_oss";
  DecoderSpec& decoder = decoder_of(model);
  std::get<SoftmaxAttention>(decoder.attention).sinks = true;
  decoder.kinds[0].feed_forward = MixtureOfExperts{
      .experts = 32, .top_k = 4, .expert_size = 256, .expert_bias = true, .router_bias = true};
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);
  const Graph graph = lowered(model, policy);
  const Block block = layer(graph);
  const Expr rows = Expr(Symbol::micro_batch) * Symbol::heads * Symbol::seq_len;
  Expr probabilities;
  Expr places;
  for (const Op& op : block.ops) {
    for (const TensorId id : op.saved) {
      const Tensor& tensor = block.tensors[id];
      if (op.kind == OpKind::softmax && tensor.op == "softmax") probabilities = tensor.bytes();
      if (tensor.name == "place of the largest") places = tensor.bytes();
    }
  }
  CHECK(probabilities == 2 * rows * (Expr(Symbol::seq_len) + Expr(1)));
  CHECK(places == 8 * rows);
  // Attention's four matrices, sinks and two norms; the router, and the experts, with biases.
  CHECK(block.parameters().evaluate(graph.sizes) == 2 * 4096 * 4096 + 2 * 4096 * 1024 + 32 +
                                                        2 * 4096 + 32 * 4097 +
                                                        32 * (3 * 4096 * 256 + 2 * 256 + 4096));
  model.adapter.emplace().targets = {"q_proj"};
  CHECK_THAT(refusal_of(model, policy), ContainsSubstring("sinks"));
}

TEST_CASE("what has no graph yet is refused with a sentence") {
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa);

  ModelSpec experts = llama();
  decoder_of(experts).kinds[0].feed_forward = MixtureOfExperts{};
  CHECK_THAT(refusal_of(experts, policy), ContainsSubstring("mixtures of experts"));

  // Known by their type, but not with a capacity, a loss of their own, or adapters of experts.
  experts.model_type = "mixtral";
  const MixtureOfExperts mixtral{.experts = 8, .top_k = 2, .expert_size = 256};
  const auto refused_with = [&](const MixtureOfExperts& changed) {
    decoder_of(experts).kinds[0].feed_forward = changed;
    return refusal_of(experts, policy);
  };
  MixtureOfExperts changed = mixtral;
  changed.capacity_factor = 1;
  CHECK_THAT(refused_with(changed), ContainsSubstring("'capacity_factor'"));
  changed = mixtral;
  changed.balance_loss = true;
  CHECK_THAT(refused_with(changed), ContainsSubstring("output_router_logits"));
  experts.adapter.emplace().targets = {"gate_proj"};
  CHECK_THAT(refused_with(mixtral), ContainsSubstring("beside experts"));

  ModelSpec latent = llama();
  decoder_of(latent).attention = LatentAttention{};
  CHECK_THAT(refusal_of(latent, policy), ContainsSubstring("latent attention"));

  ModelSpec sinks = llama();
  std::get<SoftmaxAttention>(decoder_of(sinks).attention).sinks = true;
  CHECK_THAT(refusal_of(sinks, policy), ContainsSubstring("sinks"));

  ModelSpec strange = llama();
  strange.model_type = "gptj";
  CHECK_THAT(refusal_of(strange, policy), ContainsSubstring("'gptj'"));

  ModelSpec inventory;
  inventory.architecture = Inventory{};
  CHECK_THAT(refusal_of(inventory, policy), ContainsSubstring("this family"));
}

TEST_CASE("a kernel that PyTorch would refuse is refused") {
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa_efficient);
  CHECK_THAT(refusal_of(llama(), policy), ContainsSubstring("grouped heads"));

  policy.implementation.attention = AttentionKernel::sdpa_flash;
  ModelSpec windowed = llama();
  decoder_of(windowed).kinds[0].sliding_window = 16;
  CHECK_THAT(refusal_of(windowed, policy), ContainsSubstring("no mask"));

  policy.weights = DType::fp32;
  policy.compute = DType::fp32;
  CHECK_THAT(refusal_of(llama(), policy), ContainsSubstring("16-bit"));
}

TEST_CASE("a layer list counts the first block apart: its input needs no gradient") {
  LayerList list;
  list.blocks = {{4, {LinearLayer{64, 64, true}, ActivationLayer{ActivationFunction::relu}}}};
  ModelSpec model;
  model.architecture = list;
  const Graph graph = lowered(model, policy_for(Framework::plain, AttentionKernel::sdpa));
  REQUIRE(graph.order.size() == 3);
  REQUIRE(graph.order[0].repeat == 1);
  REQUIRE(graph.order[1].repeat == 3);
  const Expr rows = Expr(Symbol::micro_batch) * Symbol::seq_len;
  const Expr product = 2 * rows * 64 * 64;
  REQUIRE(graph.forward_flops() == 4 * product);
  REQUIRE(graph.backward_flops() == 7 * product);
  // Each ReLU's result is the next layer's input and the loss's: one storage.
  REQUIRE(graph.saved_bytes() == 5 * rows * 64 * 2);
}

}  // namespace memest
