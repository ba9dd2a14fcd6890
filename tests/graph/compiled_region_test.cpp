// What a compiled layer keeps: the formulas that recorded runs of torch.compile confirm, as
// equalities, and what its kernels read and write.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

const Expr a = Symbol::heads;
const Expr d = Symbol::head_dim;
const Expr f = Symbol::ffn_size;
const Expr h = Symbol::hidden_size;
const Expr k = Symbol::kv_heads;
const Expr s = Symbol::seq_len;
const Expr t = Symbol::tensor;
const Expr v = Symbol::vocab_size;
const Expr tokens = Expr(Symbol::micro_batch) * s;
const Expr seeds = 16;  // two numbers of the random generator
/// Of a layer norm GPT in 16 bit over an fp32 stream; 18·h + 4·f where a·d = k·d = h.
const Expr gpt_kept = tokens * (10 * h + 2 * (a + 2 * k) * d + 2 * a * d + 4 * f + 4 * a + 16);

LoweringPolicy compiled(Framework framework, bool autocast) {
  LoweringPolicy policy = policy_for(framework, AttentionKernel::sdpa_cudnn);
  policy.implementation.compile = CompileScope::blocks;
  if (framework != Framework::transformers) policy.implementation.norm = NormKernel::fused;
  if (framework == Framework::nanogpt) policy.implementation.loss = LossKernel::plain;
  if (autocast) policy.weights = DType::fp32;
  policy.autocast = autocast;
  return policy;
}

LoweringPolicy whole_model(Framework framework) {
  LoweringPolicy policy = compiled(framework, true);
  policy.implementation.compile = CompileScope::whole;
  return policy;
}

/// torchtitan's layers and loss over tensor-parallel ranks that share the sequence too.
LoweringPolicy compiled_over_ranks(std::int64_t micro_batch) {
  LoweringPolicy policy = compiled(Framework::torchtitan, false);
  policy.implementation.loss_parallel = true;
  policy.tensor = 2;
  policy.sequence_parallel = true;
  policy.micro_batch = micro_batch;
  return policy;
}

Block compiled_layer(const ModelSpec& model, const LoweringPolicy& policy) {
  Block block = layer(lowered(model, policy));
  REQUIRE(block.compiled);
  return block;
}

Expr kept(const ModelSpec& model, const LoweringPolicy& policy) {
  return compiled_layer(model, policy).saved_bytes(false);
}

/// Weights of the products, which autocast copies.
Expr products(const Block& block) {
  Expr elements;
  for (const Tensor& tensor : block.tensors) {
    if (tensor.role == Role::parameter && tensor.shape.size() == 2) elements += tensor.elements();
  }
  return elements;
}

ModelSpec with_head_norms(ModelSpec model) {
  auto& attention = std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention);
  attention.qk_norm = QkNorm::per_head;
  attention.qk_norm_kind = Norm{NormKind::rmsnorm};
  return model;
}

const Op& op_named(const Block& block, std::string_view name, OpKind kind) {
  const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                  [&](const Op& op) { return op.name == name && op.kind == kind; });
  REQUIRE(found != block.ops.end());
  return *found;
}

}  // namespace

TEST_CASE("a compiled LLaMA layer of transformers keeps products' inputs and outputs alone") {
  const Expr heads = 2 * Expr(2) * (a + k) * d;
  const Expr both = tokens * (6 * f + 4 * h + heads + 4 * a + 8);
  CHECK(kept(llama(), compiled(Framework::transformers, false)) == both + tokens * 4 * h + seeds);
  const Block autocast = compiled_layer(llama(), compiled(Framework::transformers, true));
  CHECK(autocast.saved_bytes(false) == both + tokens * 6 * h + seeds + 2 * products(autocast));
}

TEST_CASE("norms of heads add raw queries and keys and a number of each") {
  ModelSpec qwen = with_head_norms(llama());
  qwen.model_type = "qwen3";
  const LoweringPolicy policy = compiled(Framework::transformers, false);
  CHECK(kept(qwen, policy) - kept(llama(), policy) == tokens * (a + k) * (2 * d + 4));
}

