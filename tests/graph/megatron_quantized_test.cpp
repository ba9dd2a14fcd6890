// What a layer of Transformer Engine keeps and sends where its products run in 8 or 4 bits, counted
// by hand from its sources (2.11).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

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
const Expr K = Symbol::top_k;
const Expr g = Symbol::expert_ffn_size;

LoweringPolicy in(TeRecipe recipe, std::int64_t tensor = 1,
                  ComputeCapability capability = kBlackwell) {
  LoweringPolicy policy = policy_for(Framework::megatron, AttentionKernel::te);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.implementation.layers = LayerSpec::te;
  policy.tensor = tensor;
  policy.sequence_parallel = tensor > 1;
  policy.micro_batch = 1;
  policy.capability = capability;
  policy.te_linears = TeLinears{.recipe = recipe};
  return policy;
}

/// Bytes of an element with its part of a scale.
Expr bytes_of(TeRecipe recipe) {
  switch (recipe) {
    case TeRecipe::delayed:
    case TeRecipe::current:
      return 1;
    case TeRecipe::blockwise:  // an fp32 scale for 128
      return Expr(1) + Expr(4) / Expr(128);
    case TeRecipe::mxfp8:  // a byte for 32
      return Expr(1) + Expr(1) / Expr(32);
    case TeRecipe::nvfp4:  // half a byte, and one for 16
      return Expr(1) / Expr(2) + Expr(1) / Expr(16);
  }
  return {};
}

/// Two norms' inputs, and their outputs cast; queries, keys, values and the attention's output in
/// bf16 with its log-sum-exp; the first product's output, and the activation's cast; the norms'
/// reciprocal deviations; the state of the random numbers.
Expr kept(const Expr& q, const Expr& whole) {
  return b * s *
             (Expr(4) * h * whole + Expr(2) * q * h * whole + Expr(4) * a * d / t +
              Expr(4) * k * d / t + Expr(4) * a / t + Expr(4) * f / t + q * f / t +
              Expr(8) * whole) +
         Expr(16);
}

const Op& product_of(const Block& block, std::string_view name) {
  return *std::ranges::find_if(
      block.ops, [name](const Op& op) { return op.name == name && op.kind == OpKind::linear; });
}

}  // namespace

TEST_CASE("a layer keeps its products' inputs cast along one side, with their scales") {
  for (const TeRecipeRow& row : kTeRecipes) {
    if (row.recipe == TeRecipe::delayed) continue;
    INFO(row.word);
    const Expr q = bytes_of(row.recipe);
    const Block one = layer(lowered(llama(), in(row.recipe)));
    CHECK(one.saved_bytes(false) == kept(q, 1).substitute(Symbol::tensor, 1));
    const Block eight = layer(lowered(llama(), in(row.recipe, 8)));
    CHECK(eight.saved_bytes(false) == kept(q, Expr(1) / t));
  }
}

TEST_CASE("on Hopper the transpose takes the rows' place: as many bytes are kept") {
  for (const TeRecipe recipe : {TeRecipe::current, TeRecipe::blockwise}) {
    CHECK(layer(lowered(llama(), in(recipe, 8, kHopper))).saved_bytes(false) ==
          layer(lowered(llama(), in(recipe, 8, kBlackwell))).saved_bytes(false));
  }
}

TEST_CASE("delayed scaling, and releases before 2.6, cast what attention keeps once more") {
  // attention.py: save_original_input of linear_proj is for other recipes, from 2.6 on.
  const Block delayed = layer(lowered(llama(), in(TeRecipe::delayed)));
  const Block current = layer(lowered(llama(), in(TeRecipe::current)));
  CHECK(delayed.saved_bytes(false) - current.saved_bytes(false) == b * s * a * d);
  LoweringPolicy early = in(TeRecipe::current);
  early.implementation.transformer_engine = TeRelease::te_2_2;
  CHECK(layer(lowered(llama(), early)).saved_bytes(false) == delayed.saved_bytes(false));
}

TEST_CASE("a row of an expert keeps its input and its product cast, its first product in bf16") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward = MixtureOfExperts{
      .experts = 64, .top_k = 4, .expert_size = 1024, .capacity_factor = 0, .imbalance = 1};
  LoweringPolicy wide = in(TeRecipe::mxfp8);
  wide.expert = 8;
  LoweringPolicy narrow = wide;
  wide.te_linears.reset();
  const auto saved = [&](const LoweringPolicy& policy) {
    return layer(lowered(model, policy))
        .saved_bytes(false)
        .substitute(Symbol::experts, 64)
        .substitute(Symbol::expert, 8);
  };
  const Expr less = Expr(2) - bytes_of(TeRecipe::mxfp8);
  // Of attention the input of the first product; attention's output is kept as it is. The router
  // keeps its input, which no product of this layer's reads cast.
  CHECK(saved(wide) - saved(narrow) == b * s * (less * h + K * less * (h + g)));
}

