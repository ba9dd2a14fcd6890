// torchao's NF4 tensors under torchtune: their bytes, what a product makes of them, and how ranks
// share them.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/parallel/coded_rows.hpp"

namespace memest {
namespace {

/// A layer of hidden size 512 whose feed-forward has `ffn_size` channels.
Job tuned(const std::string& ffn_size, const std::string& more = "", const std::string& rest = "") {
  return test::job_from(
      "model: {family: decoder, layers: 2, hidden_size: 512, heads: 8, kv_heads: 2, ffn_size: " +
      ffn_size +
      ", vocab_size: 512, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 16, micro_batch: 1, implementation: torchtune, adapter: {qlora: {rank: "
      "8, targets: [q_proj]}}" +
      more + "}\nhardware: {gpu: h100-sxm-80gb}\n" + rest);
}

std::int64_t allocated_peak(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  REQUIRE(memory.replayed() != nullptr);
  return memory.allocated().value();
}

TEST_CASE("a block of 64 codes has a byte, and 256 of those a number") {
  test::Draws draws(11);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t n = 16384 * (1 + static_cast<std::int64_t>(draws.below(10'000)));
    const QuantizedWeights quantized{.format = WeightFormat::torchao_nf4};
    for (const DType type : {DType::bf16, DType::fp32}) {
      const std::int64_t each = size_of(type);
      CHECK(stored_bytes(quantized, {n, 64}, type) ==
            n / 2 + n / 64 + each * (n / 16384) + each * (16 + 1));
    }
  }
}

TEST_CASE("every rank gathers codes and both scales, and keeps the values and the mean whole") {
  const QuantizedWeights quantized{.format = WeightFormat::torchao_nf4};
  constexpr std::int64_t kElements = 16384 * 24;
  std::int64_t gathered = 0;
  for (const StoredTensor& tensor : gathered_tensors(quantized, {kElements, 64}, DType::bf16)) {
    gathered += tensor.elements * size_of(tensor.dtype);
  }
  CHECK(gathered + 17 * size_of(DType::bf16) ==
        stored_bytes(quantized, {kElements, 64}, DType::bf16));
  CHECK(gathered_tensors(quantized, {kElements, 64}, DType::bf16).size() == 3);
}

TEST_CASE("a product's weight is made of fourteen bytes an element, at the peak of narrow rows") {
  // Few tokens and a small head: the peak lies in the largest matrix's product.
  constexpr std::int64_t kLess = 8192;
  constexpr std::int64_t kMore = 2 * kLess;
  const std::int64_t less = allocated_peak(tuned(std::to_string(kLess)));
  const std::int64_t more = allocated_peak(tuned(std::to_string(kMore)));
  constexpr std::int64_t kElements = 512 * (kMore - kLess);
  constexpr std::int64_t kMatrices = 2 * 3;  // of both layers
  const std::int64_t codes = kMatrices * (kElements / 2 + kElements / 64 + 2 * kElements / 16384);
  const std::int64_t weight = 14 * kElements + 2 * kElements / 64;  // and the block's scales
  // Beside them stand the rows of the feed-forward.
  CHECK(more - less >= codes + weight);
  CHECK(more - less < (codes + weight) * 102 / 100 + 16 * 8 * (kMore - kLess));
}

TEST_CASE("over torchao's codes the closed form is the replay without rounding") {
  test::Draws draws(5);
  const auto one_of = [&draws](const auto&... values) {
    const std::string words[] = {values...};
    return words[draws.below(sizeof...(values))];
  };
  for (int i = 0; i < 40; ++i) {
    const std::string spec =
        "model: {family: decoder, layers: 3, hidden_size: 512, heads: 8, kv_heads: " +
        one_of("2", "8") + ", ffn_size: " + one_of("1408", "4096") +
        ", vocab_size: " + one_of("1000", "32000") +
        ", activation: swiglu, norm: rmsnorm, position: rope}\ntraining: {seq_len: " +
        one_of("16", "100", "512") + ", micro_batch: " + one_of("1", "3") +
        ", gradient_accumulation: " + one_of("1", "2") + ", recompute: " + one_of("none", "full") +
        ", clip_gradients: " + one_of("true", "false") +
        ", implementation: {name: torchtune, loss: " + one_of("chunked", "upcast") +
        "}, adapter: {qlora: {rank: 8, targets: [" +
        one_of("q_proj", "q_proj, k_proj, v_proj, output_proj", "v_proj, w1, w2, w3") +
        "]}}}\nhardware: {gpu: h100-sxm-80gb}\n";
    INFO(spec);
    CHECK(test::distance_of(test::job_from(spec), 0) <= 0.01);
  }
}

TEST_CASE("torchao's blocks divide every weight") {
  const auto sentence = [](const Job& job) -> std::string {
    const JobEstimate estimate = estimate_job(job);
    const auto* reason = std::get_if<Unavailable>(&estimate.memory);
    return reason == nullptr ? "" : reason->sentence;
  };
  CHECK(sentence(tuned("1408")).empty());
  CHECK(sentence(tuned("1400")) ==
        "torchao cannot keep the 716800 weights of 'mlp.w1.weight' in groups of 64 and blocks of "
        "256 scales");
  CHECK(sentence(tuned("1408", "", "parallelism: {data: 3, zero: 3, fsdp: {version: 2}}\n")) ==
        "torchao's NF4 tensors lie in equal shares: the codes of 'q_proj' or their scales do not "
        "divide among 3 ranks");
}

TEST_CASE("ranks share rows, and whole blocks of scales") {
  Job job = tuned("1408");
  CHECK_FALSE(uneven_codes(job, 2));
  CHECK_FALSE(uneven_codes(job, 4));
  CHECK(uneven_codes(job, 3) == "q_proj");
  CHECK(uneven_codes(job, 8) == "k_proj");  // 65,536 weights are four blocks
  job.model.quantized->skip_modules = {"output", "k_proj", "v_proj", "w1", "w2", "w3"};
  CHECK_FALSE(uneven_codes(job, 8));
  job.model.quantized.reset();
  CHECK_FALSE(uneven_codes(job, 3));
}

}  // namespace
}  // namespace memest
