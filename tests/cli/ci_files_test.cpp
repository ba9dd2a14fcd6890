// The files by which other repositories take memest into their continuous integration: the GitHub
// action, the pre-commit hook, the examples of docs/ci.md. Each is read, and its scripts are run as
// the service would run them, on a made repository.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reader/text/value.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

using Words = std::map<std::string, std::string>;

Value yaml_of(const std::string& name, const std::string& text) {
  const Checked<Value> tree =
      parse_yaml(std::make_shared<const SourceText>(SourceText{name, text}));
  INFO(text);
  REQUIRE(tree.ok());
  return tree.value();
}

Value file_of(const std::string& name) {
  return yaml_of(name, file_text(MEMEST_SOURCE_DIR "/" + name));
}

/// The blocks of YAML in docs/ci.md that have `key`.
std::vector<Value> examples_with(const std::string& key) {
  const std::string text = file_text(MEMEST_SOURCE_DIR "/docs/ci.md");
  const std::string open = "```yaml\n";
  std::vector<Value> examples;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const std::size_t begin = at + open.size();
    const std::string block = text.substr(begin, text.find("```", begin) - begin);
    if (block.front() == '#') continue;  // a comment of a spec
    Value example = yaml_of("docs/ci.md", block);
    if (example.find(key) != nullptr) examples.push_back(std::move(example));
  }
  return examples;
}

/// A workplace: a repository, a folder on PATH with memest and a `gh` that writes down what it is
/// asked, and the files that GitHub gives a step.
struct Workplace {
  Workplace() : path(fs::temp_directory_path() / ("memest-ci-" + std::to_string(getpid()))) {
    fs::create_directories(path / "bin");
    fs::create_directories(path / "repository");
    fs::create_symlink(MEMEST_BINARY, path / "bin/memest");
    write("bin/gh",
          "#!/bin/sh\n"
          "echo \"$@\" >>\"$CALLS\"\n"
          "[ ! -e \"$CALLS.refused\" ] || exit 1\n"
          "case \"$*\" in *--jq*) cat \"$CALLS.ids\" 2>/dev/null || true;; esac\n");
    fs::permissions(path / "bin/gh", fs::perms::owner_all);
    write("repository/a.yaml",
          "model: gpt2\ntraining: {seq_len: 128, micro_batch: 1}\nhardware: {gpu: l4}\n");
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace() { fs::remove_all(path); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    return fs::exists(path / name) ? file_text((path / name).string()) : "";
  }
  /// Runs a script in the repository as GitHub runs `shell: bash`.
  [[nodiscard]] Ran run(const std::string& script, const Words& environment) const {
    write("step.sh", script);
    std::string command = "cd '" + (path / "repository").string() + "' && env PATH='" +
                          (path / "bin").string() + "':\"$PATH\"";
    for (const auto& [name, value] : environment) command += " " + name + "='" + value + "'";
    return run_shell(command + " bash --noprofile --norc -eo pipefail ../step.sh");
  }

  fs::path path;
};

/// The steps of the action, with its inputs as given or by default.
class ActionRun {
 public:
  ActionRun(const Workplace& workplace, const Words& inputs) : workplace_(workplace) {
    for (const Member& input : action_.find("inputs")->members) {
      words_["inputs." + input.key] = input.value.find("default")->text;
    }
    for (const auto& [name, value] : inputs) words_["inputs." + name] = value;
    words_["github.event.pull_request.number"] = "7";
    fs::remove(workplace.path / "output");
    for (const Value& step : action_.find("runs")->find("steps")->items) run(step);
  }

  /// Output and errors of all steps; the code of the last.
  std::string out;
  std::string err;
  int code = 0;

 private:
  /// "${{ inputs.specs }}" as its value.
  std::string evaluated(const std::string& text) const {
    if (!text.starts_with("${{ ")) return text;
    const std::string name = text.substr(4, text.size() - 7);
    INFO(name);
    const auto known = words_.find(name);
    return known == words_.end() ? "" : known->second;
  }

  void run(const Value& step) {
    REQUIRE(step.find("shell")->text == "bash");
    Words environment{{"GITHUB_OUTPUT", (workplace_.path / "output").string()},
                      {"GITHUB_STEP_SUMMARY", (workplace_.path / "summary").string()},
                      {"GITHUB_REPOSITORY", "team/models"},
                      {"RUNNER_TEMP", workplace_.path.string()},
                      {"CALLS", (workplace_.path / "calls").string()}};
    if (const Value* own = step.find("env")) {
      for (const Member& row : own->members) environment[row.key] = evaluated(row.value.text);
    }
    const Ran ran = workplace_.run(step.find("run")->text, environment);
    out += ran.out;
    err += ran.err;
    code = ran.code;
    const std::string outputs = workplace_.text("output");
    for (std::size_t at = 0; at < outputs.size();) {
      const std::size_t end = outputs.find('\n', at);
      const std::size_t equals = outputs.find('=', at);
      words_["steps.check.outputs." + outputs.substr(at, equals - at)] =
          outputs.substr(equals + 1, end - equals - 1);
      at = end + 1;
    }
  }

  const Workplace& workplace_;
  Value action_ = file_of("action.yml");
  Words words_;
};

}  // namespace

