#include "memest/units/int128.hpp"

#include <algorithm>

namespace memest {

void fail_overflow(const char* sentence) { throw OverflowError(sentence); }

std::string to_string(Int128 value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string digits;
  // The magnitude of the least value has no positive counterpart: take digits from the negative
  // side.
  for (Int128 rest = negative ? value : -value; rest != 0; rest /= 10) {
    digits.push_back(static_cast<char>('0' - static_cast<int>(rest % 10)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace memest
