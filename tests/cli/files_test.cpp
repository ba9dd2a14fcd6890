// What the program does to files, and what names and texts of others can do to its answers.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

/// An empty folder that goes away with the test.
struct Scratch {
  Scratch()
      : path(std::filesystem::temp_directory_path() /
             ("memest-files-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }

  [[nodiscard]] std::string file(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return file(name);
  }
  [[nodiscard]] std::ptrdiff_t count() const {
    const auto files = std::filesystem::directory_iterator(path);
    return std::distance(begin(files), end(files));
  }

  std::filesystem::path path;
};

const std::string kSpec = "model: gpt2\ntraining: {seq_len: 128}\n";

TEST_CASE("no flag writes over a file that the command reads, by whatever name") {
  const Scratch scratch;
  const std::string spec = scratch.write("spec.yaml", kSpec);
  const std::string link = scratch.file("link.yaml");
  std::filesystem::create_symlink(spec, link);
  const std::string command =
      GENERATE("estimate SPEC --output SPEC", "estimate SPEC --output LINK",
               "estimate LINK --output SPEC", "check SPEC --output SPEC",
               "timeline SPEC --html SPEC", "timeline SPEC --csv LINK", "plan SPEC --output SPEC");
  std::string line = command;
  for (const auto& [word, path] : {std::pair{"SPEC", spec}, {"LINK", link}}) {
    for (auto at = line.find(word); at != std::string::npos; at = line.find(word)) {
      line.replace(at, 4, path);
    }
  }
  const Ran ran = run_shell("memest " + line);
  INFO(line);
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("would overwrite '"));
  CHECK_THAT(ran.err, ContainsSubstring("= hint: choose another file"));
  CHECK(file_text(spec) == kSpec);
}

TEST_CASE("nor over the config that a spec names") {
  const Scratch scratch;
  const std::string config = "{\"model_type\": \"gpt2\"}";
  const std::string path = scratch.write("config.json", config);
  const std::string spec =
      scratch.write("spec.yaml", "model: {hf: config.json}\ntraining: {seq_len: 128}\n");
  const Ran ran = run_shell("memest estimate '" + spec + "' --output '" + path + "'");
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("would overwrite '" + path + "'"));
  CHECK(file_text(path) == config);
  CHECK(run_shell("cat '" + spec + "' | memest estimate - --set model.hf='" + path +
                  "' --output '" + scratch.file("out") + "'")
            .code == 0);
}

TEST_CASE("two flags do not name one file") {
  const Scratch scratch;
  const Ran ran = run_shell("memest timeline gpt2 --html '" + scratch.file("out") + "' --csv '" +
                            scratch.file("out") + "'");
  CHECK(ran.code == 2);
  CHECK(ran.err == "error: --html and --csv name one file, '" + scratch.file("out") +
                       "'\n    = hint: choose another file\n");
  CHECK(scratch.count() == 0);
}

TEST_CASE("a file that is replaced keeps its permissions, a new one has the umask's") {
  const Scratch scratch;
  const std::string old = scratch.write("old", "old");
  const auto mode_of = [](const std::string& path) {
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777U;
  };
  REQUIRE(chmod(old.c_str(), 0640) == 0);
  CHECK(run_shell("umask 022; memest init --force --output '" + old + "'").code == 0);
  CHECK(mode_of(old) == 0640U);
  CHECK(run_shell("umask 027; memest init --output '" + scratch.file("new") + "'").code == 0);
  CHECK(mode_of(scratch.file("new")) == 0640U);
}

TEST_CASE("a spec that exists is left alone, unless --force says otherwise") {
  const Scratch scratch;
  const std::string file = scratch.write("job.yaml", "mine");
  const std::string command = GENERATE("init", "import tests/truth/configs/llama-3-8b/config.json");
  const Ran ran = run_shell("memest " + command + " --output '" + file + "'");
  CHECK(ran.code == 2);
  CHECK(ran.err ==
        "error: '" + file +
            "' exists, and may hold what somebody wrote\n    = hint: --force replaces it\n");
  CHECK(file_text(file) == "mine");
  CHECK(run_shell("memest " + command + " --force --output '" + file + "'").code == 0);
  CHECK(file_text(file) == run_shell("memest " + command).out);
  CHECK(run_shell("memest " + command + " --output '" + scratch.file("new") + "'").code == 0);
  CHECK(run_shell("memest " + command + " --output /dev/null").code == 0);
}

