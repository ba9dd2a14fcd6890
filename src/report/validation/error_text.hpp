// How far a prediction is from what was measured, in words.
#pragma once

#include <string>

namespace memest {

/// A distance in percent, fine enough to tell a tenth of a per mille from nothing.
std::string distance_text(double share);

/// A distance with its sign.
std::string error_text(double error);

}  // namespace memest
