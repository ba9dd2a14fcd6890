// The first things that people try: the starter spec, the examples of the help pages, the presets.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

std::string example_of(const std::string& command) {
  const std::string page = run_shell("memest " + command + " --help").out;
  const std::string lead = "\nExample:\n  ";
  const std::size_t begin = page.find(lead);
  REQUIRE(begin != std::string::npos);
  return page.substr(begin + lead.size(),
                     page.find('\n', begin + lead.size()) - begin - lead.size());
}

std::string verdict_of(const std::string& command) {
  const Ran ran = run_shell(command + " --format json");
  INFO(command << "\n" << ran.err);
  REQUIRE((ran.code == 0 || ran.code == 1 || ran.code == 4));
  const Json answer = Json::parse(ran.out);
  const Json& memory = answer["memory"];
  return memory.is_object() && memory["verdict"].is_string() ? memory["verdict"] : "";
}

/// Of the page of an estimate.
bool says_fits(const std::string& page) { return page.find("\nFits: ") != std::string::npos; }

/// Of a page, the command that it says trains.
std::string fitting_command(const std::string& page) {
  const std::string lead = "This trains:\n";
  const std::size_t begin = page.find(lead);
  if (begin == std::string::npos) return {};
  const std::size_t end = page.find("\n\n", begin);
  std::string command = page.substr(begin + lead.size(), end - begin - lead.size());
  std::replace_if(
      command.begin(), command.end(), [](char c) { return c == '\n' || c == '\\'; }, ' ');
  return command;
}

/// A command that a page shows behind "$ ", and what it prints; "..." stands for lines left out.
struct WorkedExample {
  std::string command;
  std::vector<std::string> pieces = {""};
};

std::vector<WorkedExample> worked_examples(const std::string& page) {
  std::vector<WorkedExample> examples;
  std::istringstream text(page);
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (line.rfind("$ ", 0) == 0) {
      inside = true;
      examples.push_back({line.substr(2)});
    } else if (inside && line == "...") {
      examples.back().pieces.emplace_back();
    } else if (inside) {
      examples.back().pieces.back() += line + "\n";
    }
  }
  return examples;
}

}  // namespace

TEST_CASE("the worked examples of the techniques' pages print what the pages say") {
  std::size_t tried = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(MEMEST_SOURCE_DIR "/docs/techniques")) {
    for (const WorkedExample& example : worked_examples(file_text(file.path().string()))) {
      const std::string out = run_shell(example.command).out;
      INFO(file.path().string() << ": " << example.command << "\n" << out);
      std::size_t from = 0;
      for (const std::string& piece : example.pieces) {
        from = out.find(piece, from);
        CHECK(from != std::string::npos);
        if (from == std::string::npos) break;
        from += piece.size();
      }
      ++tried;
    }
  }
  CHECK(tried >= 1);
}

TEST_CASE("a plan's own command repeats its recompute, however it is written") {
  for (const char* recompute :
       {"full", "{full: {reentrant: true}}", "{full: {method: block, layers: 3}}", "{every: 2}"}) {
    const std::string set = " --set 'training.recompute=" + std::string(recompute) + "'";
    const std::string page =
        run_shell("memest plan gpt2 --gpu h100-sxm-80gb --gpus 1 --implementation transformers" +
                  set)
            .out;
    INFO(page);
    const std::string lead = "Why these numbers:\n";
    const std::size_t begin = page.find(lead);
    REQUIRE(begin != std::string::npos);
    const std::size_t end = page.find("\n\n", begin);
    std::string command = page.substr(begin + lead.size(), end - begin - lead.size());
    std::replace_if(
        command.begin(), command.end(), [](char c) { return c == '\n' || c == '\\'; }, ' ');
    const Ran ran = run_shell(command);
    INFO(command << "\n" << ran.err);
    CHECK(ran.code == 0);
  }
}

TEST_CASE("the starter spec fits and is within its budget") {
  CHECK(verdict_of("memest init | memest estimate -") == "fits");
  const Ran check = run_shell("memest init | memest check -");
  INFO(check.out);
  CHECK(check.code == 0);
}

TEST_CASE("the example of every help page prints an answer, and it is yes") {
  const std::vector<std::string> names = command_names();
  REQUIRE(names.size() >= 18);
  for (const std::string& name : names) {
    if (name == "selftest") continue;  // times this machine; json_test.cpp runs it
    if (name == "record") continue;    // needs PyTorch and a program of the reader's
    const std::string example = example_of(name);
    const Ran ran = run_shell(example);
    INFO(example << "\n" << ran.err);
    CHECK(ran.code == 0);
    CHECK_FALSE(ran.out.empty());
  }
  CHECK_THAT(run_shell("memest --help").out, ContainsSubstring("Example:\n  memest plan "));
}

/// The next block of docs/json.md in `language`, from `begin` on, which moves behind it.
std::string block_of(const std::string& text, const std::string& language, std::size_t& begin) {
  const std::string mark = "```" + language + "\n";
  begin = text.find(mark, begin);
  REQUIRE(begin != std::string::npos);
  begin += mark.size();
  const std::size_t end = text.find("```\n", begin);
  const std::string block = text.substr(begin, end - begin);
  begin = end;
  return block;
}

TEST_CASE("the examples of docs/json.md print what stands under them") {
  const std::string text = file_text(MEMEST_SOURCE_DIR "/docs/json.md");
  std::size_t place = 0;
  for (const auto& [language, program] : {std::pair{"sh", "jq"}, std::pair{"python", "python3"}}) {
    const std::string block = block_of(text, language, place);
    const std::string expected = block_of(text, "text", place);
    if (run_shell(std::string("command -v ") + program + " >/dev/null").code != 0) {
      WARN("not run: there is no " << program);
      continue;
    }
    const std::string shell = language == std::string("sh") ? "sh" : program;
    const Ran ran = run_shell("export PATH=\"$(dirname '" MEMEST_BINARY "'):$PATH\"; " + shell +
                              " <<'BLOCK'\n" + block + "BLOCK\n");
    INFO(ran.err);
    CHECK(ran.out == expected);
  }
}

TEST_CASE("a preset trains on the GPU that is assumed, or says a command that does") {
  std::size_t presets = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(MEMEST_SOURCE_DIR "/configs/models")) {
    const std::string name = entry.path().stem();
    INFO(name);
    ++presets;
    const Ran ran = run_shell("memest estimate " + name);
    constexpr int kNotKnown = 4;  // a family whose memory is not answered
    if (ran.code == kNotKnown || says_fits(ran.out)) continue;
    const std::string fitting = fitting_command(ran.out);
    INFO(fitting);
    REQUIRE_FALSE(fitting.empty());
    CHECK(says_fits(run_shell(fitting).out));
  }
  CHECK(presets == 105);
}

}  // namespace memest
