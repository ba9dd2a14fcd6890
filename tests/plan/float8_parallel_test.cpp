// torchao's float8 linears over torchtitan's tensor-parallel ranks: the closed form held to the
// replay, what is sent, and what is refused.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// A LLaMA of torchtitan over tensor-parallel ranks.
struct OverTensorRanks {
  std::string release = "0.2.2";
  std::string float8 = "{}";
  std::string training = "micro_batch: 2, seq_len: 256";
  std::string compile = "off";
  int tensor = 2;
  int data = 4;
};

std::string over_tensor_ranks(const OverTensorRanks& of) {
  const bool sharded = of.data > 1;
  const std::string way =
      sharded ? ", data: " + std::to_string(of.data) + ", fsdp: {version: 2}" : "";
  return test::Text()
         << "model: {family: decoder, layers: 3, hidden_size: 512, heads: 8, kv_heads: "
            "4, head_dim: 64, ffn_size: 1536, vocab_size: 1024, activation: swiglu, "
            "norm: rmsnorm, position: rope}\ntraining: {"
         << of.training << ", precision: " << (sharded ? "fsdp2-bf16" : "fp32")
         << ", implementation: {name: torchtitan, torchtitan: " << of.release
         << ", compile: " << of.compile << "}, float8: " << of.float8
         << "}\nparallelism: {tensor: " << of.tensor << ", sequence: true" << way
         << "}\nhardware: {gpu: h100-sxm-80gb, count: " << of.tensor * of.data << "}\n";
}

TEST_CASE(
    "over tensor-parallel ranks float8 linears have the closed form that bf16 has, to 0.1 %") {
  for (const char* release : {"0.2.2", "0.1.0"}) {
    for (const char* float8 : {"{}", "{all_gather: true}", "{filter_fqns: []}"}) {
      for (const char* training : {"micro_batch: 2, seq_len: 256", "micro_batch: 1, seq_len: 2048",
                                   "micro_batch: 2, seq_len: 1024, recompute: full",
                                   "micro_batch: 2, seq_len: 1024, recompute: selective"}) {
        for (const int data : {1, 4}) {
          if (data == 1 && std::string(float8) == "{all_gather: true}") continue;
          OverTensorRanks of{.release = release, .float8 = float8, .training = training};
          of.data = data;
          const std::string spec = over_tensor_ranks(of);
          INFO(spec);
          // Where norm, output and embedding are one unit, as in 0.1.0, in bf16 too it is up to 1.8
          // % off.
          const Job job = test::job_from(spec);
          Job in_bf16 = job;
          in_bf16.training->float8.reset();
          CHECK(test::distance_of(job) <= 0.001 + 1.1 * test::distance_of(in_bf16));
        }
      }
    }
  }
}

/// Bytes that the forward and the backward of all layers' operations send over the tensor ranks in
/// messages of `kind`.
double sent(const std::string& spec, MessageKind kind) {
  const Job job = test::job_from(spec);
  const StepMemory step = test::steps_of(job);
  double bytes = 0;
  // Around the layers nothing is cast: the ends' streams and the logits travel as they are.
  const auto is_outside = [](std::string_view name) {
    return name == "final_norm" || name == "embedding_shard" || name == "gathered_logits";
  };
  for (const OpWork& op : work_of(step.graph, job).ops) {
    if (is_outside(op.op->name)) continue;
    for (const auto* messages : {&op.forward_messages, &op.backward_messages}) {
      for (const MessageWork& message : *messages) {
        if (message.kind == kind) bytes += message.bytes;
      }
    }
  }
  return bytes;
}

TEST_CASE("torchtitan gathers over tensor ranks in bf16, and before 0.2 what is cast") {
  const std::string now = over_tensor_ranks({.training = "micro_batch: 2, seq_len: 1024"});
  const std::string then =
      over_tensor_ranks({.release = "0.1.0", .training = "micro_batch: 2, seq_len: 1024"});
  CHECK(sent(now, MessageKind::all_gather) == 2 * sent(then, MessageKind::all_gather));
  CHECK(sent(now, MessageKind::reduce_scatter) == sent(then, MessageKind::reduce_scatter));
  // The largest values of what is divided: in 0.2.2 of the inputs and the weights of o and down;
  // before, of each input once.
  CHECK(sent(now, MessageKind::all_reduce) > 0);
  CHECK(test::steps_of(test::job_from(then))
            .graph.saved_bytes()
            .evaluate(test::steps_of(test::job_from(then)).graph.sizes) <
        test::steps_of(test::job_from(now))
            .graph.saved_bytes()
            .evaluate(test::steps_of(test::job_from(now)).graph.sizes));
}

std::string refusal_of(const std::string& spec) {
  const auto memory = step_memory_of(test::job_from(spec));
  const auto* reason = std::get_if<Unavailable>(&memory);
  return reason == nullptr ? "" : reason->sentence;
}

TEST_CASE("what float8 linears cannot be over tensor-parallel ranks is refused by name") {
  CHECK(refusal_of(over_tensor_ranks({})).empty());
  CHECK(refusal_of(over_tensor_ranks({.compile = "blocks"})) ==
        "torch.compile beside float8 linears and tensor parallelism is not available yet");
  CHECK(refusal_of(over_tensor_ranks(
            {.release = "0.1.0", .float8 = "{filter_fqns: [output, attention.wk]}"})) ==
        "torchtitan's float8 styles of tensor parallelism (before 0.2) take layers whose linears "
        "are all in float8: k_proj is not");
  CHECK(refusal_of(over_tensor_ranks({.float8 = "{filter_fqns: [output, attention.wk]}"})).empty());
  OverTensorRanks uneven{.float8 = "{all_gather: true}"};
  uneven.data = 24;
  CHECK(refusal_of(over_tensor_ranks(uneven)) ==
        "weights gathered in fp8 lie in equal shares of rows: 512 rows do not divide among 24 "
        "ranks");
  uneven.data = 256;
  CHECK(refusal_of(over_tensor_ranks(uneven)) ==
        "weights gathered in fp8 lie in equal shares of rows: 128 rows do not divide among 256 "
        "ranks");
}

}  // namespace
}  // namespace memest
