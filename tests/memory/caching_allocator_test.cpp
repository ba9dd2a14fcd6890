#include "memest/memory/caching_allocator.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

using namespace literals;

/// A device without limits, and an allocator on it.
struct Bench {
  explicit Bench(const AllocatorSettings& settings = {}, std::optional<Bytes> limit = {},
                 Bytes total = 64_GiB)
      : device(total), allocator(settings, limit, device) {}

  BlockId take(Bytes size, int stream = 0) {
    const std::optional<BlockId> block = allocator.allocate(size, stream);
    REQUIRE(block.has_value());
    return *block;
  }
  [[nodiscard]] const AllocatorStatistics& statistics() const { return allocator.statistics(); }
  [[nodiscard]] Bytes allocated() const { return statistics().allocated.current; }
  [[nodiscard]] Bytes reserved() const { return statistics().reserved.current; }

  PredictedDevice device;
  CachingAllocator allocator;
};

AllocatorSettings expandable() {
  AllocatorSettings settings;
  settings.expandable_segments = true;
  return settings;
}

AllocatorSettings max_split(Bytes size) {
  AllocatorSettings settings;
  settings.max_split_size = size;
  return settings;
}

AllocatorSettings garbage_collection(double threshold) {
  AllocatorSettings settings;
  settings.garbage_collection_threshold = threshold;
  return settings;
}

}  // namespace

TEST_CASE("a request takes a block and a segment of PyTorch's sizes", "[allocator]") {
  // Request, counted as allocated, new segment, free remainder: measured on PyTorch 2.11.0.
  struct Row {
    std::int64_t request, allocated, reserved, free;
  };
  for (const Row& row : std::vector<Row>{
           {1, 512, 2 * kMiB, 2 * kMiB - 512},
           {513, 1024, 2 * kMiB, 2 * kMiB - 1024},
           {1'048'576, 1'048'576, 2 * kMiB, kMiB},
           {1'048'577, 1'049'088, 20 * kMiB, 19'922'432},
           {8'519'680, 8'519'680, 20 * kMiB, 12'451'840},
           {10'485'760, 10'485'760, 10 * kMiB, 0},
           {10'485'761, 10'486'272, 12 * kMiB, 2'096'640},
           {12'058'624, 12'582'912, 12 * kMiB, 0},  // 0.5 MiB is left, which is not cut off
           {33'554'432, 33'554'432, 32 * kMiB, 0},
           {1'050'673'152, 1'050'673'152, 1002 * kMiB, 0},
       }) {
    INFO(row.request);
    Bench bench;
    const BlockId block = bench.take(Bytes(row.request));
    CHECK(bench.allocated() == Bytes(row.allocated));
    CHECK(bench.allocator.size_of(block) == Bytes(row.allocated));
    CHECK(bench.reserved() == Bytes(row.reserved));
    CHECK(bench.statistics().requested.current == Bytes(row.request));
    CHECK(bench.statistics().inactive_split.current == Bytes(row.free));
    CHECK(bench.statistics().inactive_split_blocks == (row.free > 0 ? 1 : 0));
  }
}

TEST_CASE("a request of nothing makes no block", "[allocator]") {
  Bench bench;
  const BlockId block = bench.take(0_B);
  CHECK(block == BlockId::none);
  bench.allocator.free(block);
  CHECK(bench.statistics() == AllocatorStatistics());
}

TEST_CASE("divisions of powers of two round by the size below", "[allocator]") {
  RoundingDivisions divisions{};
  CHECK(rounded_request(1025_B, divisions) == 1536_B);
  divisions.fill(4);
  CHECK(rounded_request(2048_B, divisions) == 2048_B);      // not above 4 · 512 B
  CHECK(rounded_request(2049_B, divisions) == 2560_B);      // quarters of 2048 B
  CHECK(rounded_request(1200_MiB, divisions) == 1280_MiB);  // 1024 + 256
  CHECK(rounded_request(1280_MiB, divisions) == 1280_MiB);
  CHECK(rounded_request(1024_MiB, divisions) == 1024_MiB);
  divisions = {};
  divisions[0] = 2;  // below 2 MiB
  CHECK(rounded_request(5000_B, divisions) == 6144_B);
  CHECK(rounded_request(1100_KiB, divisions) == 1536_KiB);
  CHECK(rounded_request(Bytes(2 * kMiB + 1), divisions) == Bytes(2 * kMiB + 512));
  divisions = {};
  divisions[15] = 2;  // from 32 GiB on
  CHECK(rounded_request(33_GiB, divisions) == 48_GiB);
  CHECK(rounded_request(130_GiB, divisions) == 192_GiB);
  CHECK_THROWS_AS(rounded_request(Bytes((std::int64_t{1} << 60U) + 1), divisions), OverflowError);
}

