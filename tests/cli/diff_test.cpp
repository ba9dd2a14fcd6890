// memest diff: git revisions, standard input, runs, exit codes.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

/// A repository with two revisions of a spec and of the config that it names, which goes away with
/// the test. Its files as they lie there are a third state.
struct Repository {
  Repository() {
    std::filesystem::create_directories(path);
    const Ran made = run_shell(
        "cd " + path.string() +
        " && git init -q . && git config user.email t@example.org && git config user.name t"
        " && mkdir jobs models && cp $OLDPWD/tests/truth/configs/llama-3-8b/config.json models/"
        " && printf 'model: {hf: ../models/config.json}\\ntraining: {seq_len: 2048, global_batch: "
        "8}\\nhardware: {gpu: h100-sxm-80gb, count: 8}\\nparallelism: {data: 8, zero: 2}\\n' > "
        "jobs/job.yaml && cp jobs/job.yaml job.yaml && sed -i 's|../models|models|' job.yaml"
        " && git add . && git commit -qm one"
        " && sed -i 's/\"num_hidden_layers\": 32/\"num_hidden_layers\": 16/' models/config.json"
        " && git commit -qam two"
        " && sed -i 's/\"num_hidden_layers\": 16/\"num_hidden_layers\": 8/' models/config.json");
    INFO(made.err);
    REQUIRE(made.code == 0);
  }
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;
  ~Repository() { std::filesystem::remove_all(path); }

  [[nodiscard]] Ran run(const std::string& command) const {
    return run_shell("cd " + path.string() + " && " + command);
  }
  [[nodiscard]] std::string layers(const std::string& words) const {
    const Ran ran = run("memest diff " + words + " --format json");
    INFO(ran.err);
    const json answer = json::parse(ran.out);
    for (const json& key : answer["keys"]) {
      if (key["key"] == "model.hf.num_hidden_layers") {
        return key["a"]["value"].get<std::string>() + " " + key["b"]["value"].get<std::string>();
      }
    }
    return answer["equal"].get<bool>() ? "equal" : "others";
  }

  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("memest-diff-" + std::to_string(getpid()));
};

bool has_git() { return run_shell("git --version").code == 0; }

TEST_CASE("a spec's revision brings the files that it names with it") {
  if (!has_git()) SKIP("this test needs git");
  const Repository repository;
  CHECK(repository.layers("HEAD~1:jobs/job.yaml HEAD:jobs/job.yaml") == "32 16");
  CHECK(repository.layers("HEAD~1:job.yaml HEAD:job.yaml") == "32 16");
  CHECK(repository.layers("HEAD:job.yaml job.yaml") == "16 8");
  CHECK(repository.layers("job.yaml :job.yaml") == "8 16");  // the index
  CHECK(repository.layers("HEAD:job.yaml HEAD:jobs/job.yaml") == "equal");
  CHECK(json::parse(repository
                        .run("cd jobs && memest diff HEAD~1:./job.yaml HEAD:jobs/../job.yaml "
                             "--format json")
                        .out)["keys"][0]["b"]["place"] == "HEAD:models/config.json:30");
}

TEST_CASE("a spec of a revision may name a folder") {
  if (!has_git()) SKIP("this test needs git");
  const Repository repository;
  REQUIRE(
      repository
          .run("sed -i 's|models/config.json|models|' job.yaml && git commit -qm three job.yaml")
          .code == 0);
  CHECK(repository.layers("HEAD:job.yaml job.yaml") == "16 8");
}

TEST_CASE("the answer about a revision goes to a file, but to none that is read") {
  if (!has_git()) SKIP("this test needs git");
  const Repository repository;
  const std::string diff = "memest diff HEAD:job.yaml job.yaml --output ";
  CHECK(repository.run(diff + "answer.txt").code == 0);
  for (const char* file : {"job.yaml", "models/config.json"}) {
    const Ran ran = repository.run(diff + file);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, ContainsSubstring(std::string("--output would overwrite '") + file));
  }
}

TEST_CASE("what git does not have is said by name") {
  if (!has_git()) SKIP("this test needs git");
  const Repository repository;
  const Ran revision = repository.run("memest diff HEAD~9:job.yaml job.yaml");
  CHECK(revision.code == 2);
  CHECK(revision.out.empty());
  CHECK_THAT(revision.err, StartsWith("HEAD~9:job.yaml: error: git knows no revision 'HEAD~9'\n"));
  const Ran path = repository.run("memest diff HEAD:jab.yaml job.yaml");
  CHECK(path.code == 2);
  CHECK_THAT(path.err,
             StartsWith("HEAD:jab.yaml: error: revision 'HEAD' has no file 'jab.yaml'\n"));
  const Ran option = repository.run("memest diff ./x:job.yaml job.yaml");
  CHECK(option.code == 2);
  const Ran config = repository.run(
      "git rm -q --cached models/config.json && git commit -qm gone && memest diff HEAD:job.yaml "
      "job.yaml");
  CHECK(config.code == 2);
  CHECK_THAT(config.err, StartsWith("HEAD:models/config.json: error: revision 'HEAD' has no file"));
}

