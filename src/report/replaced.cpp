#include "replaced.hpp"

#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr Replacement kXmlSigns[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\n', " "}};

}  // namespace

std::string xml(std::string_view text) { return replaced(printable(text, {}), kXmlSigns); }

}  // namespace memest