TEST_CASE("a block of the large pool is cut where more than 1 MiB is left", "[allocator]") {
  Bench bench;
  bench.allocator.free(bench.take(20_MiB));
  const BlockId uncut = bench.take(19_MiB);
  CHECK(bench.allocator.size_of(uncut) == 20_MiB);
  bench.allocator.free(uncut);
  const BlockId cut = bench.take(Bytes(19 * kMiB - 512));
  CHECK(bench.allocator.size_of(cut) == Bytes(19 * kMiB - 512));
  CHECK(bench.statistics().inactive_split.current == Bytes(kMiB + 512));
}

TEST_CASE("the request takes the low addresses, and freed neighbours join", "[allocator]") {
  Bench bench;
  const BlockId low = bench.take(2_MiB);
  const BlockId middle = bench.take(2_MiB);
  const BlockId high = bench.take(2_MiB);
  const Address begin = bench.allocator.address_of(low);
  CHECK(bench.allocator.address_of(middle) == begin + 2 * kMiB);
  CHECK(bench.allocator.address_of(high) == begin + 4 * kMiB);
  CHECK(bench.reserved() == 20_MiB);
  bench.allocator.free(low);
  CHECK(bench.statistics().inactive_split_blocks == 2);
  bench.allocator.free(high);  // joins the 14 MiB behind it
  CHECK(bench.statistics().inactive_split_blocks == 2);
  CHECK(bench.statistics().inactive_split.current == 18_MiB);
  bench.allocator.free(middle);  // joins both: a whole segment is not split
  CHECK(bench.statistics().inactive_split_blocks == 0);
  CHECK(bench.statistics().inactive_split.current == 0_B);
  CHECK(bench.allocator.snapshot().at(0).blocks.size() == 1);
}

TEST_CASE("the smallest block that is large enough is taken, the lowest of equals", "[allocator]") {
  Bench bench;
  std::vector<BlockId> blocks;
  for (const Bytes size : {40_MiB, 32_MiB, 24_MiB, 32_MiB}) blocks.push_back(bench.take(size));
  const Address lower_of_32 = bench.allocator.address_of(blocks[1]);
  for (const BlockId block : {blocks[3], blocks[0], blocks[1], blocks[2]}) {
    bench.allocator.free(block);
  }
  CHECK(bench.allocator.address_of(bench.take(30_MiB)) == lower_of_32);
  CHECK(bench.reserved() == 128_MiB);
}

TEST_CASE("each stream has blocks of its own", "[allocator]") {
  Bench bench;
  bench.allocator.free(bench.take(16_MiB, 0));
  bench.take(16_MiB, 1);
  CHECK(bench.reserved() == 32_MiB);
  bench.take(16_MiB, 0);
  CHECK(bench.reserved() == 32_MiB);
}

TEST_CASE("a block that another stream uses stays until that stream is done", "[allocator]") {
  Bench bench;
  const BlockId block = bench.take(16_MiB);
  bench.allocator.free_when_done(block);
  CHECK(bench.allocated() == 0_B);
  CHECK(bench.statistics().active.current == 16_MiB);
  CHECK(bench.statistics().active_blocks == 1);
  CHECK(bench.allocator.snapshot().at(0).blocks.at(0).state == BlockState::awaiting);
  bench.take(16_MiB);
  CHECK(bench.reserved() == 32_MiB);
  bench.allocator.free(block);
  CHECK(bench.statistics().active.current == 16_MiB);
  bench.take(16_MiB);
  CHECK(bench.reserved() == 32_MiB);
}

