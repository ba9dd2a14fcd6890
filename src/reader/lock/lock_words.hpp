// The keys of a lock file, as they are written and read.
#pragma once

#include <string_view>

namespace memest {

inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::string_view kToleranceKey = "tolerance";
inline constexpr std::string_view kSpecsKey = "specs";

inline constexpr std::string_view kRestsOnKey = "rests_on";
inline constexpr std::string_view kKeysKey = "keys";
inline constexpr std::string_view kFiguresKey = "figures";
inline constexpr std::string_view kTermsKey = "terms";

}  // namespace memest
