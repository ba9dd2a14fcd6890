// Keys that two specs write differently, and defaults that differ for it.
#pragma once

#include <string>
#include <vector>

#include "memest/report/diff_report.hpp"

namespace memest {

/// One side of a key that differs.
struct KeySide {
  std::string value;  ///< empty: left out, and nothing stands in its place
  std::string place;  ///< "default" where the spec leaves it out
};

struct DifferingKey {
  std::string key;
  KeySide a;
  KeySide b;

  /// Neither spec writes it.
  [[nodiscard]] bool is_default() const;
};

/// In the order of A's text, what B alone writes behind it; then defaults.
std::vector<DifferingKey> changed_keys(const ComparedSpec& a, const ComparedSpec& b);

/// The keys whose value a job has whether its spec writes them or not, as a spec would write them.
std::vector<PlacedKey> resolved_keys(const Job& job);

}  // namespace memest