TEST_CASE("peaks start again from what is there", "[allocator]") {
  Bench bench;
  bench.allocator.free(bench.take(32_MiB));
  bench.take(10_MiB);
  CHECK(bench.statistics().allocated.peak == 32_MiB);
  bench.allocator.reset_peaks();
  CHECK(bench.statistics().allocated == Gauge{10_MiB, 10_MiB});
  CHECK(bench.statistics().reserved == Gauge{32_MiB, 32_MiB});
  CHECK(bench.statistics().inactive_split == Gauge{22_MiB, 22_MiB});
}

TEST_CASE("what is cached goes back before a request fails", "[allocator]") {
  for (const bool by_fraction : {true, false}) {
    Bench bench({}, by_fraction ? std::optional(64_MiB) : std::nullopt,
                by_fraction ? 64_GiB : 64_MiB);
    bench.allocator.free(bench.take(32_MiB));
    const BlockId held = bench.take(20_MiB);  // from the 32 MiB: a segment in use stays
    bench.allocator.free(bench.take(30_MiB));
    CHECK(bench.reserved() == 62_MiB);
    bench.take(31_MiB);
    CHECK(bench.statistics().retries == 1);
    CHECK(bench.reserved() == 64_MiB);
    CHECK(bench.statistics().out_of_memory == 0);
    CHECK_FALSE(bench.allocator.allocate(40_MiB, 0).has_value());
    CHECK(bench.statistics().retries == 2);
    CHECK(bench.statistics().out_of_memory == 1);
    CHECK(bench.allocator.size_of(held) == 20_MiB);
  }
}

TEST_CASE("empty_cache gives back whole segments only", "[allocator]") {
  Bench bench;
  bench.take(2_MiB);
  bench.allocator.free(bench.take(64_MiB));
  bench.allocator.free(bench.take(100_B));
  CHECK(bench.statistics().segments == 3);
  bench.allocator.empty_cache();
  CHECK(bench.statistics().segments == 1);
  CHECK(bench.reserved() == 20_MiB);
  CHECK(bench.statistics().retries == 0);
}

TEST_CASE("blocks from max_split_size on are not cut and not taken by smaller requests",
          "[allocator]") {
  Bench bench(max_split(32_MiB));
  bench.allocator.free(bench.take(100_MiB));
  bench.take(20_MiB);  // the 100 MiB are left alone
  CHECK(bench.reserved() == 120_MiB);
  const BlockId near = bench.take(Bytes(80 * kMiB + 512));  // less than 20 MiB above the request
  CHECK(bench.allocator.size_of(near) == 100_MiB);
  bench.allocator.free(near);
  bench.take(80_MiB);  // 20 MiB are too much
  CHECK(bench.reserved() == 200_MiB);
}

TEST_CASE("with max_split_size only as much goes back as the request needs", "[allocator]") {
  const auto cached = [](Bench& bench) {
    std::vector<BlockId> blocks;
    for (const Bytes size : {40_MiB, 60_MiB, 90_MiB, 10_MiB}) blocks.push_back(bench.take(size));
    for (const BlockId block : blocks) bench.allocator.free(block);
  };
  SECTION("the smallest segment that is large enough") {
    Bench bench(max_split(32_MiB), 210_MiB);
    cached(bench);
    bench.take(64_MiB);  // 90 MiB are too large to be taken, and are given back
    CHECK(bench.reserved() == 174_MiB);
    CHECK(bench.statistics().retries == 0);
  }
  SECTION("or the largest until they are together") {
    Bench bench(max_split(32_MiB), 210_MiB);
    cached(bench);
    bench.take(120_MiB);  // 90 and 60
    CHECK(bench.reserved() == 170_MiB);
    CHECK(bench.statistics().retries == 0);
  }
}

TEST_CASE("garbage collection gives back the segments that lay idle longest", "[allocator]") {
  Bench bench(garbage_collection(0.5), 100_MiB);
  const BlockId old_one = bench.take(20_MiB);
  const BlockId new_one = bench.take(22_MiB);
  bench.allocator.free(old_one);
  bench.take(10_MiB);  // from old_one's segment: split, so it stays
  bench.take(100_B);
  bench.allocator.free(new_one);
  CHECK(bench.reserved() == 44_MiB);
  bench.take(24_MiB);  // 44 is below the threshold of 50 MiB
  CHECK(bench.reserved() == 68_MiB);
  bench.take(26_MiB);  // above: the 22 MiB go
  CHECK(bench.reserved() == 72_MiB);
  CHECK(bench.statistics().retries == 0);
}

