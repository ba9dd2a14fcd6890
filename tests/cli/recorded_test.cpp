// Commands of specs, asked about what memest record wrote: the same run through every one of them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::string kWorked = "tests/record/worked.memrec.gz ";
const std::string kFamily = "tests/record/family.memrec ";

json answer_of(const std::string& words) {
  const Ran ran = run_shell("memest " + words + " --format json");
  INFO(ran.err);
  REQUIRE(ran.code < 2);
  return json::parse(ran.out);
}

TEST_CASE("estimate, plan, check, timeline and replay tell one memory and one time of a run") {
  const std::string gpu = "--gpu a100-sxm-80gb";
  const json played = answer_of("replay " + kWorked + gpu)["played"][0];
  CHECK(answer_of("estimate " + kWorked + gpu)["played"][0] == played);
  const json planned = answer_of("plan " + kWorked + gpu)["plans"][0];
  CHECK(planned["reserved_peak_bytes"] == played["reserved_peak_bytes"]);
  CHECK(planned["time"] == played["time"]);
  const json timeline = answer_of("timeline " + kWorked + gpu);
  CHECK(timeline["reserved_peak_bytes"] == played["reserved_peak_bytes"]);
  CHECK(timeline["allocated_peak_bytes"] == played["allocated_peak_bytes"]);
  const json checked = answer_of("check " + kWorked + gpu + " --set budget.step_time=1s");
  const json& lines = checked["files"][0]["budgets"];
  CHECK(lines[1]["value"] == played["time"]["step_seconds"]);
  const json roofline = answer_of("roofline " + kWorked + gpu);
  double seconds = 0;
  for (const json& operation : roofline["operations"])
    seconds += operation["seconds"].get<double>();
  CHECK(seconds <= played["time"]["device_seconds"].get<double>() * (1 + 1e-9));
  CHECK(roofline["gpu"] == "a100-sxm-80gb");
}

TEST_CASE("plan takes of an open number what fits, and ranks GPU types by what a unit costs") {
  const json plan =
      answer_of("plan " + kFamily + "--at seq=1024 --gpu l4,a100-sxm-80gb,h100-sxm-80gb");
  CHECK(plan["open"] == "batch");
  double before = 0;
  for (const json& row : plan["plans"]) {
    const json largest = answer_of("replay " + kFamily + "--at seq=1024 --at batch=" +
                                   std::to_string(row["units"].get<int>()) + " --memory 1TiB");
    CHECK(largest["played"][0]["reserved_peak_bytes"] == row["reserved_peak_bytes"]);
    CHECK(row["reserved_peak_bytes"] <= row["available_bytes"]);
    CHECK(row["dollars_a_unit"].get<double>() >= before);
    before = row["dollars_a_unit"].get<double>();
  }
  CHECK(plan["plans"].size() == 3);
  const Ran two = run_shell("memest plan " + kFamily);
  CHECK(two.code == 2);
  CHECK(two.err ==
        "error: the recording is for every batch and seq, of which one may be left open\n"
        "    = hint: as in --at seq=896\n");
  CHECK(run_shell("memest plan " + kWorked + "--gpu l4 --set hardware.memory=1MiB").code == 1);
}

TEST_CASE("a family's step has its work at every size, and a run that parts says why it has none") {
  // 2·m·n·k of the one product, which has a row for each token.
  const json time =
      answer_of("estimate " + kFamily + "--at batch=7 --at seq=4096")["played"][0]["time"];
  CHECK(time["flops"] == std::int64_t{2} * 7 * 4096 * 1024 * 1024);
  const Ran idle = run_shell(
      "cd $(mktemp -d) && ln -s \"$OLDPWD/tests\" tests && memest record --quiet --vary "
      "batch=2,3,5 "
      "--vary seq=512,640,896 -o run.memrec -- sh tests/record/made.sh {batch} {seq} idle && "
      "memest "
      "estimate run.memrec --at batch=2 --at seq=512");
  CHECK(idle.code == 0);
  CHECK_THAT(idle.out, ContainsSubstring("A step has no time: the work of a step parts: "));
}

TEST_CASE("a spec that names a recording is checked, locked and held") {
  const std::string folder =
      "cd $(mktemp -d) && cp \"$OLDPWD/tests/record/worked.memrec.gz\" run.memrec.gz && printf "
      "'recording: run.memrec.gz\\nhardware: {gpu: l4}\\nbudget: {memory: 20GiB}\\n' > job.yaml "
      "&& ";
  const Ran held =
      run_shell(folder +
                "memest check --quiet . ; echo $? && memest check . --update > /dev/null && "
                "memest check . > /dev/null; echo $? && sed -i 's/20GiB/20MiB/' job.yaml && "
                "memest check job.yaml; echo $?");
  CHECK_THAT(held.out, ContainsSubstring("0\n0\n1 spec: 1 over budget"));
  CHECK_THAT(held.out, ContainsSubstring("memory: "));
  const Ran moved =
      run_shell(folder +
                "memest check . --update > /dev/null && sed -i 's/l4/a100-sxm-80gb/' job.yaml && "
                "memest check .; echo $?");
  CHECK_THAT(moved.out, ContainsSubstring("hardware.gpu"));
  CHECK(moved.out.ends_with("1\n"));
}

