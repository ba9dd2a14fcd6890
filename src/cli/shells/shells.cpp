#include "cli/shells/shells.hpp"

#include <algorithm>
#include <array>

namespace memest {
namespace {

struct Shell {
  std::string_view name;
  std::string (*completions)();
};

constexpr std::array<Shell, 3> kShells = {
    {{"bash", bash_completions}, {"zsh", zsh_completions}, {"fish", fish_completions}}};

}  // namespace

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) names.emplace_back(shell.name);
  return names;
}

std::string completions_for(std::string_view shell) {
  const auto* const row = std::ranges::find(kShells, shell, &Shell::name);
  return row == kShells.end() ? std::string() : row->completions();
}

}  // namespace memest
