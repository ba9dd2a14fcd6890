// Plays actions one by one: what is on the device, what is on its way, and three clocks, one for
// kernels and one for copies in each direction.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/plan/schedule.hpp"

namespace memest {

/// The state of one micro-step under a schedule.
class Player {
 public:
  explicit Player(const ScheduledStep& step);

  /// Null where the action can be done, and is; else why not.
  const char* apply(Action action);

  [[nodiscard]] const Played& played() const { return played_; }
  [[nodiscard]] bool is_over() const { return next_backward_ == 0; }
  [[nodiscard]] bool on_device(std::uint32_t tensor) const { return states_[tensor].on_device; }
  [[nodiscard]] bool on_host(std::uint32_t tensor) const { return states_[tensor].on_host; }
  /// Bytes of tensors on the device.
  [[nodiscard]] std::int64_t live() const { return live_; }
  /// Bytes that an operation's next pass makes the device hold at its peak.
  [[nodiscard]] std::int64_t height_of_forward(std::uint32_t op) const;
  [[nodiscard]] std::int64_t height_of_backward(std::uint32_t op) const {
    return live_ + step_.step.ops[op].backward.most;
  }
  [[nodiscard]] double now() const { return now_; }
  /// When the copy of a tensor to the host has ended, and when the last one back has.
  [[nodiscard]] double out_by(std::uint32_t tensor) const { return states_[tensor].out_by; }
  [[nodiscard]] double in_by() const { return in_by_; }

 private:
  struct State {
    bool on_device = false;
    bool on_host = false;
    std::uint32_t written = 0;  ///< how many of its makers have run
    double out_by = 0;
    double in_by = 0;
  };

  const char* run_forward(std::uint32_t op);
  const char* run_backward(std::uint32_t op);
  const char* drop(std::uint32_t tensor);
  const char* copy_out(std::uint32_t tensor);
  const char* copy_in(std::uint32_t tensor);
  [[nodiscard]] bool can_read(std::uint32_t tensor, std::uint32_t by) const;
  [[nodiscard]] std::int64_t fresh_bytes(std::uint32_t op) const;
  void wait_until(double seconds);
  void reach(std::int64_t bytes, std::size_t pass);
  /// The backward that is to run next, among all passes.
  [[nodiscard]] std::size_t next_backward_pass() const {
    return 2 * step_.step.ops.size() - next_backward_;
  }

  const ScheduledStep& step_;
  std::vector<State> states_;
  Played played_;
  std::uint32_t next_forward_ = 0;
  std::uint32_t next_backward_;
  std::int64_t live_ = 0;
  std::int64_t host_ = 0;
  double now_ = 0;
  double out_by_ = 0;
  double in_by_ = 0;
};

}  // namespace memest