TEST_CASE("diff sets two recordings beside each other, and a run beside its spec in either order") {
  const json diff = answer_of("diff " + kWorked + "tests/record/trained.memrec.gz");
  CHECK(diff["figures"][0]["name"] == "allocated_peak_bytes");
  const json a = answer_of("replay " + kWorked + "--memory 1TiB")["played"][0];
  CHECK(diff["figures"][0]["a"] == a["allocated_peak_bytes"]);
  const Ran same = run_shell("memest diff " + kWorked + kWorked);
  CHECK_THAT(same.out, ContainsSubstring("both allocate"));
  CHECK(run_shell("memest diff gpt2 " + kWorked).out ==
        run_shell("memest diff " + kWorked + " gpt2").out);
  const Ran full = run_shell("memest diff " + kWorked + "tests/record/ran_out.memrec.gz");
  CHECK(full.code == 1);
  CHECK_THAT(full.out, ContainsSubstring("ran_out.memrec.gz runs out of memory"));
}

TEST_CASE("a program that failed when it was recorded fits nothing that is known") {
  const std::string failed = "tests/record/ran_out.memrec.gz";
  for (const std::string command : {"estimate ", "check ", "timeline ", "plan "}) {
    const Ran ran = run_shell("memest " + command + failed + " --gpu h100-sxm-80gb");
    INFO(command);
    CHECK(ran.code == 4);
    CHECK_THAT(ran.out, ContainsSubstring("what its rest asks for"));
  }
  CHECK(run_shell("memest replay " + failed + " --memory 24GiB").code == 4);
  for (const std::string command : {"estimate ", "timeline ", "plan "}) {
    const json answer = json::parse(
        run_shell("memest " + command + failed + " --gpu h100-sxm-80gb --format json").out);
    const json& run = answer.contains("plans")    ? answer["plans"][0]
                      : answer.contains("played") ? answer["played"][0]
                                                  : answer;
    INFO(command);
    CHECK(run["fits"].is_null());
    CHECK(run["fits_unavailable"].is_string());
  }
  CHECK(run_shell("memest estimate " + failed + " --gpu l4 --set hardware.memory=100MiB").code ==
        1);
}

TEST_CASE("the device that was recorded is asked about, and no GPU has more than it has") {
  const std::string small =
      "d=$(mktemp) && sed 's/# total: .*/# total: 700000000/' tests/record/family.memrec > $d && "
      "memest estimate $d --at batch=5 --at seq=896 ";
  CHECK(run_shell(small).code == 1);
  CHECK(run_shell(small + "--gpu l4").code == 0);
  const json large = answer_of("estimate " + kFamily +
                               "--at batch=5 --at seq=896 --gpu l4 --set hardware.memory=75GiB");
  const json own = answer_of("estimate " + kFamily + "--at batch=5 --at seq=896 --gpu l4");
  CHECK(large["played"][0]["available_bytes"] == own["played"][0]["available_bytes"]);
}

TEST_CASE(
    "mistakes in a spec of a recording have their place, and what takes none says what does") {
  const auto error = [](const std::string& text) {
    const Ran ran = run_shell("cd $(mktemp -d) && printf '" + text +
                              "' > job.yaml && memest estimate job.yaml");
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(error("recording: gone.memrec\\n") ==
        "job.yaml:1:12: error: cannot open 'gone.memrec': No such file or directory\n"
        "  1 | recording: gone.memrec\n"
        "    |            ^~~~~~~~~~~\n"
        "    = hint: a path is relative to the file that names it\n");
  CHECK_THAT(error("recording: job.yaml\\nat: {batch: x}\\n"),
             ContainsSubstring("this is no allocator trace"));
  const Ran size = run_shell(
      "cd $(mktemp -d) && cp \"$OLDPWD/tests/record/family.memrec\" . && printf "
      "'recording: family.memrec\\nat: {batch: x, seq: 4}\\n' > job.yaml && memest "
      "estimate job.yaml");
  CHECK_THAT(size.err,
             ContainsSubstring("job.yaml:2:13: error: a size is a whole number from 1 to 2^40"));
  for (const std::string command : {"explain ", "fit ", "export --to accelerate "}) {
    CHECK_THAT(run_shell("memest " + command + kFamily).err,
               ContainsSubstring("this is a recorded run, no spec"));
  }
  CHECK(run_shell("memest plan " + kWorked + "--tokens 1B").err ==
        "error: --tokens is for the plan of a spec, and this is a recorded run\n"
        "    = hint: the number that --at leaves open is searched\n");
}

TEST_CASE("what a recording does not tell is refused by name") {
  CHECK_THAT(run_shell("memest timeline " + kWorked + "--pack x").err,
             ContainsSubstring("--pack is for the timeline of a spec"));
  CHECK(run_shell("memest roofline tests/record/trained.memrec.gz").code == 4);
  CHECK_THAT(run_shell("memest roofline tests/record/trained.memrec.gz").err,
             ContainsSubstring("the recording says no GPU"));
  CHECK_THAT(run_shell("memest estimate gpt2 --at batch=2").err,
             ContainsSubstring("unknown key 'at'"));
  CHECK_THAT(run_shell("memest timeline gpt2 --against " + kFamily).err,
             ContainsSubstring("this is a recording for many sizes, and no trace of one"));
}

}  // namespace
}  // namespace memest
