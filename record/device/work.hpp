// What the program asks the device to do, in order, while it is watched: kernels, products, copies,
// messages between ranks, and what waits for what. docs/commands/record.md has the lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "abi/calls.hpp"
#include "abi/cudart.hpp"

namespace memest::record {

/// C[m, n] = op(A)[m, k] · op(B)[k, n], `batch` times, as cuBLAS counts: by columns. Types are
/// cudaDataType_t.
struct Product {
  int operand = 0;
  int result = 0;
  bool transposes_a = false;
  bool transposes_b = false;
  bool accumulates = false;   ///< beta is not 0: C is read too
  bool tensor_float = false;  ///< fp32 operands may be rounded to TF32
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
};

/// Told once that the log is full, and takes no more: the Python hook then stops too.
using FullListener = void (*)();

/// Thread-safe. Costs a load where nobody watches.
class WorkLog {
 public:
  /// Forgets what was written, and writes what comes or no longer does.
  void watch(bool on);
  /// Without the lock, which another thread may have held when this process was forked.
  void leave_to_parent() { watches_.store(false); }
  [[nodiscard]] bool watches() const { return watches_.load(std::memory_order_relaxed); }

  void kernel(const char* name, Dim3 grid, Dim3 block, Handle stream);
  /// A call of a library, known by its function's name alone.
  void library(const char* function, Handle stream);
  void product(const Product& product, Handle stream);
  void message(const char* operation, std::size_t bytes, int ranks, Handle stream);
  void copy(const char* path, std::size_t bytes, Handle stream);
  void event(Handle event, Handle stream);
  void wait(Handle event, Handle stream);
  /// The host waits for the stream's work, for an event, or for all.
  void host_waits_for_stream(Handle stream);
  void host_waits_for_event(Handle event);
  void host_waits();
  /// A moment of the program: "step2.forward".
  void mark(const char* name);

  void listen_to_full(FullListener listener) { full_listener_ = listener; }

  /// Writes the lines into a file, and whether it could.
  bool write(const char* path);

 private:
  template <class... Values>
  void line(const char* format, Values... values);
  unsigned stream_number(Handle stream);
  unsigned event_number(Handle event);
  /// Says which module the thread now works for, where that has changed.
  void tell_module();

  void stop_if_full();

  std::atomic<bool> watches_{false};
  std::atomic<FullListener> full_listener_{nullptr};
  std::mutex mutex_;
  std::string text_;
  std::atomic<std::size_t> size_{0};  ///< of the text
  std::unordered_map<Handle, unsigned> streams_;
  std::unordered_map<Handle, unsigned> events_;
  std::unordered_map<const void*, unsigned> names_;
  std::unordered_map<unsigned, std::uint32_t> modules_;  ///< by thread, as told last
};

/// Never destroyed, as memory().
WorkLog& work();

}  // namespace memest::record
