// How Megatron-core lays parameters into one buffer, and what a rank's optimizer steps of it.
#include "memory/states/flat_buffer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

namespace memest {
namespace {

std::int64_t first_share_of(const FlatBuffer& buffer) {
  std::int64_t elements = 0;
  for (const FlatShard& shard : buffer.pieces(0)) elements += shard.elements;
  return elements;
}

}  // namespace

TEST_CASE("without a distributed optimizer nothing is padded and every rank steps everything") {
  const FlatBuffer buffer = lay_out({{100, false}, {7, true}, {65, false}}, {false, 8, 0});
  CHECK(buffer.elements == 172);
  CHECK(first_share_of(buffer) == 172);
  REQUIRE(buffer.pieces(0).size() == 3);
  CHECK(buffer.pieces(0)[0].parameter == 2);  // the last lies first
}

TEST_CASE("with one, parameters start at 64 elements and buckets end at 128 and at the ranks") {
  CHECK(lay_out({{100, false}, {65, false}}, {true, 1, 0}).elements == 256);  // 65 -> 128, + 100
  CHECK(lay_out({{100, false}, {65, false}}, {true, 3, 0}).elements == 384);
  CHECK(lay_out({{128, false}}, {true, 8, 0}).elements == 128);
  CHECK(lay_out({{129, false}}, {true, 48, 0}).elements == std::lcm(48, 128));
}

TEST_CASE("an embedding that stages share has a bucket of its own") {
  // 10 alone in 128, then 200 in 256.
  const FlatBuffer buffer = lay_out({{200, false}, {10, true}}, {true, 2, 0});
  CHECK(buffer.elements == 384);
  REQUIRE(buffer.pieces(0).size() == 2);
  CHECK(buffer.pieces(0)[0].elements == 10);
  CHECK(buffer.pieces(0)[1].elements == 128);
}

TEST_CASE("the first rank steps the first share of every bucket, and not its padding") {
  const FlatBuffer buffer = lay_out({{300, false}, {100, false}}, {true, 4, 0});
  CHECK(buffer.elements == 512);
  REQUIRE(buffer.pieces(0).size() == 1);
  CHECK(buffer.pieces(0)[0].parameter == 1);
  CHECK(buffer.pieces(0)[0].elements == 100);
}

TEST_CASE("a bucket ends behind the parameter that fills it, and every rank has a share of each") {
  // 128 fill the first; 300 the second, in shares of 192 with the padding.
  const FlatBuffer buffer = lay_out({{300, false}, {128, false}}, {true, 2, 100});
  CHECK(buffer.elements == 128 + 384);
  REQUIRE(buffer.pieces(1).size() == 2);
  CHECK(buffer.pieces(1)[0].elements == 64);
  CHECK(buffer.pieces(1)[1].elements == 108);
}

TEST_CASE("the ranks' shares make up every bucket, and cut parameters where they end") {
  const FlatBuffer buffer = lay_out({{300, false}, {100, false}}, {true, 4, 0});
  std::vector<std::int64_t> of_each;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (const FlatShard& shard : buffer.pieces(rank)) of_each.push_back(shard.elements);
  }
  // 100, padded to 128; then 300 in shares of 128.
  CHECK(of_each == std::vector<std::int64_t>{100, 128, 128, 44});
  CHECK(buffer.pieces(1).front().parameter == 0);
}

}  // namespace memest