TEST_CASE("an expandable segment maps what is missing and is always cut", "[allocator]") {
  Bench bench(expandable());
  const BlockId first = bench.take(Bytes(23 * kMiB / 2));
  CHECK(bench.allocator.size_of(first) == Bytes(23 * kMiB / 2));
  CHECK(bench.reserved() == 20_MiB);
  const BlockId second = bench.take(30_MiB);  // 8.5 MiB are there, two more pages are mapped
  CHECK(bench.reserved() == 60_MiB);
  CHECK(bench.allocator.address_of(second) == bench.allocator.address_of(first) + 23 * kMiB / 2);
  CHECK(bench.take(100_B) != BlockId::none);  // the small pool has pages of 2 MiB
  CHECK(bench.reserved() == 62_MiB);
  CHECK(bench.statistics().segments == 0);
  CHECK(bench.statistics().inactive_split_blocks == 0);
  bench.allocator.free(second);
  bench.allocator.empty_cache();  // 11.5 MiB of the first page are in use
  CHECK(bench.reserved() == 22_MiB);
  bench.allocator.free(first);
  bench.allocator.empty_cache();
  CHECK(bench.reserved() == 2_MiB);
  CHECK(bench.allocator.snapshot().size() == 1);
}

TEST_CASE("pages mapped into a hole of an expandable segment", "[allocator]") {
  Bench bench(expandable());
  const BlockId low = bench.take(20_MiB);
  const BlockId hole = bench.take(40_MiB);
  bench.take(20_MiB);
  const Address at = bench.allocator.address_of(hole);
  bench.allocator.free(hole);
  bench.allocator.empty_cache();
  CHECK(bench.reserved() == 40_MiB);
  CHECK(bench.allocator.snapshot().size() == 2);
  const BlockId again = bench.take(25_MiB);
  CHECK(bench.allocator.address_of(again) == at);
  CHECK(bench.reserved() == 80_MiB);
  bench.allocator.free(low);
  bench.allocator.free(again);
}

TEST_CASE("an expandable segment stops at the device's memory", "[allocator]") {
  Bench bench(expandable(), {}, 100_MiB);
  bench.take(60_MiB);
  CHECK_FALSE(bench.allocator.allocate(50_MiB, 0).has_value());
  CHECK(bench.statistics().retries == 1);
  CHECK(bench.reserved() == 60_MiB);
  bench.take(40_MiB);
  CHECK(bench.reserved() == 100_MiB);
}

TEST_CASE("a mistake in freeing is a mistake of memest", "[allocator]") {
  Bench bench;
  const BlockId block = bench.take(1_MiB);
  bench.allocator.free(block);
  CHECK_THROWS_AS(bench.allocator.free(block), InternalError);
  CHECK_THROWS_AS(bench.allocator.free(BlockId(77)), InternalError);
  CHECK_THROWS_AS(bench.allocator.allocate(Bytes(-1), 0), InternalError);
}

TEST_CASE("the memory fraction has the rounding of a double", "[allocator]") {
  // torch.cuda.set_per_process_memory_fraction(20401094656 / 150118334464), then 0.1 of it.
  const Bytes total(150'118'334'464);
  CHECK(memory_fraction_limit(total, total) == total);
  const double fraction = 20'401'094'656.0 / 150'118'334'464.0;
  CHECK(memory_fraction_limit(Bytes(20'401'094'656), total) ==
        Bytes(static_cast<std::int64_t>(fraction * 150'118'334'464.0)));
}

TEST_CASE("addresses are handed out first fit and join again", "[allocator]") {
  AddressSpace space;
  const Address small = space.take(100_B);
  CHECK(space.take(513_B) == small + 512);
  const Address page = space.take(Bytes(kMiB + 1));
  CHECK(page == small + 2 * kMiB);
  CHECK(space.take(1_MiB) == small + 1536);  // the gap before the page
  const Address next = space.take(3_MiB);
  CHECK(next == page + 2 * kMiB);
  space.give_back(page, Bytes(kMiB + 1));
  space.give_back(next, 3_MiB);
  CHECK(space.take(6_MiB) == page);
}

}  // namespace memest