TEST_CASE("what the experts' activation answers is cast when it was made again") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward = MixtureOfExperts{
      .experts = 64, .top_k = 4, .expert_size = 1024, .capacity_factor = 0, .imbalance = 1};
  LoweringPolicy policy = in(TeRecipe::mxfp8);
  policy.expert = 8;
  const auto of_rank = [](const Expr& bytes) {
    return bytes.substitute(Symbol::experts, 64).substitute(Symbol::expert, 8);
  };
  const Expr kept = of_rank(layer(lowered(model, policy)).saved_bytes(false));
  const SelectiveRecompute parts{.attention_core = false, .expert_activation = true};
  policy.recomputed_parts = parts;
  const Block block = layer(lowered(model, policy));
  CHECK(kept - of_rank(block.saved_bytes_beside(parts)) ==
        b * s * K * bytes_of(TeRecipe::mxfp8) * g);
  const Op& down = *std::ranges::find(block.ops, "expert_down_proj", &Op::name);
  CHECK(of_rank(down.casts.backward) == b * s * K *
                                            ((Expr(2) + Expr(2) * bytes_of(TeRecipe::mxfp8)) * h +
                                             (Expr(2) + bytes_of(TeRecipe::mxfp8)) * g));
}

TEST_CASE("shared experts keep what the router keeps, and the cast of it where they run again") {
  const auto saved = [](std::int64_t shared_size, std::optional<SelectiveRecompute> parts) {
    ModelSpec model = llama();
    std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward =
        MixtureOfExperts{.experts = 64,
                         .top_k = 4,
                         .expert_size = 1024,
                         .shared_size = shared_size,
                         .capacity_factor = 0,
                         .imbalance = 1};
    LoweringPolicy policy = in(TeRecipe::mxfp8);
    policy.expert = 8;
    policy.recomputed_parts = parts;
    return layer(lowered(model, policy)).saved_bytes(false);
  };
  const Expr q = bytes_of(TeRecipe::mxfp8);
  CHECK(saved(1024, {}) - saved(0, {}) == b * s * (Expr(4) + q) * g);
  const SelectiveRecompute parts{.attention_core = false, .shared_experts = true};
  CHECK(saved(1024, parts) - saved(0, parts) == b * s * ((Expr(4) + q) * g + q * h));
}

TEST_CASE("rows of an expert are copied to a multiple and back, where they are none") {
  const auto pads = [](double imbalance, TeRecipe recipe) {
    ModelSpec model = llama();
    std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward =
        MixtureOfExperts{.experts = 64, .top_k = 4, .expert_size = 1024, .imbalance = imbalance};
    LoweringPolicy policy = in(recipe);
    policy.expert = 8;
    const Block block = layer(lowered(model, policy));
    return std::ranges::count_if(block.ops, [](const Op& op) {
      return op.name == "pad_experts" || op.name == "unpad_experts";
    });
  };
  // 2048 tokens of 8 ranks, 4 of 64 experts each: 1024 rows, and 1044.48.
  CHECK(pads(1, TeRecipe::nvfp4) == 0);
  CHECK(pads(1.02, TeRecipe::mxfp8) == 3);
}

TEST_CASE("GPT-OSS in mxfp8 is lowered whole: what is made moves the tensors that others name") {
  // Of 128 experts a rank has 8 with their biases: a layer, of either kind, has more tensors than a
  // block has room for at first.
  ModelSpec model = llama();
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  std::get<SoftmaxAttention>(decoder.attention).sinks = true;
  const MixtureOfExperts part{.experts = 128,
                              .top_k = 4,
                              .expert_size = 4096,
                              .expert_bias = true,
                              .router_bias = true,
                              .imbalance = 1.02};
  decoder.kinds = {LayerKind{.sliding_window = 128, .feed_forward = part},
                   LayerKind{.feed_forward = part}};
  decoder.order = {{.kind = 0}, {.kind = 1}};
  LoweringPolicy policy = in(TeRecipe::mxfp8);
  policy.expert = 16;
  const Graph graph = lowered(model, policy);
  int layers = 0;
  for (const Block& block : graph.blocks) {
    if (!block.checkpointable) continue;
    ++layers;
    CHECK(block.tensors.size() > 96);
    const auto biased = std::ranges::find(block.ops, "expert_bias", &Op::name);
    REQUIRE(biased != block.ops.end());
    const Tensor& sum = block.tensors[biased->outputs.front()];
    const Tensor& product = block.tensors[biased->inputs.front()];
    CHECK(sum.shape == product.shape);
    CHECK(sum.bytes().evaluate(graph.sizes) > Int128{0});
  }
  CHECK(layers == 2);
}

TEST_CASE("products run in the recipe's type, attention, the head and layers left out in bf16") {
  LoweringPolicy policy = in(TeRecipe::nvfp4);
  policy.te_linears->first_bf16 = 1;
  policy.te_linears->last_bf16 = 2;
  const Graph graph = lowered(llama(), policy);
  std::int64_t narrow = 0;
  std::int64_t wide = 0;
  for (const BlockRun& run : graph.order) {
    for (const Op& op : graph.blocks[run.block].ops) {
      if (op.name == "up_proj") (op.compute == DType::fp4 ? narrow : wide) += run.repeat;
      if (op.kind == OpKind::attention || op.name == "lm_head") CHECK(op.compute == DType::bf16);
    }
  }
  CHECK(narrow == 29);
  CHECK(wide == 3);
  std::int64_t marked = 0;
  for (const ParameterTensor& row : graph.parameters.parameters) {
    if (row.te_linear) marked += row.count;
  }
  CHECK(marked == 4 * 29);
}

