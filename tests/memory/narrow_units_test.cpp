// Megatron-FSDP of weights that are gathered in fp8, and of a model on the meta device.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr std::int64_t kLinears = 131'072 + 65'536 + 262'144 + 131'072;  ///< of a layer
constexpr std::int64_t kNorms = 2 * 256;

Timeline timeline_of(const std::string& float8,
                     const std::string& parallelism = "{data: 2, zero: 3}") {
  const std::string text =
      "model: {layers: 3, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 512, vocab_size: "
      "1024, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, steps: 1, precision: megatron" +
      float8 + ", implementation: megatron}\nparallelism: " + parallelism +
      "\n"
      "hardware: {gpu: b200-sxm-180gb}\n";
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  const LoweringPolicy policy =
      policy_of(*job.value().training, *job.value().hardware.gpu.compute_capability());
  return std::get<Timeline>(
      write_timeline(std::get<Graph>(lower(job.value().model, policy)), job.value()));
}

/// Bytes of all that is gathered, of each size one.
std::vector<std::int64_t> gathered_in(const Timeline& timeline) {
  std::vector<std::int64_t> sizes;
  for (const Storage& storage : timeline.storages) {
    const bool weights = storage.label.origin == Origin::unit &&
                         storage.label.tensor == static_cast<int>(UnitTensor::flat_weights);
    if (weights && std::ranges::find(sizes, storage.bytes) == sizes.end()) {
      sizes.push_back(storage.bytes);
    }
  }
  return sizes;
}

/// Bytes of storages of one kind that the phases of a kind allocate.
std::int64_t made_in(const Timeline& timeline, Phase phase, Holding holding) {
  std::int64_t bytes = 0;
  for (const Span& span : timeline.spans) {
    if (span.phase != phase) continue;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
      const Event& event = timeline.events[i];
      const Storage& storage = timeline.storages[event.storage];
      const bool counts = event.kind == EventKind::allocate && storage.label.holding == holding;
      bytes += counts ? storage.bytes : 0;
    }
  }
  return bytes;
}

/// The most that is alive until the model's weights lie in buckets, and what is left then.
struct Setup {
  std::int64_t most = 0;
  std::int64_t left = 0;
};
Setup setup_of(const Timeline& timeline) {
  Setup setup;
  const auto buffers = std::ranges::find(timeline.spans, Phase::ddp_buffers, &Span::phase);
  REQUIRE(buffers != timeline.spans.end());
  for (std::uint32_t i = 0; i < buffers->end; ++i) {
    const Event& event = timeline.events[i];
    const std::int64_t bytes = timeline.storages[event.storage].bytes;
    setup.left += event.kind == EventKind::allocate ? bytes : -bytes;
    setup.most = std::max(setup.most, setup.left);
  }
  return setup;
}

bool has(const std::vector<std::int64_t>& sizes, std::int64_t size) {
  return std::ranges::find(sizes, size) != sizes.end();
}

}  // namespace

TEST_CASE("a layer's fp8 weights are gathered in a byte an element, its norms beside them") {
  const auto narrow =
      gathered_in(timeline_of(", float8: {recipe: tensorwise, param_gather: true}"));
  CHECK(has(narrow, kLinears));
  CHECK(has(narrow, 2 * kNorms));
  const auto wide = gathered_in(timeline_of(", float8: {recipe: tensorwise}"));
  CHECK(has(wide, 2 * (kLinears + 1024)));  // the norms' cell is a pair of ranks' rows
  CHECK_FALSE(has(wide, kLinears));
}

TEST_CASE("layers that stay in bf16 are gathered whole in two bytes") {
  const auto mixed = gathered_in(
      timeline_of(", float8: {recipe: tensorwise, param_gather: true, first_layers_bf16: 1}"));
  CHECK(has(mixed, kLinears));
  CHECK(has(mixed, 2 * (kLinears + 1024)));
}

TEST_CASE("of a model on the meta device a layer is whole as its bucket is made, and no sooner") {
  constexpr std::int64_t kVocabulary = 2 * 1024 * 256;  ///< embedding and output layer
  constexpr std::int64_t kModel = 3 * (kLinears + kNorms) + 256 + kVocabulary;
  const Timeline whole = timeline_of("", "{data: 8, zero: 3}");
  const Timeline meta = timeline_of("", "{data: 8, fsdp: {version: 2, init: meta}}");
  CHECK(made_in(whole, Phase::model, Holding::weights) == 2 * kModel);
  CHECK(made_in(meta, Phase::model, Holding::weights) == 2 * kVocabulary);
  CHECK(setup_of(meta).most < setup_of(whole).most);
  CHECK(setup_of(meta).left == setup_of(whole).left);
}

}  // namespace memest
