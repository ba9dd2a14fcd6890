// memest record runs any program. Here it is a shell, which hands over what a run of PyTorch wrote.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

/// The program's script, in quotes for a shell within a shell.
Ran record(const std::string& flags, const std::string& script) {
  return run_shell("memest record " + flags + " -- sh -c '" + script + "'");
}

std::string hands_over(const std::string& recording) {
  return "gzip -dc tests/record/" + recording + ".memrec.gz > $MEMEST_RECORD_FOLDER/1.trace";
}

TEST_CASE("a program finds the pretended GPU in its environment") {
  const Ran ran = record("--gpu a100-sxm-80gb --memory 40GiB --steps 3",
                         "env | grep -E ^MEMEST_RECORD_ | sort");
  CHECK_THAT(ran.err, ContainsSubstring("MEMEST_RECORD_CAPABILITY_MAJOR=8\n"));
  CHECK_THAT(ran.err, ContainsSubstring("MEMEST_RECORD_MEMORY=42949672960\n"));
  CHECK_THAT(ran.err, ContainsSubstring("MEMEST_RECORD_NAME=NVIDIA A100 SXM4 80GB\n"));
  CHECK_THAT(ran.err, ContainsSubstring("MEMEST_RECORD_STEPS=3\n"));
  CHECK_THAT(ran.err, ContainsSubstring("MEMEST_RECORD_STRICT=0\n"));
}

TEST_CASE("a program that stands for one rank of many is told which") {
  const Ran ran = record("--world 16 --rank 11", "echo $RANK $WORLD_SIZE $LOCAL_RANK");
  CHECK_THAT(ran.err, ContainsSubstring("11 16 3\n"));
  const Ran alone = record("", "echo rank=$RANK");
  CHECK_THAT(alone.err, ContainsSubstring("rank=\n"));
}

TEST_CASE("a program that ran is told to fit, with exit code 0") {
  const Ran ran = record("--format json", hands_over("trained"));
  INFO(ran.err);
  CHECK(ran.code == 0);
  const json answer = json::parse(ran.out);
  CHECK(answer["fits"] == true);
  const json& process = answer["processes"].at(0);
  CHECK(process["allocated_peak_bytes"] == 82854912);
  CHECK(process["reserved_peak_bytes"] == 102760448);
  CHECK(process["measured_by"] == "statistics");
  CHECK(process["peak_phase"] == "step2.backward");
  CHECK(process["peak_places"].at(0)["place"] == "train.py:7 <module>");
  CHECK(process["reads"].at(0)["count"] == 2);
}

TEST_CASE("a program that ran out of memory does not fit: exit code 1, with the line") {
  const Ran ran = record("--memory 1.5GiB", hands_over("ran_out") + "; exit 1");
  INFO(ran.err);
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("does not fit in 1.50 GiB"));
  CHECK_THAT(ran.out, ContainsSubstring("Out of memory in step 2, which did not end: grows.py:8"));
  const json answer = json::parse(record("--format json", hands_over("ran_out") + "; exit 1").out);
  CHECK(answer["fits"] == false);
  CHECK(answer["exit_code"] == 1);
  CHECK(answer["processes"].at(0)["out_of_memory"]["place"] == "grows.py:8 <module>");
}

TEST_CASE("memory that ran out and was caught is told, and the program fits") {
  const Ran ran = record("--memory 1.5GiB", hands_over("ran_out"));
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, ContainsSubstring("fits in 1.50 GiB"));
  CHECK_THAT(ran.out, ContainsSubstring("Out of memory in step 2"));
}

TEST_CASE("a program that fails for a reason of its own, and one that uses no GPU: exit code 3") {
  const Ran failed = record("", hands_over("trained") + "; exit 7");
  CHECK(failed.code == 3);
  CHECK_THAT(failed.out, ContainsSubstring("The program ended with exit code 7"));
  CHECK_THAT(failed.out, !ContainsSubstring("fits in"));
  const json answer = json::parse(record("--format json", hands_over("trained") + "; exit 7").out);
  CHECK(answer["fits"].is_null());
  const Ran none = record("", "true");
  CHECK(none.code == 3);
  CHECK_THAT(none.out, StartsWith("No process of the program used a GPU through PyTorch"));
  const Ran killed = record("", hands_over("trained") + "; kill -9 $$");
  CHECK(killed.code == 3);
  CHECK_THAT(killed.out, ContainsSubstring("exit code 137"));
}

TEST_CASE("half a line of a process that was ended is left out") {
  const Ran ran =
      record("", hands_over("trained") + "; printf \"a 9999 12\" >> $MEMEST_RECORD_FOLDER/1.trace");
  INFO(ran.err);
  CHECK(ran.code == 0);
}

