// The emulation itself: what CUDA promises about blocks, barriers and shuffles.
#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <vector>

#include "emulation/emulated_cuda.hpp"

using namespace memest::kernels;

TEST_CASE("every thread of every block runs once, and knows its place") {
  std::vector<int> runs(3 * 64);
  run_emulated({.blocks = 3, .x = 32, .y = 2}, [&] {
    CHECK(gridDim.x == 3);
    CHECK(blockDim.x == 32);
    CHECK(blockDim.y == 2);
    ++runs[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x];
  });
  CHECK(runs == std::vector<int>(3 * 64, 1));
}

TEST_CASE("a barrier shows all stores before it, in either order of threads") {
  for (const FiberOrder order : {FiberOrder::first_to_last, FiberOrder::last_to_first}) {
    set_fiber_order(order);
    std::vector<unsigned> shared(64);
    std::vector<unsigned> seen(64);
    run_emulated({.x = 64}, [&] {
      for (unsigned round = 1; round < 4; ++round) {
        shared[threadIdx.x] = round * 100 + threadIdx.x;
        __syncthreads();
        seen[threadIdx.x] += shared[63 - threadIdx.x];
        __syncthreads();
      }
    });
    for (unsigned i = 0; i < 64; ++i) CHECK(seen[i] == 600 + 3 * (63 - i));
  }
}

TEST_CASE("without its barrier, one of the two orders sees old stores") {
  int wrong = 0;
  for (const FiberOrder order : {FiberOrder::first_to_last, FiberOrder::last_to_first}) {
    set_fiber_order(order);
    std::vector<int> shared(32);
    std::vector<int> seen(32);
    run_emulated({.x = 32}, [&] {
      shared[threadIdx.x] = 1;
      seen[threadIdx.x] = shared[0];
    });
    wrong += seen == std::vector<int>(32, 1) ? 0 : 1;
  }
  CHECK(wrong == 1);
}

TEST_CASE("a shuffle exchanges the lanes of a warp and no others") {
  for (const FiberOrder order : {FiberOrder::first_to_last, FiberOrder::last_to_first}) {
    set_fiber_order(order);
    std::vector<float> first(64);
    std::vector<float> second(64);
    run_emulated({.x = 64}, [&] {
      const float mine = static_cast<float>(threadIdx.x);
      first[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, mine, 16);
      second[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, first[threadIdx.x], 1);
    });
    for (unsigned i = 0; i < 64; ++i) {
      CHECK(first[i] == static_cast<float>(i ^ 16U));
      CHECK(second[i] == static_cast<float>(i ^ 17U));
    }
  }
}

TEST_CASE("threads that wait where others never come are a mistake, not a wait for ever") {
  CHECK_THROWS_AS(run_emulated({.x = 32},
                               [] {
                                 if (threadIdx.x > 0) __syncthreads();
                               }),
                  std::logic_error);
  CHECK_THROWS_AS(run_emulated({.x = 32},
                               [] {
                                 if (threadIdx.x % 2 == 0) __shfl_xor_sync(0xFFFFFFFF, 1, 1);
                               }),
                  std::logic_error);
}