TEST_CASE("a compiled GPT keeps 18·h + 4·f bytes a token under autocast") {
  const Block block = compiled_layer(nanogpt(), compiled(Framework::nanogpt, true));
  CHECK(block.saved_bytes(false) == gpt_kept + seeds + 2 * products(block));
}

TEST_CASE("a compiled GPT-2 keeps a mask of each dropout beside") {
  LoweringPolicy policy = compiled(Framework::transformers, true);
  policy.dropout = false;
  const Block without = compiled_layer(gpt2(), policy);
  policy.dropout = true;
  const Expr masks = 2 * h;
  const Block with = compiled_layer(gpt2(), policy);
  const Expr one = gpt_kept + seeds + 2 * products(without);
  CHECK(without.saved_bytes(false) == one);
  CHECK(with.saved_bytes(false) == one + tokens * masks);
}

TEST_CASE("a compiled torchtitan layer keeps 2·f a token less than in eager mode") {
  LoweringPolicy policy = compiled(Framework::torchtitan, false);
  const Expr less = kept(llama(), policy);
  CHECK(less == tokens * (2 * (3 * f + 4 * h + 2 * (a + k) * d) + 4 * a + 8) + seeds);
  policy.implementation.compile = CompileScope::off;
  CHECK(layer(lowered(llama(), policy)).saved_bytes(false) - less == tokens * 2 * f);
}

TEST_CASE("a selective checkpoint that is compiled drops what the backward does not read") {
  const Block block = compiled_layer(llama(), compiled(Framework::torchtitan, false));
  const Expr products_kept = 2 * (a * d + k * d + f);
  CHECK(block.selectively_kept_bytes() == tokens * (products_kept + 2 * a * d + 4 * a) + seeds);
}

TEST_CASE("a compiled layer of float8 linears keeps no product's input, but results of products") {
  LoweringPolicy policy = compiled(Framework::torchtitan, false);
  policy.micro_batch = 1;
  policy.seq_len = 512;
  policy.float8 = Float8Linears{.filter_fqns = {"output"}};
  const Expr block_of_number = 512;
  // The largest value and the scale of each of seven weights.
  const Expr scales = Expr(14) * block_of_number;
  const Expr results = tokens * (4 * f + 4 * h + 4 * (a + k) * d + 4 * a + 8) + seeds;
  const Block block = compiled_layer(llama(), policy);
  CHECK(block.saved_bytes(false) == results + scales);
  for (const Op& op : block.ops) {
    if (op.kind != OpKind::linear) continue;
    CHECK(op.compute == DType::fp8);
    CHECK(block.tensors[op.inputs.front()].dtype ==
          (op.name == "o_proj" ? DType::bf16 : DType::fp8));
  }
}

TEST_CASE("torchtitan's compiled loss keeps its 16-bit logits and two numbers a row") {
  const Graph graph = lowered(llama(), compiled(Framework::torchtitan, false));
  const Block& loss = graph.blocks.back();
  CHECK(loss.saved_bytes(false) == tokens * (2 * v + 8));
  REQUIRE(loss.ops.size() == 1);
  REQUIRE(loss.ops.front().backward_tensors.size() == 1);
  CHECK(loss.tensors[loss.ops.front().backward_tensors.front().like].bytes() == tokens * 2 * v);
}

TEST_CASE("a compiled layer over tensor-parallel ranks keeps both norms gathered") {
  for (const std::int64_t micro_batch : {1, 2}) {
    LoweringPolicy policy = compiled_over_ranks(micro_batch);
    const Expr less = kept(llama(), policy);
    const Expr cut = 2 * (3 * f + 2 * h + 2 * (a + k) * d) + 4 * a + 8;
    CHECK(less == tokens * (cut / t + 4 * h) + seeds);
    policy.implementation.compile = CompileScope::off;
    CHECK(layer(lowered(llama(), policy)).saved_bytes(false) - less == tokens * 2 * f / t);
  }
}

