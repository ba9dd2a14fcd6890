// Which of a spec's changes moved its figures.
#pragma once

#include <cstddef>

#include "memest/report/check_report.hpp"

namespace memest {

/// Estimates every file that moved, and whose keys changed in several places, with each change
/// undone by itself, and puts the key first without which most of the headline's difference is
/// gone. A change that cannot be undone alone keeps its place behind those that can.
void weigh_changes(CheckedSpecs& specs, std::size_t threads);

}  // namespace memest
