#include "report/validation/error_text.hpp"

#include <cmath>

#include "memest/report/numbers.hpp"

namespace memest {

std::string distance_text(double share) {
  if (share == 0) return "0";
  if (!std::isfinite(share)) return "infinite";
  if (std::abs(share) < 0.00001) return "< 0.001 %";
  return significant_text(100 * share, std::abs(share) < 0.01 ? 2 : 3) + " %";
}

std::string error_text(double error) { return (error > 0 ? "+" : "") + distance_text(error); }

}  // namespace memest
