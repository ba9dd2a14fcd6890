// Products of Transformer Engine in 8 and 4 bits: the closed form held to the replay, what is kept
// of a weight, and the calls that a step makes.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/memory/state_ledger.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

class Specs : test::Draws {
 public:
  using Draws::Draws;

  /// `adapter`: a key of training, or nothing.
  std::string draw(const std::string& adapter = "") {
    const std::string recipe = one_of("delayed", "tensorwise", "blockwise", "mxfp8", "nvfp4");
    const bool old = recipe == "mxfp8" || recipe == "nvfp4" ? false : one_of(true, false);
    const int hidden_size = one_of(256, 512, 1024);
    const int layers = one_of(2, 3, 5);
    const int tensor = one_of(1, 2);
    const int data = one_of(1, 2, 8);
    const bool shared = one_of(true, false);
    // Adapters of experts that are cut have no answer.
    const bool experts = (adapter.empty() || tensor == 1) && one_of(true, false, false);
    const bool gathers = shared && recipe != "nvfp4" && one_of(true, false);
    const std::string moe = ", moe: {experts: 8, top_k: 2, expert_ffn_size: 512}";
    return test::Text()
           << "model: {family: decoder, layers: " << layers << ", hidden_size: " << hidden_size
           << ", heads: 4, kv_heads: 2, ffn_size: " << 2 * hidden_size
           << ", vocab_size: " << one_of(1024, 32000)
           << ", activation: swiglu, norm: rmsnorm, position: rope, dropout: 0.0"
           << (experts ? moe : std::string()) << "}\ntraining: {micro_batch: " << one_of(1, 2)
           << ", seq_len: " << one_of(512, 1024)
           << ", precision: " << one_of("megatron", "megatron-bf16-grad") << ", recompute: "
           << (experts ? "none" : one_of("none", "none", "full", "{selective: [attention-core]}"))
           << ", gradient_accumulation: " << one_of(1, 2) << ", implementation: megatron" << adapter
           << ", float8: {recipe: " << recipe << (gathers ? ", param_gather: true" : "")
           << (recipe == "delayed" ? ""
                                   : one_of("", ", first_layers_bf16: 1", ", last_layers_bf16: 1"))
           << "}}\nparallelism: {data: " << data << ", tensor: " << tensor
           << ", sequence: " << (tensor > 1 ? "true" : "false")
           << ", distributed_optimizer: " << (shared ? "true" : "false")
           << "}\nhardware: {gpu: " << (old ? "h100-sxm-80gb" : "b200-sxm-180gb")
           << ", count: " << data * tensor << "}\n";
  }
};

std::string llama(const std::string& training, const std::string& gpu = "b200-sxm-180gb") {
  return "model: llama-3-8b\ntraining: {seq_len: 4096, implementation: megatron, " + training +
         "}\nparallelism: {data: 8, distributed_optimizer: true}\nhardware: {gpu: " + gpu +
         ", count: 8}\n";
}

/// Bytes of the weights, and all copies of them.
std::int64_t weights_of(const std::string& spec) {
  const Job job = test::job_from(spec);
  const Ledger ledger = write_state_ledger(test::steps_of(job).graph, job, {});
  std::int64_t bytes = 0;
  for (const LedgerTerm& term : ledger.terms) {
    if (term.group == TermGroup::weights) bytes += term.formula.bytes(ledger.bindings).value();
  }
  return bytes;
}

TEST_CASE("with products in 8 or 4 bits the closed form is the replay without rounding, to 0.3 %") {
  constexpr int kJobs = 60;
  Specs specs(1);
  int close = 0;
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const double distance = test::distance_of(test::job_from(spec));
    CHECK(distance <= 0.003);
    if (distance <= 0.0001) ++close;
  }
  CHECK(close >= kJobs / 2);
}

TEST_CASE("adapters beside products in 8 or 4 bits run in every layout, in less than training") {
  constexpr int kJobs = 40;
  Specs specs(2);
  for (int i = 0; i < kJobs; ++i) {
    const char* targets[] = {"linear_qkv", "linear_fc1, linear_fc2", "linear_proj",
                             "linear_qkv, linear_proj, linear_fc1, linear_fc2"};
    const std::string adapter =
        std::string(", adapter: {lora: {rank: 16, targets: [") + targets[i % 4] + "]}}";
    std::string spec = specs.draw(adapter);
    INFO(spec);
    const std::int64_t adapted =
        test::requested_peak(test::steps_of(test::job_from(spec)).timeline);
    spec.erase(spec.find(adapter), adapter.size());
    CHECK(adapted < test::requested_peak(test::steps_of(test::job_from(spec)).timeline));
  }
}

TEST_CASE("weights in bf16 have copies beside them, primary ones in fp8 take their place") {
  // 32 layers of linear_qkv, linear_proj, linear_fc1 and linear_fc2.
  constexpr std::int64_t kLinears = 32 * std::int64_t{4096} * (6144 + 4096 + 3 * 14336);
  const std::int64_t bf16 = weights_of(llama("precision: megatron"));
  const auto more = [&](const std::string& training, const std::string& gpu) {
    return weights_of(llama(training, gpu)) - bf16;
  };
  const std::string primary = ", float8: {param_gather: true}";
  CHECK(more("precision: fp8", "h100-sxm-80gb") == 2 * kLinears);
  CHECK(more("precision: fp8-current", "b200-sxm-180gb") == kLinears);
  CHECK(more("precision: mxfp8", "b200-sxm-180gb") == 2 * (kLinears + kLinears / 32));
  CHECK(more("precision: nvfp4", "b200-sxm-180gb") == kLinears + kLinears / 8);
  CHECK(more("precision: fp8" + primary, "h100-sxm-80gb") == 0);
  CHECK(more("precision: fp8-current" + primary, "b200-sxm-180gb") == -kLinears);
  CHECK(more("precision: mxfp8" + primary, "b200-sxm-180gb") == kLinears / 16);
}

