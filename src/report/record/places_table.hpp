// The places of a program that hold memory, in words and as a table.
#pragma once

#include <string>
#include <vector>

#include "memest/memory/recorded_use.hpp"
#include "memest/report/page.hpp"

namespace memest {

/// A place in words: autograd asks in a thread in which no Python runs.
std::string asking_text(const std::string& place);

/// The first dozen, and the sum of the others.
Table places_table(const std::vector<PlaceUse>& places);

}  // namespace memest
