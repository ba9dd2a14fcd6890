// Logs of nvidia-smi in its forms, and those that are refused by name.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_run.hpp"

namespace memest {
namespace {

Checked<std::optional<RecordedRun>> run_of(const std::string& text) {
  return find_run(std::make_shared<const SourceText>(SourceText{"gpu.log", text}));
}

UsageLog log_of(const std::string& text) {
  const auto run = run_of(text);
  REQUIRE(run.ok());
  REQUIRE(run.value());
  return std::get<UsageLog>(*run.value());
}

std::string fault_of(const std::string& text) {
  const auto run = run_of(text);
  return run.ok() ? "ok" : run.diagnostics().front().message;
}

}  // namespace

TEST_CASE("the peak of each GPU of nvidia-smi's table, with units and without", "[usage]") {
  for (const bool units : {true, false}) {
    const std::string unit = units ? " MiB" : "";
    const UsageLog log = log_of(
        "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
        "2026/11/24 10:00:00.000, 0, 3" +
        unit + ", 81559" + unit + "\n2026/11/24 10:00:00.001, 1, 512" + unit + ", 81559" + unit +
        "\n2026/11/24 10:00:01.000, 0, 71234" + unit + ", 81559" + unit +
        "\ntimestamp, index, memory.used [MiB], memory.total [MiB]\n"
        "2026/11/24 10:00:02.000, 0, 71233" +
        unit + ", 81559" + unit + "\n2026/11/24 10:00:02.001, 1, [N/A], [N/A]\n");
    CHECK(log.form == "nvidia-smi --query-gpu");
    REQUIRE(log.gpus.size() == 2);
    CHECK(log.gpus[0].name == "0");
    CHECK(log.gpus[0].peak == Bytes(71234 * kMiB));
    CHECK(log.gpus[0].line == 4);
    CHECK(log.gpus[0].samples == 3);
    CHECK(log.gpus[0].capacity == Bytes(81559 * kMiB));
    CHECK(log.gpus[1].peak == Bytes(512 * kMiB));
  }
}

TEST_CASE("a table of one column, and one that names GPUs otherwise", "[usage]") {
  const UsageLog one = log_of("memory.used [MiB]\n5 MiB\n7 MiB\n6 MiB\n");
  REQUIRE(one.gpus.size() == 1);
  CHECK(one.gpus[0].name.empty());
  CHECK(one.gpus[0].peak == Bytes(7 * kMiB));
  const UsageLog uuid = log_of("uuid, memory.used [MiB]\nGPU-ab, 5 MiB\nGPU-cd, 7 MiB\n");
  REQUIRE(uuid.gpus.size() == 2);
  CHECK(uuid.gpus[1].name == "GPU-cd");
}

TEST_CASE("dmon's and pmon's columns are found by their heads", "[usage]") {
  const UsageLog monitor = log_of(
      "# gpu     fb   bar1   ccpm \n# Idx     MB     MB     MB \n"
      "    0   1024      3      0 \n    1     10      3      0 \n    0   2048      3      0 \n"
      "# gpu     fb   bar1   ccpm \n# Idx     MB     MB     MB \n    0      -      3      0 \n");
  CHECK(monitor.form == "nvidia-smi dmon");
  REQUIRE(monitor.gpus.size() == 2);
  CHECK(monitor.gpus[0].peak == Bytes(2048 * kMiB));
  CHECK(monitor.gpus[0].line == 5);
  const UsageLog dated = log_of(
      "#Date       Time        gpu     fb \n#YYYYMMDD   HH:MM:SS    Idx     MB \n"
      " 20261124   10:00:00      0     77 \n");
  REQUIRE(dated.gpus.size() == 1);
  CHECK(dated.gpus[0].peak == Bytes(77 * kMiB));
  const UsageLog processes = log_of(
      "# gpu         pid   type     fb   ccpm    command \n# Idx           #    C/G     MB     MB  "
      "  name \n"
      "    0       4711     C    500      0    python         \n"
      "    0       4712     C    700      0    python         \n"
      "    1          -     -      -      -    -              \n");
  CHECK(processes.form == "nvidia-smi pmon");
  REQUIRE(processes.gpus.size() == 2);
  CHECK(processes.gpus[1].name == "0, process 4712");
}

TEST_CASE("a log in another form is refused by name", "[usage]") {
  const auto refusal = [](const std::string& form) {
    return "this is " + form + ", which memest does not read";
  };
  CHECK(fault_of("Tue Nov 24 10:00:00 2026\n+------------------+\n| NVIDIA-SMI 580 |\n") ==
        refusal("the table that nvidia-smi prints for people"));
  CHECK(fault_of("==============NVSMI LOG==============\n\nTimestamp : x\n") ==
        refusal("the text of nvidia-smi -q"));
  CHECK(fault_of("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"x.dtd\">\n") ==
        refusal("the XML of nvidia-smi -q -x"));
  CHECK(fault_of("#Entity   FBUSD\nID\nGPU 0  1\n") == refusal("a log of DCGM's dcgmi dmon"));
  CHECK(fault_of("2026/11/24 10:00:00.000, 0, 3 MiB\n") ==
        refusal("a log of nvidia-smi without the names of its columns"));
}

TEST_CASE("a log without the memory in use, and one whose figures are none", "[usage]") {
  CHECK(fault_of("timestamp, utilization.gpu [%]\n2026/11/24 10:00:00.000, 3 %\n") ==
        "the log has no column 'memory.used'");
  CHECK(fault_of("# gpu    pwr \n# Idx      W \n    0     70 \n") == "the log has no column 'fb'");
  CHECK(fault_of("timestamp, memory.used [MiB]\n2026/11/24 10:00:00.000, many\n") ==
        "expected the memory in use in MiB, not 'many'");
  CHECK(fault_of("timestamp, memory.used [MiB]\n2026/11/24 10:00:00.000\n") ==
        "expected the memory in use in MiB, not ''");
  CHECK(fault_of("timestamp, memory.used [MiB]\n2026/11/24 10:00:00.000, [N/A]\n") ==
        "the log has no figure under 'memory.used'");
  CHECK(fault_of("timestamp, memory.used [MiB]\n") == "the log has no figure under 'memory.used'");
  CHECK(fault_of("# gpu  fb \n# Idx  MB \n    0     -5 \n") ==
        "expected the memory in use in MB under 'fb', not '-5'");
}

TEST_CASE("a spec is no run, whatever it begins with", "[usage]") {
  for (const char* text : {"", "model: gpt2\n", "# gpu and its index\nmodel: gpt2\n",
                           "{\"model\": \"gpt2\", \"training\": {\"seq_len\": 8}}\n"}) {
    const auto run = run_of(text);
    REQUIRE(run.ok());
    CHECK_FALSE(run.value());
  }
}

}  // namespace memest
