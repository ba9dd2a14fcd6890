// Streams: their priorities, which of them captures a graph, and which one a library works in.
#pragma once

#include <mutex>
#include <unordered_map>

#include "abi/calls.hpp"

namespace memest::record {

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

/// Thread-safe. All work is done when it is asked for.
class Streams {
 public:
  Handle create(int priority);
  void destroy(Handle stream);
  [[nodiscard]] int priority(Handle stream);

  /// The stream that a library's handle works in, once it was set.
  void set_library(Handle library, Handle stream);
  [[nodiscard]] Handle of_library(Handle library);

  /// PyTorch only has to see that a stream captures: it then allocates from the graph's pool.
  void begin_capture(Handle stream);
  void end_capture(Handle stream);
  /// The number of the capture under way; 0: none.
  [[nodiscard]] unsigned long long capture(Handle stream);

 private:
  struct Stream {
    int priority = 0;
    unsigned long long capture = 0;
  };

  std::mutex mutex_;
  std::unordered_map<Handle, Stream> streams_;
  std::unordered_map<Handle, Handle> libraries_;
  unsigned long long next_capture_ = 1;
};

/// Never destroyed, as memory().
Streams& streams();

}  // namespace memest::record
