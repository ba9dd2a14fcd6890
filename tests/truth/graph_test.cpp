// What autograd keeps and what FLOPs torch counts, held to recorded runs as integers.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "records.hpp"

namespace memest {
namespace {

/// The job of a record, its allocator's settings left out: the graph does not depend on them.
Job job_of(const Record& record) {
  std::string spec = "{";
  for (const std::string_view part : {"model", "training", "hardware"}) {
    spec += (spec.size() > 1 ? ", \"" : "\"") + std::string(part) + "\": ";
    spec += json_member(record.spec, part);
  }
  spec += "}";
  const auto source = std::make_shared<const SourceText>(SourceText{record.id + ".json", spec});
  const Checked<Job> job = read_job(source);
  if (!job.ok()) throw std::runtime_error(record.id + ": " + job.diagnostics().front().message);
  return job.value();
}

Graph graph_of(const Job& job) {
  const int capability = capability_of(job.hardware.gpu).value;
  auto lowered = lower(job.model, policy_of(*job.training, capability));
  if (const auto* why = std::get_if<Unavailable>(&lowered)) {
    throw std::runtime_error(job.model.name + ": " + why->sentence);
  }
  return std::get<Graph>(std::move(lowered));
}

/// Bytes of every layer, first layer first, as the graph has them.
std::vector<std::int64_t> bytes_by_layer(const Graph& graph) {
  const std::vector<Expr> blocks = graph.saved_bytes_by_block();
  std::vector<std::int64_t> result;
  std::size_t at = 0;
  for (const BlockRun& run : graph.order) {
    for (std::int64_t i = 0; i < run.repeat; ++i, ++at) {
      if (!graph.blocks[run.block].checkpointable) continue;
      result.push_back(blocks[at].bytes(graph.sizes).value());
    }
  }
  return result;
}

/// Adapters, the key/value cache during training and the sum of logits as loss come later; the
/// reader refuses them by name.
bool waits(const Record& record) {
  const std::string_view training = json_member(record.spec, "training");
  return !json_member(training, "adapter").empty() || !json_member(training, "loss").empty() ||
         json_member(training, "use_cache") == "true";
}

void compare(const Record& record) {
  INFO(record.id);
  const Job job = job_of(record);
  const Graph graph = graph_of(job);
  const bool recomputes = !std::holds_alternative<NoRecompute>(job.training->recompute);

  const Expr saved = recomputes ? graph.saved_bytes_with_full_recompute() : graph.saved_bytes();
  CHECK(saved.bytes(graph.sizes).value() == record.number("saved_bytes"));
  CHECK(graph.forward_flops().evaluate(graph.sizes) == record.number("forward_flops").value());
  if (recomputes) return;
  CHECK(graph.backward_flops().evaluate(graph.sizes) == record.number("backward_flops").value());
  const std::vector<std::int64_t> layers = bytes_by_layer(graph);
  std::vector<std::int64_t> recorded = record.numbers("saved_bytes_per_layer").value();
  if (recorded.size() == 1) recorded.resize(layers.size(), recorded.front());
  CHECK(layers == recorded);
}

}  // namespace

TEST_CASE("saved bytes and FLOPs equal the recorded runs") {
  for (const Record& record : read_records("transformers.records.jsonl")) {
    if (record.number("saved_bytes") && !waits(record)) compare(record);
  }
}

TEST_CASE("saved bytes and FLOPs equal recorded runs of every decoder family") {
  for (const Record& record : read_records("families.records.jsonl")) compare(record);
}

}  // namespace memest
