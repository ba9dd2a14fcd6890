#include "time/recorded/step_clock.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace memest {
namespace {

/// Seconds since the first step began.
class StepClock {
 public:
  void run(const RecordedWork& work, const ItemSeconds& seconds) {
    for (std::size_t i = 0; i < work.items.size(); ++i) {
      const WorkItem& item = work.items[i];
      if (const auto* event = std::get_if<EventRecorded>(&item.what)) {
        events_[event->event] = streams_[item.stream];
      } else if (const auto* awaited = std::get_if<EventAwaited>(&item.what)) {
        double& stream = streams_[item.stream];
        stream = std::max(stream, events_[awaited->event]);
      } else if (const auto* wait = std::get_if<HostWait>(&item.what)) {
        host_ = std::max(host_, reached(*wait));
      } else if (!std::holds_alternative<WorkMark>(item.what)) {
        host_ += seconds.host[i];
        double& stream = streams_[item.stream];
        stream = std::max(stream, host_) + seconds.device[i];
      }
    }
  }

  /// When host and device are done.
  [[nodiscard]] double end() const {
    double end = host_;
    for (const auto& [number, stream] : streams_) end = std::max(end, stream);
    return end;
  }

 private:
  double reached(const HostWait& wait) {
    switch (wait.target) {
      case HostWait::For::event:
        return events_[wait.number];
      case HostWait::For::stream:
        return streams_[wait.number];
      case HostWait::For::device:
        return end();
    }
    return host_;  // no other value is made
  }

  double host_ = 0;
  std::unordered_map<std::size_t, double> streams_;
  std::unordered_map<std::size_t, double> events_;
};

}  // namespace

double period_of(const RecordedWork& work, const ItemSeconds& seconds) {
  // The first step begins with nothing to wait for; the second finds what the first has left.
  StepClock clock;
  clock.run(work, seconds);
  const double first = clock.end();
  clock.run(work, seconds);
  return clock.end() - first;
}

}  // namespace memest
