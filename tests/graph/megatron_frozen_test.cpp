// Adapters beside products in 8 and 4 bits: what Transformer Engine's layers keep, cast and send of
// weights that want no gradient, counted by hand from its sources (2.11).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
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
const Expr f = Symbol::ffn_size;
const Expr t = Symbol::tensor;

using Targets = std::vector<std::string>;
const Targets kAll = {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};

LoweringPolicy in(std::optional<TeRecipe> recipe, std::int64_t tensor = 1,
                  ComputeCapability capability = kBlackwell) {
  LoweringPolicy policy = policy_for(Framework::megatron, AttentionKernel::te);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.implementation.layers = LayerSpec::te;
  policy.tensor = tensor;
  policy.sequence_parallel = tensor > 1;
  policy.capability = capability;
  if (recipe) policy.te_linears = TeLinears{.recipe = *recipe};
  return policy;
}

/// A layer behind the first adapter, whose products all make their input's gradient.
Block adapted(const LoweringPolicy& policy, const Targets& targets) {
  ModelSpec model = llama();
  model.adapter = Adapter{.rank = 16, .targets = targets, .whole_modules = {}, .parallel = true};
  const Graph graph = lowered(model, policy);
  std::optional<Block> last;
  for (const Block& block : graph.blocks) {
    if (block.checkpointable) last = block;
  }
  REQUIRE(last);
  return *std::move(last);
}

const Op& product_of(const Block& block, std::string_view name) {
  return *std::ranges::find_if(
      block.ops, [name](const Op& op) { return op.name == name && op.kind == OpKind::linear; });
}

Expr bytes_of(const TeRecipeRow& row) {
  const Expr data = Expr(row.bits) / Expr(8);
  return row.block == 0 ? data : data + Expr(row.scale_bytes) / Expr(row.block);
}

}  // namespace

TEST_CASE(
    "a frozen product keeps nothing cast, but the rows that LayerNormLinear hands an adapter") {
  for (const TeRecipeRow& row : kTeRecipes) {
    INFO(row.word);
    const auto more = [&](const Targets& targets, std::int64_t tensor) {
      return adapted(in(row.recipe, tensor), targets).saved_bytes(false) -
             adapted(in(std::nullopt, tensor), targets).saved_bytes(false);
    };
    const Expr rows = bytes_of(row) * b * s * h;
    CHECK(more(kAll, 1) == Expr(2) * rows);
    CHECK(more({"linear_qkv", "linear_proj"}, 1) == rows);
    CHECK(more({"linear_proj", "linear_fc2"}, 1).is_zero());
    // Of what is gathered the rank's own rows are kept beside: cast they take bf16's place.
    const Expr cast = bytes_of(row) * b * s * h / t;
    CHECK(more(kAll, 8) == Expr(2) * cast - Expr(4) * b * s * h / t);
  }
}

TEST_CASE("a frozen product makes its input's gradient in the recipe's type, its adapter in bf16") {
  const Block block = adapted(in(TeRecipe::mxfp8), kAll);
  for (const char* name : {"qkv_proj", "o_proj", "up_proj", "down_proj"}) {
    INFO(name);
    const Op& product = product_of(block, name);
    CHECK(product.compute == DType::fp8);
    CHECK(product.backward.flops == product.forward.flops);
    CHECK_FALSE(product.adds_to_buffer);
    for (const char* end : {".linear_in", ".linear_out"}) {
      const Op& narrow = product_of(block, std::string(name) + end);
      CHECK(narrow.compute == DType::bf16);
      CHECK(narrow.backward.flops == Expr(2) * narrow.forward.flops);
    }
  }
}

TEST_CASE("casts of a frozen product: rows, and the norm's answer behind its kernel") {
  const auto casts = [](TeRecipe recipe, const Targets& targets, std::string_view name) {
    return product_of(adapted(in(recipe), targets), name).casts;
  };
  const TeRecipeRow& mxfp8 = row_of(TeRecipe::mxfp8);
  const Expr q = bytes_of(mxfp8);
  const auto down = casts(TeRecipe::mxfp8, kAll, "down_proj");
  CHECK(down.forward == (Expr(2) + q) * b * s * f);
  CHECK(down.backward == (Expr(2) + q) * b * s * h);
  // layernorm_linear.py makes columns of the gradient whether a weight wants them or not.
  CHECK(casts(TeRecipe::mxfp8, kAll, "up_proj").backward ==
        (Expr(2) + Expr(2) * q) * b * s * Expr(2) * f);
  // The largest value is found by a kernel of its own where the norm answers bf16.
  CHECK(casts(TeRecipe::current, kAll, "up_proj").forward == Expr(2 + 2 + 1) * b * s * h);
  CHECK(casts(TeRecipe::current, {"linear_qkv"}, "up_proj").forward == Expr(2 + 1) * b * s * h);
  CHECK(casts(TeRecipe::delayed, {"linear_qkv"}, "up_proj").forward.is_zero());
}

TEST_CASE("frozen weights are cast in a step's first micro-batch, and not where they live in fp8") {
  LoweringPolicy policy = in(TeRecipe::mxfp8);
  const Expr copies = Expr(2) * bytes_of(row_of(TeRecipe::mxfp8));
  CHECK(product_of(adapted(policy, kAll), "down_proj").casts.in_a_step ==
        (Expr(2) + copies) * h * f);
  policy.te_linears->param_gather = true;
  CHECK(product_of(adapted(policy, kAll), "down_proj").casts.in_a_step.is_zero());
}

