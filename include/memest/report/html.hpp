// The answer as a page for a browser: one file that asks the network for nothing, with the answer's
// text and tables, its charts, and the spec that it answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/report/report.hpp"

namespace memest {

/// A spec as it was read.
struct GivenText {
  std::string name;
  std::string text;
};

/// Where the page comes from.
struct PageOrigin {
  std::string command;  ///< that makes it again: "memest estimate gpt2"; may be empty
  std::string version;  ///< of memest
  std::vector<GivenText> specs = {};
};

/// The report as HTML. Charts are drawn by the library that was built in; without one the page has
/// its marks as SVG, and says so.
std::string html_of(const Report& report, const PageOrigin& origin);

}  // namespace memest
