// How finely a residual is known.
#pragma once

namespace memest {

/// Two significant digits, or a hundredth of a percent, outwards; a negative share is none.
double rounded_up(double share);

}  // namespace memest
