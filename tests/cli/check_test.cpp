// `memest check` over a repository: what it finds, what the lock says, what each format makes of
// it.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::json;
namespace fs = std::filesystem;

/// A repository that goes away with the test.
struct Repository {
  Repository() : path(fs::temp_directory_path() / ("memest-check-" + std::to_string(getpid()))) {
    write("a.yaml", spec("micro_batch: 1"));
    write("deep/b.yaml", spec("micro_batch: 2"));
    write("deep/notes.yaml", "just: notes\n");
    write("settings.json", "{\"editor\": true}");
  }
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;
  ~Repository() { fs::remove_all(path); }

  static std::string spec(const std::string& batch) {
    return "model: gpt2\ntraining:\n  seq_len: 128\n  " + batch +
           "\n  optimizer: adamw\nhardware: {gpu: l4}\n";
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    return file_text((path / name).string());
  }
  [[nodiscard]] Ran check(const std::string& words) const {
    return run_shell("cd '" + path.string() + "' && memest check " + words);
  }

  fs::path path;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("check finds the specs below a folder and names what is none") {
  const Repository repository;
  const Ran ran = repository.check(".");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, ContainsSubstring("2 files are no specs: deep/notes.yaml, settings.json."));
  CHECK(first_line(ran.out) == "2 specs: 2 within budget; 2 files passed over.");
  CHECK(repository.check("'**/*.yaml'").out.find("deep/b.yaml") != std::string::npos);
  CHECK(repository.check("deep/notes.yaml").code == 2);  // named by itself it is a mistake
  CHECK(repository.check("'none/*.yaml'").code == 2);
  CHECK(repository.check("missing.yaml").code == 3);
}

TEST_CASE(
    "what holds to the lock is yes, and the lock is the same bytes however often it is written") {
  const Repository repository;
  const Ran first = repository.check("--update .");
  CHECK(first.code == 0);
  CHECK(first_line(first.out) ==
        "2 specs: 2 within budget; memest.lock is written: 2 new; 2 files passed over.");
  const std::string lock = repository.text("memest.lock");
  CHECK(repository.check(".").code == 0);
  CHECK(repository.check("--update . --threads 1").code == 0);
  CHECK(repository.text("memest.lock") == lock);
  CHECK_THAT(repository.check("a.yaml").out, ContainsSubstring("within budget"));
  CHECK(repository.check("a.yaml").code == 0);  // b.yaml was not asked about
  const std::string format =
      GENERATE("text", "json", "markdown", "csv", "github", "junit", "sarif", "gitlab");
  INFO(format);
  const std::string answer = repository.check(". --format " + format).out;
  CHECK(repository.check(". --format " + format + " --threads 1").out == answer);
  CHECK(repository.check("deep/b.yaml a.yaml deep . --format " + format).out == answer);
}

