#include "memest/report/color.hpp"

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// Select Graphic Rendition (ECMA-48, section 8.3.117).
std::string_view sequence_of(Paint paint) {
  switch (paint) {
    case Paint::bold:
      return "\x1b[1m";
    case Paint::dim:
      return "\x1b[2m";
    case Paint::red:
      return "\x1b[1;31m";
    case Paint::green:
      return "\x1b[1;32m";
    case Paint::yellow:
      return "\x1b[1;33m";
    case Paint::cyan:
      return "\x1b[1;36m";
  }
  unreachable("a paint beyond the enum");
}

}  // namespace

std::string painted(std::string_view text, Paint paint, const RenderOptions& options) {
  if (!options.color || text.empty()) return std::string(text);
  return std::string(sequence_of(paint)) + std::string(text) + "\x1b[0m";
}

}  // namespace memest
