#include "emulated_cuda.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

namespace memest::kernels {
namespace {

constexpr std::size_t kStack = 64 * 1024;
constexpr std::size_t kLanes = 32;

enum class State { runs, at_barrier, at_shuffle, done };

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStack]};  // pages come when they are touched
  State state = State::runs;
  int shuffles = 0;
};

/// What the lanes of a warp show each other. Two sets in turn: a lane may be at its next shuffle
/// before another has read this one.
struct Warp {
  std::array<std::array<float, kLanes>, 2> shown{};
};

FiberOrder fiber_order = FiberOrder::first_to_last;

class Block {
 public:
  void run(int threads, const std::function<void()>& thread);
  void wait(State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler_);
  }
  float shuffle(float value, int mask) {
    Fiber& fiber = fibers_[current_];
    const std::size_t lane = current_ % kLanes;
    auto& shown = warps_[current_ / kLanes].shown[static_cast<std::size_t>(fiber.shuffles++ % 2)];
    shown[lane] = value;
    wait(State::at_shuffle);
    return shown[lane ^ static_cast<std::size_t>(mask)];
  }

 private:
  static void enter();
  void start(std::size_t index);
  void resume(std::size_t index);
  void run_warp(std::size_t first);
  bool release(State state, std::size_t first, std::size_t count);
  [[nodiscard]] bool all(State state, std::size_t first, std::size_t count) const {
    return std::all_of(fibers_.begin() + static_cast<std::ptrdiff_t>(first),
                       fibers_.begin() + static_cast<std::ptrdiff_t>(first + count),
                       [&](const Fiber& fiber) { return fiber.state == state; });
  }

  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  ucontext_t scheduler_{};
  std::size_t threads_ = 0;
  std::size_t current_ = 0;
  const std::function<void()>* thread_ = nullptr;
};

Block& block() {
  static Block only;
  return only;
}

void Block::enter() {
  (*block().thread_)();
  block().wait(State::done);
}

void Block::start(std::size_t index) {
  Fiber& fiber = fibers_[index];
  fiber.state = State::runs;
  fiber.shuffles = 0;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  makecontext(&fiber.context, &Block::enter, 0);
}

void Block::resume(std::size_t index) {
  current_ = index;
  threadIdx = {.x = static_cast<unsigned>(index) % blockDim.x,
               .y = static_cast<unsigned>(index) / blockDim.x};
  swapcontext(&scheduler_, &fibers_[index].context);
}

/// Runs a warp as far as it comes without the others: one that hurries shows a barrier that is
/// missing.
void Block::run_warp(std::size_t first) {
  do {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::size_t lane = fiber_order == FiberOrder::first_to_last ? i : kLanes - 1 - i;
      if (fibers_[first + lane].state == State::runs) resume(first + lane);
    }
  } while (release(State::at_shuffle, first, kLanes));
}

/// Lets threads go on that all wait at the same. False where they do not.
bool Block::release(State state, std::size_t first, std::size_t count) {
  if (!all(state, first, count)) return false;
  for (std::size_t i = first; i < first + count; ++i) fibers_[i].state = State::runs;
  return true;
}

void Block::run(int threads, const std::function<void()>& thread) {
  threads_ = static_cast<std::size_t>(threads);
  thread_ = &thread;
  if (threads_ % kLanes != 0) throw std::logic_error("a block is a whole number of warps here");
  if (fibers_.size() < threads_) fibers_.resize(threads_);
  warps_.resize(std::max(warps_.size(), threads_ / kLanes));
  for (std::size_t i = 0; i < threads_; ++i) start(i);
  do {
    for (std::size_t i = 0; i < threads_; i += kLanes) {
      run_warp(fiber_order == FiberOrder::first_to_last ? i : threads_ - kLanes - i);
    }
  } while (release(State::at_barrier, 0, threads_));
  if (!all(State::done, 0, threads_)) {
    throw std::logic_error("some threads of a block wait where others never come");
  }
}

}  // namespace

void set_fiber_order(FiberOrder order) { fiber_order = order; }

void run_emulated(const Grid& grid, const std::function<void()>& thread) {
  gridDim = {.x = static_cast<unsigned>(grid.blocks), .y = 1};
  blockDim = {.x = static_cast<unsigned>(grid.x), .y = static_cast<unsigned>(grid.y)};
  for (std::int64_t index = 0; index < grid.blocks; ++index) {
    blockIdx = {.x = static_cast<unsigned>(index), .y = 0};
    block().run(grid.x * grid.y, thread);
  }
}

void check_launch() {}

}  // namespace memest::kernels

void __syncthreads() { memest::kernels::block().wait(memest::kernels::State::at_barrier); }

float __shfl_xor_sync(unsigned, float value, int mask) {
  return memest::kernels::block().shuffle(value, mask);
}