TEST_CASE("a seeded regression is found, with its terms, on its line") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  repository.write("deep/b.yaml", Repository::spec("micro_batch: 8"));
  const Ran ran = repository.check(".");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("✗ device: "));
  CHECK_THAT(ran.out, ContainsSubstring("activations: "));
  CHECK_THAT(ran.out, ContainsSubstring("deep/b.yaml:4: training.micro_batch: 2 → 8"));
  CHECK_THAT(ran.out, ContainsSubstring("memest.lock: 1 moved (higher); 2 files passed over.\n"));
  const Ran github = repository.check(". --format github");
  CHECK_THAT(
      github.out,
      StartsWith("::error file=deep/b.yaml,line=4,col=3,title=moved from the lock::device:"));
  CHECK_THAT(github.out, EndsWith("::notice title=memest check::2 specs: 2 within budget; "
                                  "memest.lock: 1 moved (higher); 2 files passed over.\n"));
  const json sarif = json::parse(repository.check(". --format sarif").out);
  const json& result = sarif["runs"][0]["results"][0];
  CHECK(result["ruleId"] == "moved");
  CHECK(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "deep/b.yaml");
  CHECK(result["locations"][0]["physicalLocation"]["region"] ==
        json{{"startLine", 4}, {"startColumn", 3}, {"endColumn", 14}});
  const json gitlab = json::parse(repository.check(". --format gitlab").out);
  REQUIRE(gitlab.size() == 1);
  CHECK(gitlab[0]["location"]["lines"]["begin"] == 4);
  CHECK(gitlab[0]["fingerprint"] == "moved:deep/b.yaml");
  CHECK_THAT(repository.check(". --format junit").out,
             ContainsSubstring("<testcase classname=\"deep/b.yaml\" name=\"lock\">\n      "
                               "<failure message=\"device: "));
  CHECK_THAT(repository.check(". --format markdown").out,
             StartsWith("<!-- memest check -->\n### ❌ memest check\n"));
  // Lower is a difference too, and accepted it is none any more.
  repository.write("deep/b.yaml", Repository::spec("micro_batch: 2\n  recompute: full"));
  CHECK_THAT(repository.check(".").out, ContainsSubstring("1 moved (lower)"));
  CHECK(repository.check(".").code == 1);
  CHECK(repository.check("--update deep/b.yaml").code == 0);
  CHECK(repository.check(".").code == 0);
}

TEST_CASE("of several changes the one that moved most is pointed at") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  repository.write("a.yaml",
                   "model: gpt2\ntraining:\n  seq_len: 127\n  micro_batch: 1\n"
                   "  recompute: none\n  optimizer: sgd\nhardware: {gpu: l4}\n");
  const Ran github = repository.check("a.yaml --format github");
  CHECK_THAT(github.out, StartsWith("::error file=a.yaml,line=6,col=3,"));
  const json answer = json::parse(repository.check("a.yaml --format json").out);
  const json& keys = answer["files"][0]["lock"]["changed_keys"];
  REQUIRE(keys.size() == 3);
  CHECK(keys[0]["key"] == "training.optimizer");
  CHECK(keys[0]["share"].get<double>() > 0.9);
  CHECK(keys[1]["key"] == "training.seq_len");
  CHECK(keys[2]["locked"].is_null());
  CHECK(keys[2]["share"] == 0);
}

TEST_CASE("a spec that is new, and one that is gone, are said and are no") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  repository.write("c.yaml", Repository::spec("micro_batch: 1"));
  CHECK(repository.check("a.yaml deep").code == 0);
  Ran ran = repository.check(".");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("memest.lock: 1 not in it;"));
  CHECK_THAT(repository.check(". --format github").out,
             StartsWith("::error file=c.yaml,line=1,col=1,title=not in the lock::"));
  fs::remove(repository.path / "c.yaml");
  fs::remove(repository.path / "deep/b.yaml");
  ran = repository.check(".");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("memest.lock has deep/b.yaml, which is no spec any more."));
  CHECK(repository.check("--update .").code == 0);
  CHECK(repository.text("memest.lock").find("deep/b.yaml") == std::string::npos);
}

TEST_CASE("another basis without a move is said and is yes") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  std::string lock = repository.text("memest.lock");
  const std::size_t at = lock.find("      gpu l4: ");
  REQUIRE(at != std::string::npos);
  lock.replace(at, std::string("      gpu l4: 01234567").size(), "      gpu l4: 00000000");
  repository.write("memest.lock", lock);
  const Ran ran = repository.check(".");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, ContainsSubstring("memest.lock rests on others of these, and nothing moved: "
                                        "gpu l4 of 1 spec."));
}

TEST_CASE("time and money move beyond the tolerance of the lock, bytes at once") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  const std::string lock = repository.text("memest.lock");
  const std::size_t at = lock.find("      step: ");
  REQUIRE(at != std::string::npos);
  const double seconds = std::stod(lock.substr(at + 12));
  const auto with_step = [&](double factor, const char* tolerance) {
    std::string text = lock;
    text.replace(at + 12, text.find(" s\n", at) - at - 12, std::to_string(seconds * factor));
    text.replace(text.find("1 %"), 3, tolerance);
    repository.write("memest.lock", text);
    return repository.check(".").code;
  };
  CHECK(with_step(1.005, "1 %") == 0);
  CHECK(with_step(1.05, "1 %") == 1);
  CHECK(with_step(1.05, "10 %") == 0);
}

