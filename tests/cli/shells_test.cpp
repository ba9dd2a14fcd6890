// Completions as the shells run them, and the manual pages as their formatters read them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "shell.hpp"

namespace memest {
namespace {

bool has_program(const std::string& name) {
  return run_shell("command -v " + name + " >/dev/null").code == 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> result;
  for (std::string line; std::getline(lines, line);) result.push_back(line);
  return result;
}

/// A command line up to the cursor, and the words that complete its last one.
struct Completed {
  const char* words;  ///< with blanks between; the last may be empty: ''
  std::vector<std::string> expected;
};

const std::vector<Completed>& completed() {
  static const std::vector<Completed> rows = {
      {"sched", {"schedule"}},
      {"sch", {"schedule", "schema"}},
      {"plan --obj", {"--objective"}},
      {"plan gpt2 --objective ''", {"gpus", "memory", "money", "time"}},
      {"plan gpt2 --largest s", {"sequence"}},
      {"estimate gpt2 --tok", {}},
      {"estimate gpt2 --format ''", {"csv", "html", "json", "markdown", "text"}},
      {"estimate gpt2 --color a", {"always", "auto"}},
      {"estimate gpt2 --gpu h100-s", {"h100-sxm-80gb"}},
      {"plan gpt2 --gpu t4,h100-s", {"t4,h100-sxm-80gb"}},
      {"plan gpt2 --set training.micro_b", {"training.micro_batch="}},
      {"plan gpt2 --free parallelism.z", {"parallelism.zero"}},
      {"estimate mixtral-8x2", {"mixtral-8x22b"}},
      {"estimate configs/gpus/t", {"configs/gpus/t4.yaml"}},
      {"calibrate --device ''", {"gpu", "host"}},
      {"gpus h100-s", {"h100-sxm-80gb"}},
      {"completions ''", {"bash", "fish", "zsh"}},
      {"man sched", {"schedule"}},
      {"schema estim", {"estimate"}},
  };
  return rows;
}

TEST_CASE("bash completes commands, flags and what they take") {
  if (!has_program("bash")) SKIP("this test needs bash");
  for (const Completed& row : completed()) {
    const Ran ran = run_shell(
        "memest completions bash > /tmp/memest-bash-$$ && bash -c '"
        "source /tmp/memest-bash-'$$'; COMP_WORDS=(memest \"$@\"); COMP_CWORD=$#; _memest; "
        "[ ${#COMPREPLY[@]} = 0 ] || printf \"%s\\n\" \"${COMPREPLY[@]}\"' bash " +
        std::string(row.words) + " | sort; rm /tmp/memest-bash-$$");
    INFO("memest " << row.words << "\n" << ran.err);
    CHECK(lines_of(ran.out) == row.expected);
  }
}

TEST_CASE("bash splits --flag=value in three words, and is completed all the same") {
  if (!has_program("bash")) SKIP("this test needs bash");
  const Ran ran = run_shell(
      "memest completions bash | bash -c 'source /dev/stdin; "
      "COMP_WORDS=(memest plan gpt2 --largest = mo); COMP_CWORD=5; _memest; echo ${COMPREPLY[@]}; "
      "COMP_WORDS=(memest explain --set a = 1 gpt2 --gpu = t4 mem); COMP_CWORD=10; _memest; "
      "echo ${#COMPREPLY[@]}; complete -p memest'");
  CHECK(ran.err.empty());
  CHECK(ran.out == "model\n0\ncomplete -F _memest memest\n");
}

TEST_CASE("every command that fish completes is completed as bash does") {
  if (!has_program("fish")) SKIP("this test needs fish");
  for (const Completed& row : completed()) {
    std::string line = row.words;
    if (line.ends_with("''")) line.resize(line.size() - 2);
    const Ran ran =
        run_shell("memest completions fish | fish -N -c 'source -; complete -C \"memest " + line +
                  "\" | string split -f 1 \\t | sort -u'");
    INFO("memest " << row.words << "\n" << ran.err);
    const std::vector<std::string> words = lines_of(ran.out);
    for (const std::string& word : row.expected) {
      CHECK(std::ranges::find(words, word) != words.end());
    }
    if (row.expected.empty()) CHECK(words.empty());
  }
}

/// zsh names a file without its folder.
bool is_offered(const std::string& word, const std::vector<std::string>& offered) {
  return std::ranges::any_of(offered, [&word](const std::string& one) {
    return one == word || (word.find('/') != std::string::npos && word.ends_with('/' + one));
  });
}

TEST_CASE("zsh offers, in a terminal, what bash completes") {
  if (!has_program("zsh")) SKIP("this test needs zsh");
  for (const Completed& row : completed()) {
    std::string line = row.words;
    if (line.ends_with("''")) line.resize(line.size() - 2);
    const Ran ran = run_shell(
        "d=$(mktemp -d) && memest completions zsh > $d/_memest && "
        "timeout 100 zsh -f tests/cli/complete.zsh $d/_memest $d/out 'memest " +
        line + "' >/dev/null && sort -u $d/out; rm -r $d");
    INFO("memest " << row.words << "\n" << ran.out << ran.err);
    const std::vector<std::string> offered = lines_of(ran.out);
    CHECK(offered.size() == row.expected.size());
    for (const std::string& word : row.expected) CHECK(is_offered(word, offered));
  }
}

TEST_CASE("each shell reads its own script without a word") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    if (!has_program(shell)) continue;
    const Ran ran =
        run_shell(std::string("memest completions ") + shell + " > /tmp/memest-shell-$$; " + shell +
                  " -n /tmp/memest-shell-$$; rm /tmp/memest-shell-$$");
    INFO(shell);
    CHECK(ran.out.empty());
    CHECK(ran.err.empty());
  }
}

TEST_CASE("a manual page says what the help page does, and no formatter warns") {
  const Ran help = run_shell("memest --help --format json");
  for (const std::string& name : command_names()) {
    const Ran page = run_shell("memest man " + name);
    INFO(name);
    CHECK(page.code == 0);
    CHECK(page.out.starts_with(".TH "));
    CHECK(help.out.find("\"name\": \"" + name + "\"") != std::string::npos);
    // No release has a date yet: the pages carry none.
    if (has_program("mandoc")) {
      CHECK(run_shell("memest man " + name + " | mandoc -Tlint -W warning | grep -v 'missing date'")
                .out.empty());
    }
    if (has_program("groff")) {
      CHECK(run_shell("memest man " + name + " | groff -man -ww -Tutf8 -z").err.empty());
    }
  }
}

}  // namespace
}  // namespace memest
