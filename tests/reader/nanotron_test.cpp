// What nanotron does not run is refused by name, at the key that asks for it.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

/// Messages of an 8B's spec, a line each, with their hints.
std::string refused(const std::string& training, const std::string& parallelism = "{data: 8}") {
  const auto text = std::make_shared<const SourceText>(SourceText{
      "test.yaml",
      "model: llama-3-8b\ntraining: {seq_len: 2048, implementation: "
      "nanotron" +
          training + "}\nparallelism: " + parallelism + "\nhardware: {gpu: h100-sxm-80gb}\n"});
  std::string messages;
  const Checked<Job> job = read_job(text);
  for (const Diagnostic& diagnostic : job.diagnostics()) {
    messages += diagnostic.message + ": " + diagnostic.hint + "\n";
  }
  return messages;
}

TEST_CASE("nanotron runs replicas, ZeRO 1, tensor ranks and pipelines of both engines") {
  CHECK(refused("").empty());
  CHECK(refused(", recompute: full", "{data: 2, tensor: 4, sequence: true, zero: 1}").empty());
  CHECK(refused(", gradient_accumulation: 8", "{pipeline: 4, schedule: gpipe}").empty());
  CHECK(refused(", gradient_accumulation: 8", "{pipeline: 4, pipeline_layout: [9, 9, 8, 6]}")
            .empty());
}

TEST_CASE("what it does not run is refused by name") {
  CHECK(refused("", "{data: 8, zero: 3}") ==
        "nanotron's zero_stage is 0 or 1: set 'zero' to 0 or 1\n");
  CHECK(refused(", precision: amp-bf16") ==
        "nanotron keeps bf16 weights beside fp32 gradients and fp32 weights: other precisions are "
        "not available yet: set 'precision' to mixed-fp32-grad\n");
  CHECK(refused(", optimizer: lion") ==
        "nanotron's optimizer is AdamW here: others are not available yet: set 'optimizer' to "
        "adamw\n");
  CHECK(refused(", recompute: {every: 2}") ==
        "nanotron recomputes every layer by itself, or none (recompute_layer): set 'recompute' to "
        "full or none\n");
  CHECK(refused("", "{data: 8, ddp: {gradient_as_bucket_view: true}}") ==
        "nanotron's gradients are no views of DistributedDataParallel's buckets: leave "
        "'gradient_as_bucket_view' out\n");
}

TEST_CASE("so is a pipeline that its engine or its cost rule does not run") {
  CHECK(refused("", "{pipeline: 4}") ==
        "nanotron's 1F1B takes at least one micro-batch less than the pipeline has ranks: choose "
        "a larger 'gradient_accumulation', a shorter 'pipeline' or 'schedule: gpipe'\n");
  CHECK(refused(", gradient_accumulation: 8", "{pipeline: 4, pipeline_layout: [8, 8, 8, 8]}") ==
        "nanotron deals layers by their cost, and takes no list: leave 'pipeline_layout' out\n");
  CHECK(refused(", gradient_accumulation: 64", "{pipeline: 32}") ==
        "nanotron deals layers and output head by their cost, which leaves a stage of this "
        "pipeline without any: use fewer stages\n");
}

}  // namespace
}  // namespace memest
