// How Megatron-FSDP lays parameters into buckets, and what a rank has of them.
#include "memory/states/unit_buckets.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

namespace memest {
namespace {

/// A matrix of so many rows.
BucketedParameter matrix(std::int64_t rows, std::int64_t columns,
                         std::optional<std::uint32_t> unit = {}) {
  return {rows * columns, columns, unit};
}

}  // namespace

TEST_CASE("a bucket ends with a whole row of the grid for every rank") {
  // The record fsdp_dp8: norm, qkv, output, norm, gate and up, down of a layer; lcm(2816, 1024) is
  // 11,264 elements.
  const std::vector<BucketedParameter> layer = {{1024, 1, 1},          matrix(1024, 1024, 1),
                                                matrix(1536, 1024, 1), {1024, 1, 1},
                                                matrix(5632, 1024, 1), matrix(1024, 2816, 1)};
  const std::vector<UnitBucket> buckets = unit_buckets(layer, {8, 40'000'000});
  REQUIRE(buckets.size() == 1);
  CHECK(buckets[0].elements == 11'354'112);
  CHECK(buckets[0].share == 1'419'264);
  CHECK(buckets[0].placed.front().parameter == 5);  // the widest rows come first
}

TEST_CASE("what stands outside of layers is bucketed by size, layers each by themselves") {
  const std::vector<BucketedParameter> model = {
      matrix(50'000, 1024), matrix(64, 64, 1), matrix(64, 64, 2), {1024, 1}, matrix(50'000, 1024)};
  const std::vector<UnitBucket> buckets = unit_buckets(model, {2, 40'000'000});
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].placed.size() == 1);  // the table is full by itself
  CHECK(buckets[1].placed.size() == 2);  // norm and head
  CHECK(buckets[2].unit == 1);
  CHECK(buckets[3].unit == 2);
}

TEST_CASE("the shares of all ranks are the parameters, each element once") {
  const std::vector<BucketedParameter> model = {
      matrix(7, 96, 1), matrix(5, 64, 1), {17, 1, 1}, {200, 1, 1}, matrix(300, 3, 1)};
  for (const std::int64_t ranks : {2, 3, 8}) {
    for (const UnitBucket& bucket : unit_buckets(model, {ranks, 1})) {
      CHECK(bucket.share * ranks == bucket.elements);
      for (const UnitBucket::Placed& placed : bucket.placed) {
        std::int64_t sum = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) sum += bucket.in_share(placed, rank);
        CHECK(sum == placed.elements);
        for (const UnitBucket::Placed& other : bucket.placed) {
          const bool apart = &other == &placed || other.begin >= placed.begin + placed.elements ||
                             placed.begin >= other.begin + other.elements;
          CHECK(apart);
        }
      }
    }
  }
}

}  // namespace memest