TEST_CASE("tensor-parallel ranks send the same whether their layers are compiled or not") {
  LoweringPolicy policy = compiled_over_ranks(1);
  const Block fused = compiled_layer(llama(), policy);
  policy.implementation.compile = CompileScope::off;
  const Block eager = layer(lowered(llama(), policy));
  for (const auto messages : {&Op::forward_messages, &Op::backward_messages}) {
    const auto sent = [&](const Block& block) {
      std::vector<std::pair<MessageKind, Expr>> all;
      for (const Op& op : block.ops) {
        for (const Message& message : op.*messages) all.emplace_back(message.kind, message.bytes);
      }
      return all;
    };
    CHECK(sent(fused).size() == 4);
    CHECK(sent(fused) == sent(eager));
  }
}

TEST_CASE("the compiled loss over shards keeps its gradient in fp32 and no logits") {
  const Graph graph = lowered(llama(), compiled_over_ranks(1));
  const Block& loss = graph.blocks.back();
  CHECK(loss.saved_bytes(false) == tokens * (4 * v / t + 1));
  const Op& last = loss.ops.back();
  REQUIRE(last.backward_tensors.size() == 1);
  CHECK(last.backward_tensors.front().dtype == DType::bf16);
  std::size_t sums = 0;
  for (const Op& op : loss.ops) sums += op.forward_messages.size();
  CHECK(sums == 3);
}

TEST_CASE("logits that are gathered have the compiled loss of one rank") {
  LoweringPolicy policy = compiled_over_ranks(1);
  policy.implementation.loss_parallel = false;
  CHECK(lowered(llama(), policy).blocks.back().saved_bytes(false) == tokens * (2 * v + 8));
}

TEST_CASE("a compiled layer has the FLOPs of the eager one, and moves less") {
  for (const Framework framework :
       {Framework::transformers, Framework::torchtitan, Framework::nanogpt}) {
    LoweringPolicy policy = compiled(framework, true);
    const ModelSpec model = framework == Framework::nanogpt ? nanogpt() : llama();
    const Graph fused = lowered(model, policy);
    policy.implementation.compile = CompileScope::off;
    const Graph eager = lowered(model, policy);
    CHECK(layer(fused).forward_flops() == layer(eager).forward_flops());
    CHECK(layer(fused).backward_flops() == layer(eager).backward_flops());
    const auto moved = [](const Graph& graph, const Work Op::*pass) {
      Expr bytes;
      for (const Op& op : layer(graph).ops) {
        if (class_of(op.kind) != OpClass::contraction) bytes += (op.*pass).bytes;
      }
      return bytes.bytes(graph.sizes);
    };
    CHECK(moved(fused, &Op::forward) < moved(eager, &Op::forward));
    CHECK(moved(fused, &Op::backward) < moved(eager, &Op::backward));
  }
}

TEST_CASE("a fused kernel reads its inputs once and writes its results once") {
  const Block block = compiled_layer(llama(), compiled(Framework::transformers, false));
  const Op& gate = op_named(block, "gate_times_up", OpKind::multiply);
  CHECK(gate.inputs.size() == 2);
  CHECK(gate.forward.bytes == tokens * 3 * 2 * f);
  // Gradient of the product, gate, up; of gate and up.
  CHECK(gate.backward.bytes == tokens * 5 * 2 * f);
}

TEST_CASE("what is not known of torch.compile is refused by name") {
  LoweringPolicy policy = compiled(Framework::transformers, false);
  policy.implementation.attention = AttentionKernel::eager;
  const auto written_out = lower(llama(), policy);
  REQUIRE(std::holds_alternative<Unavailable>(written_out));
  CHECK(std::get<Unavailable>(written_out).sentence.find("torch.compile") != std::string::npos);
  LoweringPolicy whole = compiled(Framework::nanogpt, true);
  whole.implementation.compile = CompileScope::whole;
  whole.runs_again = RunsAgain::all;
  CHECK(std::holds_alternative<Unavailable>(lower(nanogpt(), whole)));
  CHECK(std::holds_alternative<Unavailable>(lower(gpt2(), whole_model(Framework::transformers))));
}

