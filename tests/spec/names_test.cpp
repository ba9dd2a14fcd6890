#include <catch2/catch_test_macros.hpp>

#include "memest/diag/expect.hpp"
#include "memest/spec/job.hpp"

namespace memest {
namespace {

TEST_CASE("recompute prints as it is written in a spec") {
  CHECK(text_of(NoRecompute{}) == "none");
  CHECK(text_of(FullRecompute{.reentrant = true}) == "full, reentrant");
  CHECK(text_of(FullRecompute{.method = RecomputeMethod::block, .layers = 4}) ==
        "full in the first 4 layers");
  CHECK(text_of(EveryRecompute{.every = 2}) == "every 2");
  CHECK(text_of(ChosenRecompute{{0, 2, 3, 4, 7, 8}}) == "in the layers 0, 2 to 4, 7, 8");
}

TEST_CASE("recompute as a spec takes it") {
  CHECK(spec_value_of(NoRecompute{}) == "none");
  CHECK(spec_value_of(FullRecompute{}) == "full");
  CHECK(spec_value_of(FullRecompute{.reentrant = true}) == "{full: {reentrant: true}}");
  CHECK(spec_value_of(FullRecompute{.method = RecomputeMethod::block, .layers = 1}) ==
        "{full: {method: block, layers: 1}}");
  CHECK(spec_value_of(SelectiveRecompute{}) == "selective");
  CHECK(spec_value_of(SelectiveRecompute{.attention_core = false, .feed_forward = true}) ==
        "{selective: [feed-forward]}");
  CHECK(spec_value_of(SelectiveRecompute{.norms = true, .expert_activation = true}) ==
        "{selective: [attention-core, moe-activation, norm]}");
  CHECK(spec_value_of(SelectiveRecompute{
            .attention_core = false, .experts = true, .latent_projection = true}) ==
        "{selective: [mla-up-proj, moe]}");
  CHECK(spec_value_of(EveryRecompute{.every = 2}) == "{every: 2}");
  CHECK(spec_value_of(SqrtRecompute{}) == "sqrt");
  CHECK(spec_value_of(ChosenRecompute{{1, 3}}) == "{blocks: [1, 3]}");
  CHECK(spec_value_of(BudgetRecompute{Bytes(5)}) == "{budget: 5 B}");
}

TEST_CASE("quantised weights as a spec takes them") {
  CHECK(spec_value_of(QuantizedWeights{}) ==
        "{weights: nf4, double_quant: true, skip_modules: [lm_head]}");
  CHECK(spec_value_of(QuantizedWeights{.format = WeightFormat::hqq2,
                                       .double_quant = false,
                                       .group_size = 16,
                                       .skip_modules = {"lm_head", "o_proj"}}) ==
        "{weights: hqq2, group_size: 16, skip_modules: [lm_head, o_proj]}");
  CHECK(spec_value_of(QuantizedWeights{.format = WeightFormat::int8, .double_quant = false}) ==
        "{weights: int8, skip_modules: [lm_head]}");
  CHECK(spec_value_of(QuantizedWeights{
            .format = WeightFormat::int8, .double_quant = false, .threshold = 2.5}) ==
        "{weights: int8, threshold: 2.5, skip_modules: [lm_head]}");
  CHECK(spec_value_of(QuantizedWeights{.storage = DType::bf16}) ==
        "{weights: nf4, double_quant: true, quant_storage: bf16, skip_modules: [lm_head]}");
}

TEST_CASE("layers are the sum of the runs") {
  DecoderSpec decoder;
  decoder.order = {{.kind = 0, .repeat = 3}, {.kind = 1, .repeat = 1}, {.kind = 0, .repeat = 58}};
  CHECK(decoder.layers() == 62);
}

TEST_CASE("a global batch counts every rank and micro-step") {
  Job job;
  CHECK_THROWS_AS(job.global_batch(), InternalError);
  job.training = TrainingSpec{};
  job.training->micro_batch = 4;
  job.training->gradient_accumulation = 16;
  job.parallelism.data = 8;
  CHECK(job.global_batch() == 512);
}

}  // namespace
}  // namespace memest
