#include "memest/memory/packing.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

constexpr std::uint32_t kEvents = 40;

std::vector<Lifetime> draw_lifetimes(std::mt19937& random, std::size_t count) {
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& one : lifetimes) {
    one.bytes = 1 + static_cast<std::int64_t>(random() % 50);
    const auto below = [&](std::uint32_t most) {
      return static_cast<std::uint32_t>(random() % most);
    };
    one.begin = below(kEvents - 1);
    one.end = one.begin + 1 + below(kEvents - one.begin);
  }
  return lifetimes;
}

bool meet(const Lifetime& left, const Lifetime& right) {
  return left.begin < right.end && right.begin < left.end;
}

/// Whether no two that live at once share a byte, and all are inside the arena.
bool is_valid(const std::vector<Lifetime>& lifetimes, const Packing& packing) {
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const std::int64_t from = packing.offsets[i];
    const std::int64_t to = from + lifetimes[i].bytes;
    if (from < 0 || to > packing.height) return false;
    for (std::size_t j = 0; j < i; ++j) {
      const std::int64_t other = packing.offsets[j];
      const bool apart = other >= to || other + lifetimes[j].bytes <= from;
      if (meet(lifetimes[i], lifetimes[j]) && !apart) return false;
    }
  }
  return true;
}

/// The lowest arena there is: some order, each lifetime as low as it may, makes it.
std::int64_t least_height(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  do {
    std::vector<std::int64_t> offsets(lifetimes.size());
    std::int64_t height = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Lifetime& one = lifetimes[order[i]];
      std::int64_t& offset = offsets[order[i]];
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < i; ++j) {
          const Lifetime& other = lifetimes[order[j]];
          const std::int64_t low = offsets[order[j]];
          if (!meet(one, other) || low >= offset + one.bytes || low + other.bytes <= offset)
            continue;
          offset = low + other.bytes;
          moved = true;
        }
      }
      height = std::max(height, offset + one.bytes);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

Timeline timeline_of(const std::string& spec) {
  const Job job =
      read_job(std::make_shared<const SourceText>(SourceText{"packed.yaml", spec})).value();
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
  return std::get<Timeline>(write_timeline(graph, job));
}

TEST_CASE("packings are valid, never below the bound, and a search never above best fit") {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::vector<Lifetime> lifetimes = draw_lifetimes(random, 1 + random() % 60);
    const std::int64_t bound = packing_bound(lifetimes);
    const Packing by_size = pack_by_size(lifetimes);
    const Packing searched = pack_by_search(lifetimes);
    CHECK(is_valid(lifetimes, by_size));
    CHECK(is_valid(lifetimes, searched));
    CHECK(searched.height >= bound);
    CHECK(searched.height <= by_size.height);
    CHECK(pack_by_search(lifetimes).offsets == searched.offsets);
  }
}

TEST_CASE("of seven lifetimes a search finds the lowest arena in nineteen of twenty") {
  constexpr int kDrawn = 60;
  std::mt19937 random(2);
  int lowest = 0;
  for (int i = 0; i < kDrawn; ++i) {
    const std::vector<Lifetime> lifetimes = draw_lifetimes(random, 7);
    const std::int64_t least = least_height(lifetimes);
    const std::int64_t found = pack_by_search(lifetimes).height;
    CHECK(found >= least);
    if (found == least) ++lowest;
  }
  CHECK(lowest >= kDrawn * 19 / 20);
}

TEST_CASE("what ends at an event makes room for what begins there") {
  CHECK(packing_bound(std::vector<Lifetime>{{8, 0, 3}, {8, 3, 5}}) == 8);
  CHECK(pack_by_size(std::vector<Lifetime>{{8, 0, 3}, {8, 3, 5}}).height == 8);
}

TEST_CASE("a timeline's arena is within 2 % of what is alive at once") {
  for (const char* spec :
       {"model: gpt2\ntraining: {seq_len: 1024, micro_batch: 8}\n",
        "model: qwen3-0.6b\ntraining: {seq_len: 2048, micro_batch: 4, recompute: full}\n",
        "model: tinyllama-1.1b\ntraining: {seq_len: 2048, micro_batch: 4, implementation: {name: "
        "torchtitan}, precision: fsdp2-bf16}\nparallelism: {data: 4, fsdp: {version: 2}}\n",
        "model: gemma-3-270m\ntraining: {seq_len: 512, micro_batch: 2, gradient_accumulation: "
        "4}\n"}) {
    INFO(spec);
    const Timeline timeline = timeline_of(std::string(spec) + "hardware: {gpu: h100-sxm-80gb}\n");
    const auto arenas = std::get<std::vector<Arena>>(pack_timeline(timeline));
    REQUIRE_FALSE(arenas.empty());
    std::size_t storages = 0;
    for (const Arena& arena : arenas) {
      storages += arena.storages.size();
      CHECK(is_valid(arena.lifetimes, arena.packing));
      CHECK(arena.packing.height <= arena.by_size);
      CHECK(static_cast<double>(arena.packing.height) <= 1.02 * static_cast<double>(arena.bound));
    }
    CHECK(storages == timeline.storages.size());
  }
}

TEST_CASE("a timeline of too many tensors is refused by a sentence") {
  Timeline timeline;
  timeline.storages.resize(kMostPacked + 1);
  const auto answer = pack_timeline(timeline);
  REQUIRE(std::holds_alternative<Unavailable>(answer));
  CHECK(
      std::get<Unavailable>(answer).sentence.starts_with("an arena for more than 100,000 tensors"));
}

}  // namespace
}  // namespace memest