TEST_CASE("a link that stands where the unfinished answer would be is not followed") {
  const Scratch scratch;
  const std::string victim = scratch.write("victim", "mine");
  const std::string answer = scratch.file("answer");
  // exec keeps the shell's number, so that the name can be foretold.
  const Ran ran = run_shell("sh -c 'ln -s " + victim + " " + answer + ".memest-$$; exec " +
                            MEMEST_BINARY + " init --output " + answer + "'");
  CHECK(ran.code == 0);
  CHECK(file_text(victim) == "mine");
  CHECK(file_text(answer) == run_shell("memest init").out);
}

TEST_CASE("a limit on the size of files leaves nothing behind") {
  const Scratch scratch;
  const Ran ran =
      run_shell("ulimit -f 8; memest gpus --format json --output '" + scratch.file("out") + "'");
  CHECK(ran.code == 3);
  CHECK_THAT(ran.err, ContainsSubstring("cannot write '" + scratch.file("out") + "'"));
  CHECK(scratch.count() == 0);
}

TEST_CASE("one calibration at a time writes to a file") {
  const Scratch scratch;
  const std::string part = scratch.write("host.samples.csv.part", "");
  const Ran ran = run_shell("flock '" + part + "' " + MEMEST_BINARY +
                            " calibrate --device host --seconds 1 --output '" +
                            scratch.file("host.profile.yaml") + "'");
  CHECK(ran.code == 3);
  CHECK_THAT(ran.err, ContainsSubstring("error: another calibration writes '" + part + "'"));
  CHECK(file_text(part).empty());
}

TEST_CASE("a folder's name is no part of the spec that import writes") {
  const Scratch scratch;
  const std::string folder = scratch.file("a\nmodel: gpt2 \x1b[31m\u2028\u202e");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(MEMEST_SOURCE_DIR "/tests/truth/configs/llama-3-8b/config.json",
                             folder + "/config.json");
  const Ran ran = run_shell("memest import '" + folder + "'");
  const std::string plain = run_shell("memest import tests/truth/configs/llama-3-8b").out;
  CHECK(ran.code == 0);
  CHECK(ran.out.substr(0, ran.out.find('\n')) ==
        "# a?model: gpt2 ?[31m??, from a Hugging Face config of model_type llama.");
  CHECK(ran.out.substr(ran.out.find('\n')) == plain.substr(plain.find('\n')));
}

TEST_CASE("a config's text is written as YAML that no terminal obeys") {
  const Scratch scratch;
  const std::string config = scratch.write(
      "config.json",
      R"({"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
          "vocab_size": 99, "hidden_act": "gelu", "position_embedding_type": "absolute",
          "id2label": {"0": "a"}, "architectures": ["Bert\u001b[31mX\"\\\u0085"]})");
  const Ran ran = run_shell("memest import '" + config + "'");
  INFO(ran.out << ran.err);
  CHECK(ran.out.find('\x1b') == std::string::npos);
  CHECK(ran.err.find('\x1b') == std::string::npos);
}

TEST_CASE("no answer carries a file's name raw to a terminal, a spreadsheet or a parser") {
  const Scratch scratch;
  const std::string spec =
      scratch.write("a\x1b[31m\uFFFE.yaml", kSpec + "budget: {memory: 1 kB}\n");
  const std::string format = GENERATE("text", "csv", "github", "junit", "markdown");
  const Ran ran = run_shell("memest check '" + spec + "' --format " + format);
  INFO(format << '\n' << ran.out);
  CHECK(ran.code == 1);
  CHECK(ran.out.find('\x1b') == std::string::npos);
  CHECK(ran.out.find("\uFFFE") == std::string::npos);
  const std::string escaped = format == "markdown" ? "a\\\\x1b[31m" : "a\\x1b[31m";
  CHECK_THAT(ran.out, ContainsSubstring(escaped));
}

TEST_CASE("a cell that a spreadsheet would run stands behind an apostrophe") {
  const Scratch scratch;
  scratch.write("=1+1.yaml", kSpec + "budget: {memory: 1 kB}\n");
  const Ran ran = run_shell("cd '" + scratch.path.string() + "' && " + MEMEST_BINARY +
                            " check =1+1.yaml --format csv");
  INFO(ran.out);
  CHECK_THAT(ran.out, ContainsSubstring("\n'=1+1.yaml,"));
}

}  // namespace
}  // namespace memest
