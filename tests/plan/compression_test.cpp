// Models made smaller: their parameters, and what the time of a forward is made of.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "jobs.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kFeedForward = 688;

Job decoder(const std::string& more) {
  return test::job_from(
      "model: {family: decoder, layers: 4, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 688, "
      "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: bf16}\n" +
      more + "\nhardware: {gpu: h100-sxm-80gb}\n");
}

std::int64_t parameters(const std::string& more) {
  return count_parameters(decoder(more).model).total;
}

TEST_CASE("a pair of rank r has r(in + out) parameters in place of in x out") {
  const std::int64_t whole = parameters("");
  for (const std::int64_t rank : {1, 16, 200}) {
    const std::string written = "compression: {low_rank: {rank: " + std::to_string(rank) +
                                ", modules: [up_proj, mlp.down_proj]}}";
    CHECK(whole - parameters(written) ==
          2 * kLayers * (kHidden * kFeedForward - rank * (kHidden + kFeedForward)));
  }
}

TEST_CASE("a pruned model is the model of the sizes that stay") {
  const Job pruned = decoder(
      "compression: {prune: {layers: 3, hidden_size: 128, heads: 4, kv_heads: 2, ffn_size: 512}}");
  const Job small = test::job_from(
      "model: {family: decoder, layers: 3, hidden_size: 128, heads: 4, kv_heads: 2, head_dim: 32, "
      "ffn_size: 512, vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: bf16}\nhardware: {gpu: "
      "h100-sxm-80gb}\n");
  CHECK(std::get<DecoderSpec>(pruned.model.architecture) ==
        std::get<DecoderSpec>(small.model.architecture));
}

TEST_CASE("factorised layers are answered on one GPU, by transformers") {
  const Job job = decoder("compression: {low_rank: {rank: 8, modules: [up_proj]}}");
  CHECK(std::get<MemoryAnswer>(estimate_job(job).memory).verdict == Verdict::fits);
  const JobEstimate unknown =
      estimate_job(decoder("compression: {low_rank: {rank: 8, modules: [c_fc]}}"));
  CHECK(std::get<Unavailable>(unknown.memory).sentence ==
        "this model's layers have no linear module that 'c_fc' of 'low_rank' names, or none whose "
        "factors are available yet");
}

}  // namespace
}  // namespace memest
