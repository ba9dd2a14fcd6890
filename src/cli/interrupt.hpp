// Ctrl-C during long work: the step under way is finished, then the work stops.
#pragma once

namespace memest {

/// From its construction on the first SIGINT or SIGTERM is remembered; a second one ends the
/// program. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  [[nodiscard]] static bool interrupted();
};

}  // namespace memest
