// Jobs of the plan's tests, from spec text.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <utility>

#include "memest/reader/read_job.hpp"

namespace memest::test {

inline Job job_from(std::string yaml) {
  const auto text = std::make_shared<const SourceText>(SourceText{"test.yaml", std::move(yaml)});
  const Checked<Job> job = read_job(text);
  for (const Diagnostic& diagnostic : job.diagnostics()) UNSCOPED_INFO(diagnostic.message);
  REQUIRE(job.ok());
  return job.value();
}

/// Llama-3-8B with `training` and whatever follows.
inline Job llama(const std::string& training, const std::string& rest = "") {
  return job_from(
      "model: {family: decoder, layers: 32, hidden_size: 4096, heads: 32, kv_heads: 8, "
      "ffn_size: 14336, vocab_size: 128256, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {" +
      training + "}\n" + rest);
}

/// GPT-2 (124 M).
inline Job gpt2(const std::string& training, const std::string& rest = "") {
  return job_from(
      "model: {hf: {model_type: gpt2, n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, "
      "vocab_size: 50257}}\n"
      "training: {" +
      training + "}\n" + rest);
}

}  // namespace memest::test
