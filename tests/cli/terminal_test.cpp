// The program on a terminal: as wide as the terminal is, coloured, the answer first.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/display.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

/// What `command`, run by /bin/sh in the repository's root, writes to both streams on a terminal
/// of so many columns.
std::string screen_of(const std::string& command, unsigned short columns) {
  winsize size{};
  size.ws_col = columns;
  size.ws_row = 50;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string whole =
        "cd '" MEMEST_SOURCE_DIR "' && memest() { '" MEMEST_BINARY
        "' \"$@\"; } && export LC_ALL=C.UTF-8 TERM=xterm && unset NO_COLOR; " +
        command;
    execl("/bin/sh", "sh", "-c", whole.c_str(), nullptr);
    _exit(127);
  }
  std::string screen;
  std::array<char, 4096> piece{};
  // Linux answers EIO when the last writer has closed the terminal.
  for (ssize_t read = 0; (read = ::read(terminal, piece.data(), piece.size())) > 0;) {
    screen.append(piece.data(), static_cast<std::size_t>(read));
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  return screen;
}

/// The lines that stand on the screen, without colours.
std::vector<std::string> lines_on(std::string_view screen) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < screen.size(); ++i) {
    if (screen[i] == '\x1b') {
      while (i < screen.size() && screen[i] != 'm' && screen[i] != 'K') ++i;
    } else if (screen[i] == '\n') {
      lines.emplace_back();
    } else if (screen[i] == '\r') {  // a line of progress is written over; "\r\n" ends a line
      if (!screen.substr(i).starts_with("\r\n") && !lines.back().empty()) lines.emplace_back();
    } else {
      lines.back() += screen[i];
    }
  }
  return lines;
}

/// A word of a command that is pasted is never broken.
bool is_of_a_command(const std::string& line) {
  return line.starts_with("memest ") || line.starts_with("    --") || line.starts_with("  memest ");
}

}  // namespace

TEST_CASE("no line is wider than the terminal, of any command") {
  const auto columns = GENERATE(static_cast<unsigned short>(60), static_cast<unsigned short>(80));
  const std::string command = GENERATE(
      as<std::string>(), "estimate llama-3-8b --gpu h100 --gpus 8 --set parallelism.zero=3",
      "estimate llama-3-8b --gpu rtx-4090 -v", "plan llama-3-8b --gpu h100,a100 --gpus 8",
      "plan llama-3-8b --gpu h100 --gpus 8 --tokens 30B --explain-choice",
      "plan gpt2 --gpu h100 --largest sequence", "check gpt2 --gpu t4", "timeline gpt2 --gpu h100",
      "explain gpt2 --gpu h100", "roofline gpt2 --gpu h100", "gpus", "gpus h100", "models",
      "recipes", "optimizers", "--help", "plan --help", "estimate --help", "calibrate --help",
      "estimate configs/models/gpt2.yaml --set training.precison=bf16");
  INFO(command << " at " << columns);
  for (const std::string& line : lines_on(screen_of("memest " + command, columns))) {
    INFO(line);
    if (!is_of_a_command(line)) CHECK(display_width(line) <= columns);
  }
}

TEST_CASE("the verdict, the peak, the step and the price stand in the first ten lines") {
  const auto columns = GENERATE(static_cast<unsigned short>(60), static_cast<unsigned short>(80),
                                static_cast<unsigned short>(120));
  const auto lines = lines_on(screen_of(
      "memest estimate llama-3-8b --gpu h200 --gpus 8 --set parallelism.zero=3", columns));
  std::string first;
  for (std::size_t i = 0; i < 10; ++i) first += lines.at(i) + '\n';
  CHECK_THAT(first, ContainsSubstring("Fits: "));
  CHECK_THAT(first, ContainsSubstring("peak "));
  CHECK_THAT(first, ContainsSubstring("A step takes "));
  CHECK_THAT(first, ContainsSubstring(" USD"));
}

TEST_CASE("a terminal shows colours, but where NO_COLOR is set or it is dumb") {
  const std::string ask = "memest estimate gpt2 --gpu h100";
  CHECK_THAT(screen_of(ask, 80), ContainsSubstring("\x1b["));
  CHECK_THAT(screen_of("NO_COLOR=1 " + ask, 80), !ContainsSubstring("\x1b["));
  CHECK_THAT(screen_of("TERM=dumb " + ask, 80), !ContainsSubstring("\x1b["));
}

TEST_CASE("a formula that is cut is written out by -v") {
  const auto joined = [](const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
  };
  const std::string ask = "memest estimate llama-3-8b --gpu h100 ";
  const std::string cut = joined(lines_on(screen_of(ask, 90)));
  CHECK_THAT(cut, ContainsSubstring("b·s·L·(16·h"));
  CHECK_THAT(cut, ContainsSubstring("… is cut: -v writes it out."));
  CHECK_THAT(cut, !ContainsSubstring("16·L"));
  const std::string whole = joined(lines_on(screen_of(ask + "-v", 90)));
  CHECK_THAT(whole, ContainsSubstring("16·L"));
  CHECK_THAT(whole, !ContainsSubstring("…"));
}

TEST_CASE("what a search says of its progress does not stay, and is never in the answer") {
  const std::string search = "memest plan llama-3-8b --gpu h100,a100,l40s --gpus 8,64 --threads 1";
  // Short searches say nothing; a line that is written over ends in spaces.
  const std::string progress = screen_of(search + " > /dev/null", 80);
  CHECK((progress.empty() || progress.ends_with(std::string(79, ' ') + '\r')));
  CHECK_THAT(screen_of(search + " 2> /dev/null", 80), !ContainsSubstring("layouts tried"));
  CHECK(run_shell(search).err.empty());
}

}  // namespace memest
