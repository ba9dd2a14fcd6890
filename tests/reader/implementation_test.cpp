// What a spec says of Liger's kernels and of losses, and where it is refused.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<Job> read_text(const std::string& implementation, const std::string& rest) {
  const std::string text =
      "model: {hf: {model_type: llama, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: "
      "4, intermediate_size: 176, vocab_size: 100}}\ntraining: {seq_len: 128, precision: bf16, "
      "implementation: " +
      implementation + "}\n" + rest;
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
}

LigerKernels kernels_of(const std::string& liger) {
  const Checked<Job> job = read_text("{name: transformers, liger: " + liger + "}", "");
  REQUIRE(job.ok());
  return job.value().training->implementation.liger;
}

std::string error_of(const std::string& implementation, const std::string& rest = "") {
  const Checked<Job> job = read_text(implementation, rest);
  if (job.ok()) return "ok";
  const Diagnostic& first = job.diagnostics().front();
  return first.message + " (" + first.hint + ")";
}

}  // namespace

TEST_CASE("a map of Liger's kernels leaves the others as Liger patches them by default") {
  CHECK_FALSE(kernels_of("false").any());
  for (const char* all : {"true", "{}", "{cross_entropy: false}"}) {
    const LigerKernels kernels = kernels_of(all);
    CHECK(kernels.rope);
    CHECK(kernels.rms_norm);
    CHECK(kernels.gated);
    CHECK(kernels.fused_linear_cross_entropy);
  }
  const LigerKernels some = kernels_of("{rope: false, swiglu: false}");
  CHECK_FALSE(some.rope);
  CHECK(some.rms_norm);
  CHECK_FALSE(some.gated);
  CHECK(some.fused_linear_cross_entropy);
}

TEST_CASE("the chunked loss is torchtitan's of March 2025") {
  CHECK(error_of("{name: torchtitan, torchtitan: 2025-03, loss: chunked}") == "ok");
  CHECK(error_of("{name: torchtitan, loss: chunked}") ==
        "the chunked loss of another release is not available yet (write 'torchtitan: 2025-03' "
        "beside it)");
  CHECK(error_of("{name: transformers, loss: chunked}") ==
        "the chunked loss is not available yet (it comes with a later version)");
}

TEST_CASE("Liger's kernels stand in models of transformers, where a run of them was recorded") {
  for (const char* name : {"torchtitan", "nanogpt", "textbook"}) {
    CHECK(error_of("{name: " + std::string(name) + ", liger: true}") ==
          "Liger's kernels stand in models of transformers, not of the implementation '" +
              std::string(name) + "' (leave 'liger' out, or set 'name' to transformers)");
    CHECK(error_of("{name: " + std::string(name) + ", liger: false}") == "ok");
  }
  CHECK(error_of("transformers, use_liger_kernel: true") ==
        "unknown key 'use_liger_kernel' (write implementation: {name: transformers, liger: true})");
  CHECK(error_of("{liger: {geglu: true}}") ==
        "the model's feed-forward has no kernel 'geglu' (set 'swiglu' instead)");
  CHECK(error_of("{liger: {cross_entropy: true}}") ==
        "Liger's loss of whole logits is not available yet (it comes with a later version; "
        "fused_linear_cross_entropy is available)");
  CHECK(error_of("{liger: true}", "parallelism: {data: 2}\n") == "ok");
  CHECK(error_of("{liger: true}", "parallelism: {data: 2, fsdp: {version: 2}}\n") == "ok");
  CHECK(error_of("{liger: true}", "parallelism: {data: 2, fsdp: {version: 1}}\n") ==
        "FSDP1 beside Liger's kernels or float8 linears in the implementation 'transformers' is "
        "not available yet "
        "(it comes with a later version; leave 'fsdp' out)");
  CHECK(error_of("{liger: true, loop: trainer}", "parallelism: {data: 2, fsdp: {version: 2}}\n") ==
        "FSDP2 in the Trainer beside Liger's kernels or float8 linears in the implementation "
        "'transformers' is not "
        "available yet (it comes with a later version; leave 'fsdp' out)");
  CHECK(error_of("{liger: true}", "parallelism: {data: 2, zero: 2}\n") ==
        "ZeRO beside Liger's kernels or float8 linears in the implementation 'transformers' is not "
        "available yet (it "
        "comes with a later version; leave 'zero' out)");
}

}  // namespace memest
