// The page with a library of charts that is given, or none.
#pragma once

#include <string>
#include <string_view>

#include "memest/report/html.hpp"

namespace memest {

/// As html_of; `library` is the text of echarts.min.js, empty: drawings are still ones.
std::string html_with(const Report& report, const PageOrigin& origin, std::string_view library);

}  // namespace memest
