// Who may write into its input: held to PyTorch, which refuses a backward whose tensors were
// written over, and to what a net in place keeps.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/graph/forward_storages.hpp"
#include "memest/graph/lower.hpp"

namespace memest {
namespace {

struct RecordedNet {
  std::string results;  ///< a letter for each activation
  std::string layers;   ///< with @ for the keys of those that have a form in place
};

std::vector<RecordedNet> recorded_nets() {
  std::ifstream file(MEMEST_IN_PLACE);
  REQUIRE(file);
  std::vector<RecordedNet> nets;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t space = line.find(' ');
    nets.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return nets;
}

/// With the `chosen` of its activations in place, from 0 on.
Graph net_of(const RecordedNet& net, std::size_t chosen) {
  std::string layers;
  std::size_t activation = 0;
  for (const char c : net.layers) {
    if (c != '@') {
      layers += c;
      continue;
    }
    while (net.results[activation] == '-') ++activation;
    layers += activation++ == chosen ? "{in_place: true}" : "{}";
  }
  const Job job = test::job_from(
      "model: {image: {channels: 3, height: 8, width: 8}, loss: cross-entropy, layers: [" + layers +
      "]}\ntraining: {seq_len: 1, micro_batch: 2, precision: fp32}\n");
  auto graph = lower(job.model, policy_of(job));
  REQUIRE(std::holds_alternative<Graph>(graph));
  return std::get<Graph>(std::move(graph));
}

/// The rows of activations, in the order of the layers.
std::vector<InPlaceRow> activations_of(const Graph& graph) {
  std::vector<InPlaceRow> rows;
  for (const InPlaceRow& row : in_place_runs(graph, false)) {
    if (graph.blocks[row.block].ops[row.op].kind == OpKind::activation) rows.push_back(row);
  }
  return rows;
}

std::int64_t saved_bytes(const Graph& graph) {
  return graph.saved_bytes().bytes(graph.sizes).value();
}

constexpr std::size_t kNone = 1000;

}  // namespace

TEST_CASE("what may write into its input PyTorch lets, and what may not it refuses or gets wrong") {
  std::size_t may = 0;
  std::size_t raises = 0;
  std::size_t differs = 0;
  std::size_t idempotent = 0;
  for (const RecordedNet& net : recorded_nets()) {
    INFO(net.layers);
    const Graph graph = net_of(net, kNone);
    const std::vector<InPlaceRow> rows = activations_of(graph);
    REQUIRE(rows.size() == net.results.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO("activation " << i << " is " << net.results[i]);
      const InPlace verdict = rows[i].verdict;
      switch (net.results[i]) {
        case 's': {
          // hardtanh_ and silu_ keep a copy of their input; a ReLU's input that another ReLU reads
          // later may be one's result too.
          CHECK((verdict == InPlace::may || verdict == InPlace::keeps_input ||
                 verdict == InPlace::read_later));
          if (verdict == InPlace::read_later) ++idempotent;
          const Graph in_place = net_of(net, i);
          CHECK(saved_bytes(in_place) <= saved_bytes(graph));
          const std::vector<InPlaceRow> after = activations_of(in_place);
          for (const InPlaceRow& row : after) CHECK(row.verdict != InPlace::raises);
          if (verdict == InPlace::may) {
            CHECK(after[i].verdict == InPlace::already);
            ++may;
          }
          break;
        }
        case 'r':
          CHECK((verdict == InPlace::kept || verdict == InPlace::read_later));
          ++raises;
          break;
        case 'd':
          CHECK(verdict == InPlace::read_later);
          ++differs;
          break;
        default:
          break;
      }
    }
  }
  CHECK(may > 50);
  CHECK(raises > 30);
  CHECK(differs > 3);
  CHECK(idempotent == 5);
}

TEST_CASE("an operation in place of what was kept is found where it stands") {
  for (const RecordedNet& net : recorded_nets()) {
    for (std::size_t i = 0; i < net.results.size(); ++i) {
      if (net.results[i] != 'r') continue;
      INFO(net.layers << ", activation " << i);
      const Graph graph = net_of(net, kNone);
      if (activations_of(graph)[i].verdict != InPlace::kept) continue;
      CHECK(activations_of(net_of(net, i))[i].verdict == InPlace::raises);
    }
  }
}

}  // namespace memest
