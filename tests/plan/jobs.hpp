// Jobs of the plan's tests, from spec text, and what their timelines ask for.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "memest/memory/ledger.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"
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

/// Of a job that has an answer.
inline const MemoryAnswer& memory_of(const JobEstimate& estimate) {
  return std::get<MemoryAnswer>(estimate.memory);
}

/// The most bytes that are asked for at one time, before any rounding.
inline std::int64_t requested_peak(const Timeline& timeline) {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (const Event& event : timeline.events) {
    const std::int64_t bytes = timeline.storages[event.storage].bytes;
    now += event.kind == EventKind::allocate ? bytes : -bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

/// The steps of a job's rank; there is a timeline of them.
inline StepMemory steps_of(const Job& job, std::int64_t pipeline_rank = 0) {
  auto memory = step_memory_of(job, {pipeline_rank});
  if (const auto* reason = std::get_if<Unavailable>(&memory)) UNSCOPED_INFO(reason->sentence);
  REQUIRE(std::holds_alternative<StepMemory>(memory));
  return std::get<StepMemory>(std::move(memory));
}

/// The same peak twice, in bytes that tensors ask for.
struct TwoPeaks {
  std::int64_t closed_form = 0;
  std::int64_t replayed = 0;

  [[nodiscard]] std::int64_t apart() const { return std::abs(closed_form - replayed); }
};

/// Of a job, of one of its pipeline's ranks.
inline TwoPeaks two_peaks_of(const Job& job, std::int64_t pipeline_rank = 0) {
  const StepMemory step = steps_of(job, pipeline_rank);
  const Ledger ledger = write_ledger(step.graph, job, pipeline_rank);
  return {peak_allocated(ledger, ledger.bindings).value(), requested_peak(step.timeline)};
}

/// How far the closed form is from the replay, over the replay.
inline double distance_of(const Job& job, std::int64_t pipeline_rank = 0) {
  const TwoPeaks peaks = two_peaks_of(job, pipeline_rank);
  return static_cast<double>(peaks.apart()) / static_cast<double>(peaks.replayed);
}

}  // namespace memest::test
