// Independent tasks over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <vector>

namespace memest {

/// `run(i)` for every i below `count`, begun in order, on `threads` threads. An exception ends the
/// thread that met it and is thrown on when all are done.
template <class Run>
void in_parallel(std::size_t count, std::size_t threads, const Run& run) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) run(i);
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < std::min(threads, count); ++i) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) other.get();
}

}  // namespace memest
