// Our own mistakes: an expectation that no input can break. Its failure is a bug in memest, exit
// code 70.
#pragma once

#include <source_location>
#include <stdexcept>

namespace memest {

/// A broken expectation: a bug, never a user's mistake.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws InternalError with `sentence` and the place, unless `condition` holds.
inline void expect(bool condition, const char* sentence,
                   std::source_location place = std::source_location::current());

/// Throws InternalError: a point that control never reaches.
[[noreturn]] void unreachable(const char* sentence,
                              std::source_location place = std::source_location::current());

inline void expect(bool condition, const char* sentence, std::source_location place) {
  if (!condition) [[unlikely]]
    unreachable(sentence, place);
}

}  // namespace memest