TEST_CASE("the action annotates, summarises, comments once and ends with the code of check") {
  const Workplace workplace;
  REQUIRE(workplace.run("memest check --update . --quiet", {}).code == 0);
  const ActionRun first(workplace, {});
  INFO(first.out << first.err);
  CHECK(first.code == 0);
  CHECK_THAT(first.out, ContainsSubstring("memest 0."));
  CHECK_THAT(first.out, ContainsSubstring("::notice title=memest check::1 spec: 1 within budget"));
  CHECK_THAT(workplace.text("summary"), StartsWith("<!-- memest check -->\n### ✅"));
  CHECK_THAT(
      workplace.text("calls"),
      ContainsSubstring("api --method POST repos/team/models/issues/7/comments --field body=@" +
                        (workplace.path / "memest-comment.md").string()));

  // The comment is there now, and the next run moves a figure.
  workplace.write("calls.ids", "41\n42\n");
  workplace.write("repository/a.yaml",
                  "model: gpt2\ntraining: {seq_len: 128, micro_batch: 9}\nhardware: {gpu: l4}\n");
  const ActionRun second(workplace, {{"specs", "*.yaml"},
                                     {"format", "sarif"},
                                     {"output", "memest.sarif"},
                                     {"lock", "memest.lock"}});
  INFO(second.out << second.err);
  CHECK(second.code == 1);
  CHECK_THAT(second.out, ContainsSubstring("::error file=a.yaml,line=2,col=26,title=moved"));
  CHECK_THAT(workplace.text("calls"),
             ContainsSubstring("--method PATCH repos/team/models/issues/comments/41 "));
  CHECK_THAT(workplace.text("repository/memest.sarif"),
             ContainsSubstring("\"version\": \"2.1.0\""));
}

TEST_CASE("a token that may not write is a warning, not the verdict") {
  const Workplace workplace;
  workplace.write("calls.refused", "");
  const ActionRun run(workplace, {});
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out,
             ContainsSubstring("::warning title=memest check::the comment was not posted"));
}

TEST_CASE(
    "the action's inputs and outputs have a description each, and docs/ci.md names all inputs") {
  const Value action = file_of("action.yml");
  CHECK(action.find("runs")->find("using")->text == "composite");
  const std::string manual = file_text(MEMEST_SOURCE_DIR "/docs/ci.md");
  for (const char* table : {"inputs", "outputs"}) {
    for (const Member& row : action.find(table)->members) {
      INFO(row.key);
      CHECK_FALSE(row.value.find("description")->text.empty());
      const bool named = manual.find("`" + row.key + "`") != std::string::npos;
      CHECK((named || row.key == "token"));
    }
  }
}

TEST_CASE("the pre-commit hook runs check over its arguments, without file names") {
  const Value hooks = file_of(".pre-commit-hooks.yaml");
  REQUIRE(hooks.items.size() == 1);
  const Value& hook = hooks.items.front();
  CHECK(hook.find("pass_filenames")->text == "false");
  const Workplace workplace;
  std::string command = hook.find("entry")->text;
  for (const Value& word : hook.find("args")->items) command += " " + word.text;
  CHECK(workplace.run(command, {}).code == 0);
  for (const Value& example : examples_with("repos")) {
    CHECK(example.find("repos")->items.front().find("hooks")->items.front().find("id")->text ==
          hook.find("id")->text);
  }
}

TEST_CASE("the job for GitLab writes its reports and ends with the code of check") {
  const std::vector<Value> examples = examples_with("memest");
  REQUIRE(examples.size() == 1);
  const Value& job = *examples.front().find("memest");
  std::string script;
  for (const Value& line : job.find("script")->items) script += line.text + "\n";
  const Workplace workplace;
  fs::rename(workplace.path / "repository/a.yaml", workplace.path / "a.yaml");
  fs::create_directories(workplace.path / "repository/configs");
  fs::rename(workplace.path / "a.yaml", workplace.path / "repository/configs/a.yaml");
  CHECK(workplace.run(script, {}).code == 0);
  REQUIRE(workplace.run("memest check --update configs --quiet", {}).code == 0);
  workplace.write("repository/configs/a.yaml", "model: gpt2\ntraining: {seq_len: 64}\n");
  CHECK(workplace.run(script, {}).code == 1);
  const Value& reports = *job.find("artifacts")->find("reports");
  CHECK_THAT(workplace.text("repository/" + reports.find("codequality")->text),
             ContainsSubstring("\"check_name\": \"memest/moved\""));
  CHECK_THAT(workplace.text("repository/" + reports.find("junit")->text),
             ContainsSubstring("failures=\"1\""));
}

TEST_CASE("the workflows of docs/ci.md use the action by inputs that it has") {
  const Value action = file_of("action.yml");
  std::size_t used = 0;
  for (const Value& workflow : examples_with("jobs")) {
    for (const Value& step : workflow.find("jobs")->find("check")->find("steps")->items) {
      const Value* with = step.find("with");
      if (with == nullptr || step.find("uses")->text.find("/memest@") == std::string::npos)
        continue;
      for (const Member& input : with->members) {
        INFO(input.key);
        CHECK(action.find("inputs")->find(input.key) != nullptr);
        ++used;
      }
    }
  }
  CHECK(used > 0);
}

}  // namespace memest
