// What a spec says of torchao's float8 linears, and where it is refused.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<Job> read_text(const std::string& training, const std::string& rest = "") {
  const std::string text =
      "model: {family: decoder, layers: 2, hidden_size: 64, heads: 4, ffn_size: 176, vocab_size: "
      "112, activation: swiglu, norm: rmsnorm, position: rope}\ntraining: {seq_len: 128, " +
      training + "}\n" + rest;
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
}

Float8Linears linears_of(const std::string& training) {
  const Checked<Job> job = read_text(training);
  REQUIRE(job.ok());
  return job.value().training->float8.value();
}

std::string error_of(const std::string& training, const std::string& rest = "") {
  const Checked<Job> job = read_text(training, rest);
  if (job.ok()) return "ok";
  const Diagnostic& first = job.diagnostics().front();
  return first.message + " (" + first.hint + ")";
}

}  // namespace

TEST_CASE("float8 linears are scaled by tensors, without the head, where nothing else is written") {
  CHECK_FALSE(read_text("precision: bf16").value().training->float8);
  const Float8Linears own = linears_of("precision: bf16, float8: {}");
  CHECK(own.recipe == Float8Recipe::tensorwise);
  CHECK(own.filter_fqns == std::vector<std::string>{"lm_head"});
  CHECK(linears_of("implementation: torchtitan, float8: {}").filter_fqns ==
        std::vector<std::string>{"output"});
  const Float8Linears written = linears_of(
      "precision: bf16, float8: {recipe: rowwise_with_gw_hp, filter_fqns: [q_proj, mlp]}");
  CHECK(written.recipe == Float8Recipe::rowwise_with_gw_hp);
  CHECK(written.filter_fqns == std::vector<std::string>{"q_proj", "mlp"});
  CHECK(linears_of("precision: bf16, float8: {filter_fqns: []}").filter_fqns.empty());
}

TEST_CASE("float8 linears are those of transformers and torchtitan, where a run was recorded") {
  for (const char* name : {"nanogpt", "textbook"}) {
    CHECK(error_of("float8: {}, implementation: " + std::string(name)) ==
          "the implementation '" + std::string(name) +
              "' has no linear layers of torchao's (leave 'float8' out, or use transformers or "
              "torchtitan)");
  }
  CHECK(error_of("precision: fp8, float8: {}") ==
        "float8 linears under the precision 'fp8' is not available yet (use bf16, fp32 or "
        "amp-bf16)");
  CHECK(error_of("precision: bf16, float8: {}, recompute: selective") ==
        "selective recompute beside float8 linears in another program than torchtitan is not "
        "available yet (set 'recompute' to none or full)");
  for (const char* layers : {"off", "blocks"}) {
    CHECK(
        error_of("float8: {}, recompute: selective, implementation: {name: torchtitan, compile: " +
                 std::string(layers) + "}") == "ok");
  }
  CHECK(error_of("float8: {recipe: rowwise}, implementation: {name: torchtitan, torchtitan: "
                 "2024-12}") ==
        "torchtitan of 2024-12 scales float8 linears by tensors alone (set 'recipe' to tensorwise, "
        "or write 'torchtitan: 2025-03' in 'implementation')");
  CHECK(error_of("precision: bf16, float8: {all_gather: true}") ==
        "FSDP2 alone gathers weights in fp8 (write 'fsdp: {version: 2}' in 'parallelism')");
  CHECK(error_of("float8: {recipe: rowwise, all_gather: true}",
                 "parallelism: {data: 2, fsdp: {version: 2}}\n") ==
        "torchao gathers weights in fp8 with a scale a tensor alone (leave 'all_gather' out, or "
        "set 'recipe' to tensorwise)");
  CHECK(error_of("float8: {all_gather: true}", "parallelism: {data: 2, fsdp: {version: 2}}\n") ==
        "ok");
  CHECK(error_of("float8: {all_gather: true, precompute_scales: true}",
                 "parallelism: {data: 2, fsdp: {version: 2}}\n") ==
        "scales of float8 weights found behind the optimizer's step is not available yet (it comes "
        "with a later version; leave 'precompute_scales' out or set it to false)");
  CHECK(error_of("precision: bf16, float8: {recipe: rowwise_with_gw_hp, filter_fqns: "
                 "[auto_filter_small_kn]}") ==
        "torchao filters no small layers of rowwise_with_gw_hp (leave 'auto_filter_small_kn' out, "
        "or set 'recipe' to rowwise)");
  CHECK(error_of("float8: {}", "parallelism: {data: 2}\n") == "ok");
  CHECK(error_of("float8: {}", "parallelism: {data: 2, fsdp: {version: 2}}\n") == "ok");
  CHECK(error_of("float8: {}", "parallelism: {data: 2, fsdp: {version: 1}}\n") ==
        "FSDP1 beside Liger's kernels or float8 linears in the implementation 'transformers' is "
        "not available yet (it comes with a later version; leave 'fsdp' out)");
  CHECK(error_of("float8: {}", "parallelism: {data: 2, zero: 2}\n") ==
        "ZeRO beside Liger's kernels or float8 linears in the implementation 'transformers' is "
        "not available yet (it comes with a later version; leave 'zero' out)");
}

}  // namespace memest