TEST_CASE("ranks gather 16 bits for an adapter, and no input again for a frozen weight") {
  const Expr q = bytes_of(row_of(TeRecipe::mxfp8));
  const Block alone = adapted(in(TeRecipe::mxfp8, 8), {"linear_qkv"});
  const Op& up = product_of(alone, "up_proj");
  CHECK(up.forward_messages.at(0).bytes == q * b * s * h);
  REQUIRE(up.backward_messages.size() == 1);
  CHECK(up.backward_messages[0].kind == MessageKind::reduce_scatter);
  CHECK_FALSE(up.backward_messages[0].asynchronous);
  // The gradient along rows alone.
  const Op& down = product_of(alone, "down_proj");
  CHECK(down.forward_messages.at(0).bytes == Expr(2) * b * s * h);
  CHECK(down.backward_messages.at(0).bytes == q * b * s * h);
  const Op& qkv = product_of(alone, "qkv_proj");
  CHECK(qkv.forward_messages.empty());
  CHECK(qkv.backward_messages.empty());
  const auto gather = std::ranges::find_if(
      alone.ops, [](const Op& op) { return op.name == "qkv_proj" && op.kind != OpKind::linear; });
  REQUIRE(gather != alone.ops.end());
  CHECK(gather->forward_messages.at(0).bytes == Expr(2) * b * s * h);
}

TEST_CASE("2.2 makes columns of every gradient") {
  LoweringPolicy early = in(TeRecipe::delayed, 1, kHopper);
  early.implementation.transformer_engine = TeRelease::te_2_2;
  const auto backward = [](const LoweringPolicy& policy) {
    return product_of(adapted(policy, kAll), "down_proj").casts.backward;
  };
  CHECK(backward(early) == Expr(2 + 2) * b * s * h);
  CHECK(backward(in(TeRecipe::delayed, 1, kHopper)) == Expr(2 + 1) * b * s * h);
}

TEST_CASE("a rank's experts have one adapter together, whose gradients all ranks sum") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward = MixtureOfExperts{
      .experts = 64, .top_k = 4, .expert_size = 1024, .capacity_factor = 0, .imbalance = 1};
  const Expr K = Symbol::top_k;
  const Expr g = Symbol::expert_ffn_size;
  const auto written = [&](std::optional<TeRecipe> recipe, const Targets& targets) {
    LoweringPolicy policy = in(recipe);
    policy.expert = 8;
    ModelSpec with = model;
    if (!targets.empty()) {
      with.adapter = Adapter{.rank = 16, .targets = targets, .whole_modules = {}, .parallel = true};
    }
    return lowered(with, policy);
  };
  const auto saved = [&](std::optional<TeRecipe> recipe, const Targets& targets) {
    const Graph graph = written(recipe, targets);
    const auto last =
        std::ranges::find_if(graph.blocks.rbegin(), graph.blocks.rend(), &Block::checkpointable);
    return last->saved_bytes(false).substitute(Symbol::experts, 64).substitute(Symbol::expert, 8);
  };
  const Expr narrow = Expr(2 * 16) * b * s;
  const Expr trained = saved(std::nullopt, {});
  CHECK(saved(std::nullopt, kAll) == trained + narrow * (Expr(2) + Expr(2) * K));
  // Without an adapter experts keep neither their rows nor the activation's product.
  CHECK(saved(std::nullopt, {"linear_qkv", "linear_proj"}) ==
        trained + Expr(2) * narrow - Expr(2) * b * s * K * (h + g));
  const Expr q = bytes_of(row_of(TeRecipe::mxfp8));
  CHECK(saved(TeRecipe::mxfp8, kAll) - saved(std::nullopt, kAll) == q * b * s * h);
  const Graph graph = written(std::nullopt, kAll);
  std::int64_t matrices = 0;
  for (const ParameterTensor& row : graph.parameters.parameters) {
    if (!row.trainable || row.name.find(".experts.") == std::string::npos) continue;
    CHECK(row.expert_parallel);
    matrices += row.count;
  }
  CHECK(matrices == 32 * 4);
  const Block& layers = graph.blocks[graph.order[graph.order.size() - 3].block];
  const Op& in_op = product_of(layers, "expert_up_proj.linear_in");
  CHECK(in_op.backward_messages.at(0).group == RankGroup::expert);
  CHECK(in_op.backward_messages.at(0).bytes == Expr(2 * 16) * h);
}

TEST_CASE("adapters of experts that are cut, or of local layers, are refused by name") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().feed_forward =
      MixtureOfExperts{.experts = 64, .top_k = 4, .expert_size = 1024};
  model.adapter = Adapter{.rank = 16, .targets = kAll, .whole_modules = {}, .parallel = true};
  const auto refused = [&](const LoweringPolicy& policy) {
    return std::get<Unavailable>(lower(model, policy)).sentence;
  };
  CHECK(refused(in(std::nullopt, 8)) ==
        "an adapter of experts that are cut over tensor-parallel ranks under Megatron is not "
        "available yet");
  LoweringPolicy local = in(std::nullopt);
  local.implementation.layers = LayerSpec::local;
  CHECK(refused(local) ==
        "an adapter beside experts of local layers under Megatron is not available yet");
}

}  // namespace memest
