// The time of forwards without gradients: kernels that generate() launches, published latencies.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "jobs.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

InferenceTime time_of(const std::string& model, const std::string& inference,
                      const std::string& gpu = "h100-sxm-80gb") {
  const JobEstimate estimate = estimate_job(test::job_from(
      "model: " + model + "\ninference: {" + inference + "}\nhardware: {gpu: " + gpu + "}\n"));
  REQUIRE(estimate.inference_time);
  return *estimate.inference_time;
}

std::string llama(int layers) {
  return "{family: decoder, layers: " + std::to_string(layers) +
         ", hidden_size: 256, heads: 4, kv_heads: 2, ffn_size: 512, vocab_size: 1000, activation: "
         "swiglu, norm: rmsnorm, position: rope}";
}

std::int64_t kernels_of_a_layer(const std::string& inference) {
  const auto launched = [&](int layers) {
    return time_of(llama(layers), inference).last_token->launched;
  };
  return launched(5) - launched(4);
}

TEST_CASE("a layer of LLaMA launches as many kernels a token as PyTorch's dispatcher counted") {
  CHECK(kernels_of_a_layer("prompt: 16, generate: 10") == 40);
  // index_select of the keys and of the values.
  CHECK(kernels_of_a_layer("prompt: 16, generate: 10, beams: 4") == 42);
}

TEST_CASE("a call is its prefill and its tokens, none faster than the host or the GPU") {
  const InferenceTime time = time_of("llama-3-8b", "prompt: 100, generate: 2");
  REQUIRE(time.first_token);
  CHECK(time.whole == time.prefill.expected + time.first_token->expected);
  for (const ForwardTime& pass : {time.prefill, *time.first_token}) {
    CHECK(pass.expected >= pass.kernels);
    CHECK(pass.expected >= pass.host);
    CHECK(pass.low <= pass.expected);
    CHECK(pass.expected <= pass.high);
  }
  CHECK(time_of("llama-3-8b", "prompt: 100, generate: 2, batch: 4").prefill.kernels >
        time.prefill.kernels);
  CHECK_FALSE(time_of("llama-3-8b", "prompt: 100").first_token);
}

TEST_CASE("published latencies of a token lie in the interval") {
  struct Row {
    const char* model;
    const char* inference;
    const char* gpu;
    double seconds;
  };
  // docs/generation.md names the sources.
  const Row rows[] = {
      {"{hf: {model_type: gemma, hidden_size: 2048, intermediate_size: 16384, num_hidden_layers: "
       "18, num_attention_heads: 8, num_key_value_heads: 1, head_dim: 256, vocab_size: 256000, "
       "max_position_embeddings: 8192}}",
       "prompt: 7, generate: 128, precision: fp16", "a10g", 0.0195},
      {"llama-2-7b", "prompt: 20, generate: 267, precision: fp16", "a10", 0.034},
      {"llama-2-7b", "prompt: 100, generate: 100, precision: fp16", "a100-sxm-80gb", 0.0249},
      {"llama-2-7b", "prompt: 100, generate: 100, precision: fp16", "a100-sxm-80gb", 0.037}};
  for (const Row& row : rows) {
    CAPTURE(row.gpu, row.seconds);
    const InferenceTime time = time_of(row.model, row.inference, row.gpu);
    CHECK(time.last_token->low.value() <= row.seconds);
    CHECK(row.seconds <= time.last_token->high.value());
  }
}

}  // namespace
}  // namespace memest
