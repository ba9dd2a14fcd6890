// A count with its noun.
#pragma once

#include <cstdint>
#include <string>

#include "memest/units/text.hpp"

namespace memest {

/// "1 trace", "1,200 traces".
inline std::string nouns_text(std::int64_t count, const char* noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace memest