TEST_CASE("a lock is written whole or not at all") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  const std::string lock = repository.text("memest.lock");
  repository.write("a.yaml", Repository::spec("micro_batch: 4"));
  repository.write("bad.yaml", Repository::spec("micro_bach: 4"));
  const Ran ran = repository.check("--update .");
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("memest.lock is not written: a file is no spec"));
  CHECK(repository.text("memest.lock") == lock);
  // An answer that says that a file is no spec is an answer: it is written where it was asked for.
  CHECK(repository.check(". --format sarif --output memest.sarif").code == 2);
  CHECK_THAT(repository.text("memest.sarif"), ContainsSubstring("unknown key 'micro_bach'"));
}

TEST_CASE("what check reads is not written over, and a lock holds specs as they are written") {
  const Repository repository;
  REQUIRE(repository.check("--update .").code == 0);
  const std::string spec = repository.text("a.yaml");
  CHECK(repository.check(". --output a.yaml").code == 2);
  CHECK(repository.check(". --output memest.lock").code == 2);
  CHECK(repository.check("a.yaml --lock a.yaml --update").code == 2);
  CHECK(repository.text("a.yaml") == spec);
  CHECK(repository.check(". --format json --output report.json").code == 0);
  CHECK(repository.check(". --format json --output report.json").code == 0);  // it is no spec
  const Ran ran = repository.check(". --gpu a100-sxm-80gb");
  CHECK(ran.code == 0);
  CHECK(ran.err == "note: memest.lock is passed over: --gpu changes the specs\n");
  CHECK(repository.check("--update . --set training.micro_batch=2").code == 2);
  CHECK(repository.check(". --lock other.lock").code == 3);
}

TEST_CASE("of two hundred specs the one that moved is found, in the same bytes by any threads") {
  const Repository repository;
  REQUIRE(
      run_shell("tests/cli/make_specs.sh '" + (repository.path / "many").string() + "' 200").code ==
      0);
  CHECK(repository.check("--update many --quiet").code == 1);  // some are over their GPU
  const std::string lock = repository.text("memest.lock");
  const std::string held = repository.check("many").out;
  CHECK_THAT(first_line(held), StartsWith("200 specs: "));
  CHECK_THAT(first_line(held), EndsWith("; memest.lock: nothing moved."));
  CHECK(run_shell("cd '" + (repository.path / "many").string() +
                  "' && sed -i 's/seq_len: 512/seq_len: 768/' spec-0123.yaml")
            .code == 0);
  const std::string moved = repository.check("many --format github --threads 1").out;
  CHECK(repository.check("many --format github --threads 7").out == moved);
  CHECK_THAT(moved, ContainsSubstring("::error file=many/spec-0123.yaml,line=3,col=3,title=moved"));
  CHECK(moved.find("title=moved") == moved.rfind("title=moved"));
  CHECK(repository.check("--update many --quiet --threads 1").code == 1);
  CHECK(repository.text("memest.lock") != lock);
}

TEST_CASE("a size beyond all bounds is one file's mistake") {
  const Repository repository;
  repository.write("huge.yaml",
                   "model: {layers: 100000, hidden_size: 1000000000, heads: 1, vocab_size: "
                   "1000000000}\ntraining: {seq_len: 1000000000, micro_batch: 1000000000}\n");
  const Ran ran = repository.check(".");
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("huge.yaml: error: a number of this spec is too large"));
  CHECK_THAT(ran.out, ContainsSubstring("3 specs: 2 within budget, 1 no spec"));
}

}  // namespace memest
