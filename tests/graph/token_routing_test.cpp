// How many ranks a token goes to.
#include "memest/graph/token_routing.hpp"

#include <bit>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>

namespace memest {
namespace {

using Catch::Approx;

/// The groups of experts among `chosen`, a bit an expert.
std::set<std::int64_t> parts_of(std::uint32_t chosen, std::int64_t experts, std::int64_t parts) {
  std::set<std::int64_t> found;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    if ((chosen >> expert & 1U) != 0) found.insert(expert * parts / experts);
  }
  return found;
}

/// The mean over every choice that the routing may take, counted one by one: groups are kept alike
/// often, and experts within them.
double counted(const TokenRouting& routing, std::int64_t ranks) {
  double reached = 0;
  double ways = 0;
  for (std::uint32_t kept = 0; kept < 1U << routing.groups; ++kept) {
    if (std::popcount(kept) != routing.groups_kept) continue;
    for (std::uint32_t chosen = 0; chosen < 1U << routing.experts; ++chosen) {
      if (std::popcount(chosen) != routing.top_k) continue;
      bool allowed = true;
      for (const std::int64_t group : parts_of(chosen, routing.experts, routing.groups)) {
        allowed = allowed && (kept >> group & 1U) != 0;
      }
      if (!allowed) continue;
      reached += static_cast<double>(parts_of(chosen, routing.experts, ranks).size());
      ++ways;
    }
  }
  return reached / ways;
}

}  // namespace

TEST_CASE("a token goes to as many ranks as every choice of its experts counts") {
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t top_k : {1, 2, 5}) {
      const TokenRouting free{.experts = 12, .top_k = top_k};
      CHECK(ranks_reached(free, ranks) == Approx(counted(free, ranks)));
    }
  }
  // Ranks of one group, of a part of one, and of several.
  for (const std::int64_t ranks : {2, 4, 12}) {
    for (const std::int64_t kept : {1, 2, 4}) {
      const TokenRouting limited{.experts = 12, .top_k = 3, .groups = 4, .groups_kept = kept};
      CHECK(ranks_reached(limited, ranks) == Approx(counted(limited, ranks)));
    }
  }
}

TEST_CASE("of 256 experts 8 lie on 5.3 of 8 ranks, as DeepEP's tests receive them") {
  // 4096 tokens of 7168 channels in bf16: 936.50 us at 331.77 GB/s, 310.7 MB (P5en).
  const double copies = ranks_reached({.experts = 256, .top_k = 8}, 8);
  CHECK(copies * 4096 * 7168 * 2 == Approx(936.50e-6 * 331.77e9).epsilon(0.005));
}

}  // namespace memest