TEST_CASE("ranks of a layer gather bytes of the recipe, and reduce in bf16") {
  const auto messages = [](TeRecipe recipe, std::string_view name) {
    const Block block = layer(lowered(llama(), in(recipe, 8)));
    return product_of(block, name);
  };
  const Expr q = bytes_of(TeRecipe::mxfp8);
  const Op up = messages(TeRecipe::mxfp8, "up_proj");
  CHECK(up.forward_messages.at(0).bytes == q * b * s * h);
  CHECK(up.backward_messages.at(0).bytes == q * b * s * h);
  CHECK(up.backward_messages.at(1).bytes == Expr(2) * b * s * h);
  // The gradient by rows and by columns, whose scales are others; with one scale a transpose is
  // made of what came.
  const Op down = messages(TeRecipe::mxfp8, "down_proj");
  CHECK(down.forward_messages.at(0).bytes == Expr(2) * b * s * h);
  CHECK(down.backward_messages.at(0).bytes == Expr(2) * q * b * s * h);
  CHECK(messages(TeRecipe::current, "down_proj").backward_messages.at(0).bytes == b * s * h);
}

TEST_CASE("kernels that cast read and write what the recipe's do") {
  const auto casts = [](TeRecipe recipe, ComputeCapability capability, std::string_view name) {
    return product_of(layer(lowered(llama(), in(recipe, 1, capability))), name).casts;
  };
  const Expr n = b * s * f / t;
  const auto of_down = [&](TeRecipe recipe, ComputeCapability capability) {
    return casts(recipe, capability, "down_proj").forward.substitute(Symbol::tensor, 1);
  };
  const Expr elements = n.substitute(Symbol::tensor, 1);
  CHECK(of_down(TeRecipe::delayed, kBlackwell) == Expr(2 + 1) * elements);
  CHECK(of_down(TeRecipe::delayed, kHopper) == Expr(2 + 2) * elements);
  CHECK(of_down(TeRecipe::current, kHopper) == Expr(2 + 2 + 2) * elements);
  CHECK(of_down(TeRecipe::mxfp8, kBlackwell) ==
        (Expr(2) + Expr(2) * bytes_of(TeRecipe::mxfp8)) * elements);
  CHECK(of_down(TeRecipe::nvfp4, kBlackwell) ==
        (Expr(6) + Expr(2) * bytes_of(TeRecipe::nvfp4)) * elements);
  // The gradient by rows and columns, and attention's output once more, by columns.
  const Expr q = bytes_of(TeRecipe::mxfp8);
  CHECK(casts(TeRecipe::mxfp8, kBlackwell, "o_proj").backward.substitute(Symbol::tensor, 1) ==
        (Expr(2) + Expr(2) * q) * b * s * h + (Expr(2) + q) * b * s * a * d);
  // The norm's kernel has found the largest value, or has cast.
  CHECK(casts(TeRecipe::current, kBlackwell, "up_proj").forward == Expr(2 + 1) * b * s * h);
  CHECK(casts(TeRecipe::delayed, kBlackwell, "up_proj").forward.is_zero());
  CHECK(casts(TeRecipe::delayed, kHopper, "up_proj").forward == Expr(2) * b * s * h);
}

TEST_CASE("a weight's copies: two of a byte, one where columns are read as they lie, with scales") {
  constexpr std::int64_t n = 128 * 1024;
  CHECK(te_weight_bytes(n, TeRecipe::delayed, kHopper) == 2 * n);
  CHECK(te_weight_bytes(n, TeRecipe::current, kBlackwell) == n);
  CHECK(te_weight_bytes(n, TeRecipe::current, ComputeCapability{12, 0}) == 2 * n);
  CHECK(te_weight_bytes(n, TeRecipe::blockwise, kHopper) == 2 * (n + 4 * n / (128 * 128)));
  CHECK(te_weight_bytes(n, TeRecipe::mxfp8, kBlackwell) == 2 * (n + n / 32));
  CHECK(te_weight_bytes(n, TeRecipe::nvfp4, kBlackwell) == 2 * (n / 2 + n / 16));
}

TEST_CASE("sizes that a block of scales does not divide are refused by name") {
  ModelSpec model = llama();
  LoweringPolicy policy = in(TeRecipe::blockwise);
  policy.seq_len = 2000;
  const auto refused = lower(model, policy);
  REQUIRE(std::holds_alternative<Unavailable>(refused));
  CHECK(std::get<Unavailable>(refused).sentence ==
        "products in Transformer Engine's recipe blockwise want the tokens of a rank in multiples "
        "of 128, not 2000");
}

}  // namespace memest
