// The course of a recorded step: when the host has asked for each piece of work, and when its
// stream has done it.
#pragma once

#include <vector>

#include "memest/spec/recorded/recorded_work.hpp"

namespace memest {

/// Seconds of each item, by index.
struct ItemSeconds {
  std::vector<double> host;    ///< to ask for it
  std::vector<double> device;  ///< to do it
};

/// Seconds of a step among others like it. A stream does its work in order, behind the host's
/// asking and the events that it waits for; the host goes on, but where it waits itself.
double period_of(const RecordedWork& work, const ItemSeconds& seconds);

}  // namespace memest
