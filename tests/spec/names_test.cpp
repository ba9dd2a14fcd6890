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