TEST_CASE(
    "frozen weights have the copies of trained ones, made with the model where they live in fp8") {
  constexpr std::int64_t kLinears = 32 * std::int64_t{4096} * (6144 + 4096 + 3 * 14336);
  const std::string adapter = ", adapter: {lora: {rank: 16, targets: [linear_qkv, linear_fc2]}}";
  const auto held = [&](const std::string& training, const std::string& gpu) {
    const Timeline timeline =
        test::steps_of(test::job_from(llama(training + adapter, gpu))).timeline;
    std::int64_t bytes = 0;
    for (const Storage& storage : timeline.storages) {
      if (storage.label.holding == Holding::weights) bytes += storage.bytes;
    }
    return bytes;
  };
  const std::string primary = ", float8: {param_gather: true}";
  for (const std::string gpu : {"h100-sxm-80gb", "b200-sxm-180gb"}) {
    const std::int64_t bf16 = held("precision: megatron", gpu);
    const std::int64_t copies = gpu == "h100-sxm-80gb" ? 2 : 1;
    CHECK(held("precision: fp8", gpu) - bf16 == copies * kLinears);
    CHECK(held("precision: fp8" + primary, gpu) - bf16 == (copies - 2) * kLinears);
    CHECK(weights_of(llama("precision: fp8" + primary + adapter, gpu)) -
              weights_of(llama("precision: megatron" + adapter, gpu)) ==
          (copies - 2) * kLinears);
  }
  const std::int64_t bf16 = held("precision: megatron", "b200-sxm-180gb");
  CHECK(held("precision: mxfp8" + primary, "b200-sxm-180gb") - bf16 == kLinears / 16);
}

TEST_CASE("a frozen product casts its input's rows and its gradient's, and multiplies twice") {
  const Job job = test::job_from(
      llama("precision: mxfp8, gradient_accumulation: 4, float8: {param_gather: true}, "
            "adapter: {lora: {rank: 16, targets: [linear_qkv]}}"));
  const StepMemory step = test::steps_of(job);
  int products = 0;
  for (const OpWork& op : work_of(step.graph, job).ops) {
    if (op.op->kind != OpKind::linear || op.op->name != "down_proj") continue;
    REQUIRE(op.forward_calls.size() == 2);
    CHECK(std::get<MatmulShape>(op.forward_calls[1]).operand == DType::fp8);
    if (op.backward_calls.empty()) continue;
    REQUIRE(op.backward_calls.size() == 2);
    const auto& product = std::get<MatmulShape>(op.backward_calls[1]);
    CHECK(product.pass == MatmulPass::data_gradient);
    CHECK(product.operand == DType::fp8);
    ++products;
  }
  CHECK(products > 0);
}

TEST_CASE("a product in fp4 has its operands cast by kernels beside it, the weight once a step") {
  const Job job = test::job_from(llama("precision: nvfp4, gradient_accumulation: 4"));
  const StepMemory step = test::steps_of(job);
  int products = 0;
  for (const OpWork& op : work_of(step.graph, job).ops) {
    if (op.op->kind != OpKind::linear || op.op->name == "lm_head") continue;
    REQUIRE(op.forward_calls.size() == 3);
    REQUIRE(op.backward_calls.size() == 3);
    const auto& weight = std::get<StreamShape>(op.forward_calls[0]);
    const auto& forward = std::get<MatmulShape>(op.forward_calls[2]);
    // Read for its largest value and to be cast; by rows and by columns 9/16 of a byte an element.
    CHECK(weight.bytes == forward.n * forward.k * (4 + 1) / 4 + forward.n * forward.k / 8 / 4);
    CHECK(forward.operand == DType::fp4);
    CHECK(forward.scaling == OperandScaling::block_16);
    CHECK_FALSE(forward.cast_included);
    const auto& to_weight = std::get<MatmulShape>(op.backward_calls[2]);
    CHECK(to_weight.operand == DType::fp4);
    CHECK(to_weight.result == DType::fp32);
    ++products;
  }
  CHECK(products == 4);
}

TEST_CASE("narrower products are faster, and weights gathered in fp8 take less of the links") {
  const auto step_of = [](const std::string& training) {
    const Job job = test::job_from(llama(training));
    return std::get<TimeEstimate>(estimate_job(job).time).step.value();
  };
  const double bf16 = step_of("precision: megatron");
  const double fp8 = step_of("precision: fp8-current");
  const double fp4 = step_of("precision: nvfp4");
  CHECK(fp8 < bf16);
  CHECK(fp4 < fp8);
  CHECK(step_of("precision: fp8-current, float8: {param_gather: true}") < fp8);
  CHECK(step_of("precision: fp8-current, float8: {first_layers_bf16: 4}") > fp8);
  // Adapters alone are gathered, in bf16, whatever the frozen weights live in.
  const std::string adapter = ", adapter: {lora: {rank: 16, targets: [linear_qkv]}}";
  const double adapted = step_of("precision: fp8-current" + adapter);
  CHECK(adapted < step_of("precision: megatron" + adapter));
  CHECK(adapted < fp8);
  const double primary = step_of("precision: fp8-current, float8: {param_gather: true}" + adapter);
  CHECK(primary <= adapted);
  CHECK(primary > 0.9 * adapted);
}

}  // namespace
}  // namespace memest
