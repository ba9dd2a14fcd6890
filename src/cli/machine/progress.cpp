#include "cli/machine/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/machine/terminal.hpp"
#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr std::size_t kProgressColumns = 79;

std::string minutes(Seconds time) {
  const auto seconds = static_cast<long>(std::ceil(time.value()));
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

}  // namespace

ProgressLine::ProgressLine(const RenderOptions& options, bool quiet)
    : options_(options),
      // A full line may wrap, and a carriage return would then go back to its second half alone.
      columns_(std::min(kProgressColumns, options.columns - 1)),
      shows_(!quiet && is_terminal(StandardStream::err)) {}

ProgressLine::~ProgressLine() {
  if (shows_) std::fputs(fmt::format("\r{:{}}\r", "", columns_).c_str(), stderr);
}

void ProgressLine::show(std::size_t done, std::size_t of, const std::string& what, Seconds left) {
  if (shows_) print(fmt::format("{} of {}  {}  {} left", done, of, what, minutes(left)));
}

void ProgressLine::show(std::size_t done, const std::string& what) {
  if (shows_) print(fmt::format("{}  {}", done, what));
}

void ProgressLine::print(const std::string& text) const {
  const std::string shown = options_.unicode ? text : to_ascii(text);
  const std::string line = lines_of(shown, {columns_, 0, false}).front();
  std::fputs(("\r" + padded_right(line, columns_)).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace memest