TEST_CASE("without git or a repository a revision is the environment's failure") {
  const Ran none = run_shell("PATH= \"$(command -v memest)\" diff HEAD:a.yaml gpt2");
  CHECK(none.code == 3);
  CHECK_THAT(none.err, ContainsSubstring("cannot run 'git': No such file or directory"));
  if (!has_git()) return;
  const Ran outside = run_shell("cd / && GIT_CEILING_DIRECTORIES=/ memest diff HEAD:a.yaml gpt2");
  CHECK(outside.code == 3);
  CHECK_THAT(outside.err,
             ContainsSubstring("'HEAD:a.yaml' is of a git revision, and there is no repository"));
}

TEST_CASE("standard input is one of the two specs") {
  const Ran ran = run_shell("memest diff - gpt2 --format json < configs/models/gpt2.yaml");
  INFO(ran.err);
  CHECK(ran.code == 0);
  const json answer = json::parse(ran.out);
  CHECK(answer["equal"] == true);
  CHECK(run_shell("memest diff gpt2 - < configs/models/gpt2.yaml").code == 0);
  CHECK(run_shell("memest diff - - < configs/models/gpt2.yaml").code == 2);
}

TEST_CASE("the exit code says that B fits no more, or that a run is outside of the interval") {
  const std::string large = " --set hardware.memory=200GiB";
  CHECK(run_shell("memest diff gpt2 gpt2-xl --gpu rtx-4090").code == 1);
  CHECK(run_shell("memest diff gpt2-xl gpt2 --gpu rtx-4090").code == 0);
  CHECK(run_shell("memest diff gpt2-xl gpt2-xl --gpu rtx-4090").code == 0);
  CHECK(run_shell("memest diff gpt2 gpt2-xl --gpu rtx-4090" + large).code == 0);
  CHECK(run_shell("memest diff gpt2 t5-small").code == 4);
  CHECK(run_shell("memest diff gpt2").code == 2);
  const std::string run = "memest diff tests/truth/runs/run.yaml tests/truth/runs/";
  CHECK(run_shell(run + "equal.pickle.gz").code == 0);
  CHECK(run_shell(run + "late.pickle.gz").code == 0);
  CHECK(run_shell(run + "kept.pickle.gz").code == 1);
  CHECK(run_shell(run + "equal.pickle.gz --rank 1").code == 2);
  const Ran log = run_shell(
      "d=$(mktemp) && printf 'timestamp, index, memory.used [MiB]\\nx, 0, 5 MiB\\n' > $d && memest "
      "diff "
      "tests/truth/runs/equal.pickle.gz $d");
  CHECK(log.code == 2);
  CHECK_THAT(log.err, ContainsSubstring("two runs are compared where both are recordings"));
}

TEST_CASE("a log's fullest GPU is held to the interval") {
  const auto code_of = [](const std::string& mib) {
    return run_shell("d=$(mktemp) && printf 'timestamp, index, memory.used [MiB]\\nx, 0, " + mib +
                     " MiB\\nx, 1, 4 MiB\\n' > $d && memest diff gpt2 $d --gpu rtx-4090; c=$?; rm "
                     "$d; exit $c")
        .code;
  };
  const json estimate =
      json::parse(run_shell("memest estimate gpt2 --gpu rtx-4090 --format json").out);
  const auto device = estimate["memory"]["ranks"][0]["device_bytes"].get<std::int64_t>();
  CHECK(code_of(std::to_string(device / (1 << 20))) == 0);
  CHECK(code_of(std::to_string(2 * device / (1 << 20))) == 1);
  CHECK(code_of("10") == 1);
}

TEST_CASE("memest's own snapshot of a timeline is what it predicts") {
  const Ran ran = run_shell(
      "d=$(mktemp) && memest timeline tests/golden/timeline.yaml --snapshot $d > /dev/null && "
      "memest "
      "diff tests/golden/timeline.yaml $d --format json; c=$?; rm $d; exit $c");
  INFO(ran.err);
  CHECK(ran.code == 0);
  const json answer = json::parse(ran.out);
  CHECK(answer["equal"] == true);
  CHECK(answer["measured_by"] == "replay");
  for (const json& peak : answer["peaks"]) CHECK(peak["difference_bytes"] == 0);
  CHECK(answer["first_freed_elsewhere"].empty());
}

}  // namespace
}  // namespace memest
