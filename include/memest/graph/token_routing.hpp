// To how many ranks a token goes whose experts lie on several.
#pragma once

#include <cstdint>

namespace memest {

/// How experts are chosen for a token.
struct TokenRouting {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t groups = 1;       ///< of experts that lie together (node-limited routing)
  std::int64_t groups_kept = 1;  ///< of these a token's experts are

  friend bool operator==(const TokenRouting&, const TokenRouting&) = default;
};

/// The mean number of `ranks` that a token goes to, where each has an equal part of the experts and
/// every choice of experts is as likely as another: 8 of 256 experts lie on 5.27 of 8 ranks.
/// `ranks` divides the experts.
double ranks_reached(const TokenRouting& routing, std::int64_t ranks);

}  // namespace memest
