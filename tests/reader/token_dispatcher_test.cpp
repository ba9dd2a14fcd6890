// What a spec says of the dispatcher of tokens, and where it is refused.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/memory/stage_form.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

struct Written {
  std::string moe = "experts: 128, top_k: 8, expert_ffn_size: 768";
  std::string implementation = "name: megatron, token_dispatcher: hybridep";
  std::string layout = "data: 8, expert: 8, distributed_optimizer: true";
  std::string gpu = "gb200";
};

Checked<Job> read_text(const Written& written) {
  const std::string text =
      "model: {family: decoder, layers: 4, hidden_size: 2048, heads: 32, kv_heads: 4, ffn_size: "
      "768, vocab_size: 1024, activation: swiglu, norm: rmsnorm, position: rope, moe: {" +
      written.moe + "}}\ntraining: {seq_len: 4096, micro_batch: 8, precision: megatron, " +
      "implementation: {" + written.implementation + "}}\nparallelism: {" + written.layout +
      "}\nhardware: {gpu: " + written.gpu + ", count: 8}\n";
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
}

std::string error_of(const Written& written) {
  const Checked<Job> job = read_text(written);
  if (job.ok()) return "ok";
  const Diagnostic& first = job.diagnostics().front();
  return first.message + " (" + first.hint + ")";
}

}  // namespace

TEST_CASE("tokens go by Hybrid-EP where Megatron runs it") {
  CHECK(read_text({}).value().training->implementation.token_dispatcher ==
        TokenDispatcher::hybridep);
  // A plan may look for ranks of experts where the spec names none.
  CHECK(read_text({.layout = "data: 8, distributed_optimizer: true"}).ok());
  CHECK(error_of({.layout = "data: 8, expert: 1, distributed_optimizer: true"}) ==
        "experts that every rank has need no dispatcher (set 'parallelism.expert' to 2 or more, or "
        "leave 'token_dispatcher' out)");
  CHECK(error_of({.gpu = "a100-sxm-80gb"}) ==
        "Hybrid-EP runs on GPUs of compute capability 9.0 and later (leave 'token_dispatcher' out, "
        "or take a later GPU)");
  CHECK(error_of({.moe = "experts: 128, top_k: 8, expert_ffn_size: 768, capacity_factor: 1.0"}) ==
        "Hybrid-EP beside experts of a capacity is not available yet (leave 'capacity_factor' "
        "out)");
  CHECK(error_of({.layout = "data: 4, tensor: 2, expert: 4, distributed_optimizer: true"}) ==
        "Hybrid-EP beside experts that tensor-parallel ranks share is not available yet (write "
        "'expert_tensor: 1')");
  CHECK(error_of({.implementation = "name: megatron, token_dispatcher: deepep"}) ==
        "DeepEP's own dispatch of tokens is not available yet (it comes with a later version)");
  CHECK(error_of({.implementation = "name: transformers, token_dispatcher: hybridep",
                  .layout = "data: 8"}) ==
        "'token_dispatcher' is of Megatron, not of the implementation 'transformers' (leave "
        "'token_dispatcher' out)");
}

TEST_CASE("Hybrid-EP has rows for all tokens of all ranks beside the allocator") {
  const Job job = read_text({}).value();
  const Parallelism& layout = job.parallelism;
  // 8 · 4096 tokens of 8 ranks: 2048 channels in bf16 and 16 scales, a weight and a flag an expert.
  constexpr std::int64_t kRows = 8 * 4096 * 8;
  constexpr std::int64_t kRow = 2 * 2048 + 4 * 16 + (4 + 1) * 128;
  CHECK(dispatch_buffer_bytes(job, layout, 8) == Bytes(kRows * kRow));
  // DeepEP makes room for 512 tokens at least, and a longer micro-batch for more.
  CHECK(dispatch_buffer_bytes(job, layout, 2) == Bytes(kRows / 4 * kRow));
  Job other = job;
  other.training->implementation.token_dispatcher = TokenDispatcher::alltoall;
  CHECK(dispatch_buffer_bytes(other, layout, 8) == Bytes());
  // A second node: its tokens come to buffers of their own, those sent to it lie in others.
  Parallelism wide = layout;
  wide.expert = 128;
  CHECK(dispatch_buffer_bytes(job, wide, 8) > dispatch_buffer_bytes(job, layout, 8));
}

}  // namespace memest
