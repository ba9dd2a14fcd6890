// memest record --vary runs a program at a few sizes. Here it is a script, which hands over what
// such a run would have recorded.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::string kSizes = "--vary batch=2,3,5 --vary seq=896,512,640 ";
const std::string kMade = "-- sh tests/record/made.sh {batch} {seq} ";

/// A command in a folder of its own, with the tests in it.
Ran run_in_folder(const std::string& command) {
  return run_shell("cd $(mktemp -d) && ln -s \"$OLDPWD/tests\" tests && " + command);
}

TEST_CASE("a program's sizes become formulas, whose file answers at a recorded point") {
  const Ran ran = run_in_folder("memest record --quiet " + kSizes + "-o run.memrec " + kMade +
                                "exact && cmp run.memrec tests/record/family.memrec && ls");
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out == "run.memrec\ntests\n");
  const json played =
      json::parse(run_shell("memest replay tests/record/family.memrec --at batch=3 --at seq=640 "
                            "--format json")
                      .out)["played"][0];
  CHECK(played["allocated_peak_bytes"] == 104857600 + 1024 * 3 * 640 + 128 * 3 * 640 * 640);
  CHECK(played["extrapolated"] == false);
  CHECK(played["fits"] == true);
}

TEST_CASE("the answer says what was compared, in JSON too") {
  const Ran ran = run_shell("memest record --format json " + kSizes + kMade + "exact");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.err, ContainsSubstring("memest record: run 7 of 7: batch=3 seq=640\n"));
  const json family = json::parse(ran.out)["families"][0];
  CHECK(family["held_out"]["equal_requests"] == 3);
  CHECK(family["held_out"]["at"]["seq"] == 640);
  CHECK(family["points"].size() == 7);
  CHECK(family["peak_places"][0]["requested_bytes"] == "128*batch*seq^2");
}

TEST_CASE("where runs part, their recordings are written and nothing else") {
  const Ran ran = run_in_folder("memest record --quiet " + kSizes + "-o run.memrec " + kMade +
                                "parting; echo $?; ls");
  CHECK(ran.out == "4\nrun.batch-2.seq-512.memrec\nrun.batch-5.seq-512.memrec\ntests\n");
  CHECK_THAT(ran.err, ContainsSubstring("the runs part in the forward of step 1"));
}

TEST_CASE("programs that fail at a point are told apart") {
  const Ran full = run_shell("memest record " + kSizes + kMade + "full");
  CHECK(full.code == 4);
  CHECK_THAT(full.err, ContainsSubstring("a request of 1,024 B fails"));
  const Ran broken = run_shell("memest record " + kSizes + kMade + "broken");
  CHECK(broken.code == 3);
  CHECK_THAT(broken.err,
             ContainsSubstring("at batch=2 seq=512 the program ended with exit code 7"));
}

TEST_CASE("words with braces of their own are left alone") {
  const Ran ran = run_shell(
      "memest record --vary n=1,2,3 -- sh -c 'echo said $0 $1 $2 $3' {n} {{n}} '{\"a\": {}}' {0}");
  CHECK_THAT(ran.err, ContainsSubstring("said 1 {n} {\"a\": {}} {0}\n"));
}

TEST_CASE("mistakes of --vary are told before anything runs") {
  const auto error = [](const std::string& words) {
    const Ran ran = run_shell("memest record " + words);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, !ContainsSubstring("run 1 of"));
    return ran.err;
  };
  CHECK_THAT(error("--vary seq -- echo {seq}"),
             ContainsSubstring("takes a name and whole numbers"));
  CHECK_THAT(error("--vary seq=1,2 -- echo {seq}"), ContainsSubstring("three values or more"));
  CHECK_THAT(error("--vary seq=1,2,2 -- echo {seq}"), ContainsSubstring("has a value twice"));
  CHECK_THAT(error("--vary seq=1,2,3 --vary seq=1,2,3 -- echo {seq}"),
             ContainsSubstring("names 'seq' twice"));
  CHECK_THAT(error("--vary seq=1,2,3 -- echo {sec} {seq}"),
             ContainsSubstring("the program's words have {sec}, which no --vary names"));
  CHECK_THAT(error("--vary seq=1,2,3 -- echo {sec} {seq}"),
             ContainsSubstring("did you mean 'seq'?"));
  CHECK_THAT(error("--vary seq=1,2,3 -- echo seq"),
             ContainsSubstring("no word of the program has {seq}"));
  CHECK_THAT(error("--vary a=1,2,3 --vary b=1,2,3 --vary c=1,2,3 --vary d=1,2,3 -- echo {a}"),
             ContainsSubstring("more than three numbers"));
}

TEST_CASE("mistakes of --at and --largest name what was varied") {
  const auto error = [](const std::string& words) {
    const Ran ran = run_shell("memest replay tests/record/" + words);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK_THAT(error("family.memrec"), ContainsSubstring("is a recording for many sizes"));
  CHECK_THAT(error("family.memrec --at batch=2"), ContainsSubstring("--at seq=896"));
  CHECK_THAT(error("family.memrec --at bach=2 --at seq=1"),
             ContainsSubstring("did you mean 'batch'?"));
  CHECK_THAT(error("family.memrec --at batch=two --at seq=1"),
             ContainsSubstring("takes a name and a whole number"));
  CHECK_THAT(error("family.memrec --at batch=2 --at batch=3 --at seq=1"),
             ContainsSubstring("names 'batch' twice"));
  CHECK_THAT(error("family.memrec --at batch=2 --largest batch --at seq=1"),
             ContainsSubstring("both name 'batch'"));
  CHECK_THAT(error("trained.memrec.gz --at batch=2"), ContainsSubstring("has sizes of its own"));
}

TEST_CASE("the largest value is one that fits, before one that does not") {
  const auto fits = [](std::int64_t batch) {
    return run_shell(
               "memest replay tests/record/family.memrec --memory 24GiB --at seq=1024 --at "
               "batch=" +
               std::to_string(batch))
               .code == 0;
  };
  const json played = json::parse(
      run_shell("memest replay tests/record/family.memrec --memory 24GiB --at seq=1024 --largest "
                "batch --format json")
          .out)["played"];
  const std::int64_t largest = played[0]["at"]["batch"];
  CHECK(played[1]["at"]["batch"] == largest + 1);
  CHECK(fits(largest));
  CHECK_FALSE(fits(largest + 1));
  const Ran none = run_shell(
      "memest replay tests/record/family.memrec --memory 600MiB --at seq=4096 --largest batch");
  CHECK(none.code == 1);
  CHECK_THAT(none.out, ContainsSubstring("no batch fits, not even 1"));
}

}  // namespace
}  // namespace memest
