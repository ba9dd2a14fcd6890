#include "cli/machine/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace memest {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// POSIX: the first of these that is set and not empty names the character set.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (value.empty()) continue;
    for (const std::string_view spelling : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (value.find(spelling) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

/// https://no-color.org: set and not empty.
bool wants_color(StandardStream stream, ColorWhen when) {
  switch (when) {
    case ColorWhen::always:
      return true;
    case ColorWhen::never:
      return false;
    case ColorWhen::automatic:
      break;
  }
  return environment("NO_COLOR").empty() && environment("TERM") != "dumb" && is_terminal(stream);
}

constexpr std::size_t kLeastColumns = 60;
constexpr std::size_t kWidestPage = 160;  // longer lines are hard to follow

/// 0 where nothing says: no terminal, and no COLUMNS in the environment.
std::size_t columns_at(StandardStream stream) {
  winsize size{};
  const int descriptor = stream == StandardStream::out ? STDOUT_FILENO : STDERR_FILENO;
  // A terminal that does not know its size, as that of a serial line, says 0.
  if (is_terminal(stream) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const std::string_view value = environment("COLUMNS");
  std::size_t columns = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), columns);
  return status == std::errc() && end == value.data() + value.size() ? columns : 0;
}

}  // namespace

bool is_terminal(StandardStream stream) {
  return isatty(stream == StandardStream::out ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

RenderOptions render_options_of(StandardStream stream, ColorWhen when) {
  RenderOptions options;
  options.color = wants_color(stream, when);
  options.unicode = locale_is_utf8();
  if (const std::size_t columns = columns_at(stream)) {
    options.columns = std::clamp(columns, kLeastColumns, kWidestPage);
  }
  return options;
}

}  // namespace memest