TEST_CASE("what the null device gives up for is the environment's failure, in one sentence") {
  const Ran ran = record("", "echo fault nothing works here > $MEMEST_RECORD_JOURNAL; exit 3");
  CHECK(ran.code == 3);
  CHECK(ran.err == "error: nothing works here\n");
  const Ran unknown =
      record("", hands_over("trained") + "; echo unanswered cuFoo > $MEMEST_RECORD_JOURNAL");
  CHECK(unknown.code == 0);
  CHECK_THAT(unknown.out, ContainsSubstring("not supported: cuFoo."));
  const Ran zero =
      record("", hands_over("trained") + "; echo zero Sizes of foo > $MEMEST_RECORD_JOURNAL");
  CHECK_THAT(zero.out, ContainsSubstring("Sizes of foo are not known, and taken as 0"));
}

TEST_CASE("a recording is a trace that other commands read") {
  const Ran ran = run_shell(
      "cd $(mktemp -d) && ln -s \"$OLDPWD/tests\" tests && memest record -o run.memrec -- sh -c '" +
      hands_over("trained") + "; cp $MEMEST_RECORD_FOLDER/1.trace $MEMEST_RECORD_FOLDER/2.trace'" +
      " > /dev/null && memest replay run.memrec run.1.memrec | head -n 1");
  INFO(ran.err);
  CHECK_THAT(ran.out, StartsWith("2 traces: 168 statistics"));
}

TEST_CASE("each device of a process is told by its number") {
  const std::string both = hands_over("trained") +
                           "; mv $MEMEST_RECORD_FOLDER/1.trace $MEMEST_RECORD_FOLDER/7.0.trace; " +
                           "cp $MEMEST_RECORD_FOLDER/7.0.trace $MEMEST_RECORD_FOLDER/7.2.trace; " +
                           "cp $MEMEST_RECORD_FOLDER/7.0.trace $MEMEST_RECORD_FOLDER/71.0.trace";
  const json answer = json::parse(record("--format json", both).out);
  REQUIRE(answer["processes"].size() == 3);
  CHECK(answer["processes"].at(0)["device"] == "1 of 2");
  CHECK(answer["processes"].at(1)["device"] == "2 of 2");
  CHECK(answer["processes"].at(1)["device_index"] == 2);
  CHECK(!answer["processes"].at(2).contains("device"));
  CHECK_THAT(record("", both).out, ContainsSubstring("device 2 of 2 (cuda:2): "));
  CHECK_THAT(record("--format csv", both).out, ContainsSubstring("rank,device,place"));
}

TEST_CASE("an interrupted program is told until then, with exit code 130 and without a folder") {
  const Ran ran = run_shell(
      "cd $(mktemp -d) && ln -s \"$OLDPWD/tests\" tests && mkdir t && TMPDIR=$PWD/t memest record "
      "-o "
      "run.memrec -- sh -c '" +
      hands_over("trained") +
      "; kill -INT $PPID; kill -INT $PPID; exit 130'; echo code $?; ls t | wc -l; ls *.memrec");
  INFO(ran.err);
  CHECK_THAT(ran.out, ContainsSubstring("The program ended with exit code 130"));
  CHECK_THAT(ran.out, ContainsSubstring("code 130\n0\nrun.memrec\n"));
}

TEST_CASE("what ends memest record ends the program") {
  const Ran ran = record("", hands_over("trained") + "; kill -TERM $PPID; sleep 60");
  CHECK(ran.code == 130);
  CHECK_THAT(ran.out, ContainsSubstring("The program ended with exit code 143"));
}

TEST_CASE("a path with blanks does not part the list of libraries") {
  const Ran ran = run_shell(
      "cd $(mktemp -d) && mkdir 'a b' && TMPDIR=\"$PWD/a b\" memest record -- sh -c 'echo "
      "$LD_PRELOAD' 2>&1 | grep -c ' '; true");
  CHECK_THAT(ran.out, StartsWith("1\n"));  // the answer's sentence alone
}

TEST_CASE("mistakes in a record's command line are told before anything runs") {
  const auto error = [](const std::string& words) {
    const Ran ran = run_shell("memest record " + words);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK_THAT(error("python train.py"), ContainsSubstring("has no use for 'python'"));
  CHECK_THAT(error("python train.py"), ContainsSubstring("stand behind --"));
  CHECK_THAT(error("--gpu h100"), ContainsSubstring("memest record needs PROGRAM..."));
  CHECK_THAT(error("--gpu mi300x -- true"), ContainsSubstring("MI300X cannot be pretended"));
  CHECK_THAT(error("--gpu h1000 -- true"), ContainsSubstring("h1000"));
  CHECK_THAT(error("--memory lots -- true"), ContainsSubstring("--memory takes a size as 80GiB"));
  CHECK_THAT(error("--world 8 --rank 8 -- true"), ContainsSubstring("there is no rank 8 of 8"));
  CHECK_THAT(error("--steps 0 -- true"), ContainsSubstring("--steps takes a count"));
  CHECK_THAT(error("--step 3 -- true"), ContainsSubstring("did you mean '--steps'?"));
  const Ran unknown = run_shell("memest record -- no-such-program");
  CHECK(unknown.code == 3);
  CHECK(unknown.err == "error: cannot run 'no-such-program': No such file or directory\n");
}

}  // namespace
}  // namespace memest
