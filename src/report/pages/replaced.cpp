#include "report/pages/replaced.hpp"

#include <array>

#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr auto kXmlSigns = std::to_array<Replacement>(
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\n', " "}});

}  // namespace

std::string replaced(std::string_view text, std::span<const Replacement> replacements) {
  std::string result;
  for (const char sign : text) {
    std::string_view shown(&sign, 1);
    for (const Replacement& row : replacements) {
      if (row.sign == sign) shown = row.text;
    }
    result += shown;
  }
  return result;
}

std::string xml(std::string_view text) { return replaced(printable(text, {}), kXmlSigns); }

}  // namespace memest