TEST_CASE("a compiled layer with adapters keeps what their products read, and no frozen one's") {
  ModelSpec adapted = llama();
  adapted.adapter = Adapter{
      .rank = 8, .targets = {"q_proj", "v_proj"}, .whole_modules = {}, .dtype = DType::bf16};
  const Graph graph = lowered(adapted, compiled(Framework::transformers, false));
  const Block& second = graph.blocks[graph.order[2].block];
  REQUIRE(second.compiled);
  const Expr of_attention = 2 * (a + 2 * k) * d + 2 * a * d + 4 * a;
  const Expr of_adapters = 2 * h + 2 * 2 * Expr(8);
  CHECK(second.saved_bytes(false) ==
        tokens * (4 * h + of_attention + 4 * f + 8 + of_adapters) + seeds);
  // Before the first adapter there is no gradient: of the stream the sum is kept alone.
  const Block& first = graph.blocks[graph.order[1].block];
  CHECK(second.saved_bytes(false) - first.saved_bytes(false) == tokens * (2 * h + 4));
}

TEST_CASE("a product with an adapter's is kept as their sum") {
  ModelSpec adapted = llama();
  adapted.adapter =
      Adapter{.rank = 8, .targets = {"gate_proj"}, .whole_modules = {}, .dtype = DType::bf16};
  const Graph graph = lowered(adapted, compiled(Framework::transformers, false));
  const Block& second = graph.blocks[graph.order[2].block];
  const Expr of_attention = 2 * (a + 2 * k) * d + 2 * a * d + 4 * a;
  CHECK(second.saved_bytes(false) ==
        tokens * (4 * h + of_attention + 4 * f + 8 + 2 * h + 2 * Expr(8)) + seeds);
}

TEST_CASE("of a whole compiled GPT each layer keeps two norms' rows, normalized") {
  const Graph graph = lowered(nanogpt(), whole_model(Framework::nanogpt));
  CHECK(graph.is_one_region);
  const Block block = layer(graph);
  const Expr heads = 2 * (a + 2 * k) * d + 2 * a * d;
  CHECK(block.saved_bytes(false) ==
        tokens * (12 * h + heads + 4 * f + 4 * a + 8) + seeds + 2 * products(block));
}

TEST_CASE("of a whole compiled LLaMA sums are kept, and keys and values of all heads") {
  LoweringPolicy policy = whole_model(Framework::transformers);
  policy.weights = DType::bf16;
  policy.autocast = false;
  const Graph graph = lowered(llama(), policy);
  const Block& second = graph.blocks[graph.order[2].block];
  const Expr layer_bytes = tokens * (6 * f + 8 * h + 4 * 2 * a * d + 4 * a + 8) + seeds;
  CHECK(second.saved_bytes(false) == layer_bytes);
  CHECK(layer(graph).saved_bytes(false) == layer_bytes);
  // A mask in 16 bits, and angles of half the channels in fp32.
  const Expr shared = second.saved_bytes(true) - second.saved_bytes(false);
  CHECK(shared == 2 * tokens * s + 2 * s * Expr(Symbol::rotary_dim));
}

TEST_CASE("of tokens' rows and positions' rows the sum is kept where the batch is one sequence") {
  LoweringPolicy policy = whole_model(Framework::nanogpt);
  const Expr alone = lowered(nanogpt(), policy).blocks.front().saved_bytes(false);
  policy.micro_batch = 2;
  const Expr two = lowered(nanogpt(), policy).blocks.front().saved_bytes(false);
  CHECK(two - alone == 4 * s * h);
}

}  // namespace memest
