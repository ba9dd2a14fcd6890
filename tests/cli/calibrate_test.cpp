// `memest calibrate` as its users meet it, on the host: files whole, interrupted and gone on with.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "memest/reader/samples.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Catch::Matchers::WithinAbs;

/// A folder that goes away with the test, and the files of a run there.
struct Scratch {
  Scratch()
      : path(std::filesystem::temp_directory_path() /
             ("memest-calibrate-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }

  [[nodiscard]] std::string file(const char* name) const { return (path / name).string(); }
  [[nodiscard]] bool has(const char* name) const { return std::filesystem::exists(path / name); }

  std::filesystem::path path;
  std::string profile = file("host.profile.yaml");
  std::string samples = file("host.samples.csv");
  std::string part = file("host.samples.csv.part");
};

std::vector<std::string> lines_of_file(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(file_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// A sample that no run would measure: its line is known again.
std::string strange_line(const std::string& gpu) {
  Sample sample;
  sample.shape =
      MatmulShape{.operand = DType::fp32, .result = DType::fp32, .m = 77, .n = 777, .k = 7777};
  sample.seconds = Seconds(0.0123456789);
  sample.gpu = gpu;
  sample.source = "before";
  return sample_line(sample);
}

TEST_CASE("a short run on the host writes a profile and the samples that it is judged by") {
  const Scratch scratch;
  const Ran ran =
      run_shell("memest calibrate --device host --seconds 3 --output " + scratch.profile);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out.empty());
  CHECK(ran.err.find('\r') == std::string::npos);  // no progress where nobody watches
  CHECK_FALSE(scratch.has("host.samples.csv.part"));
  CHECK_THAT(file_text(scratch.profile), ContainsSubstring("\ngpu: host\n"));

  const Ran against = run_shell("memest profile " + scratch.profile + " --against " +
                                scratch.samples + " --format json");
  REQUIRE(against.code == 0);
  const auto answer = nlohmann::json::parse(against.out);
  std::map<std::string, double> errors;
  for (const auto& row : answer["errors"]) {
    if (row.contains("mean_absolute")) errors[row["kernel"]] = row["mean_absolute"];
  }
  REQUIRE_FALSE(answer["errors"].empty());
  for (const auto& law : answer["laws"]) {
    CHECK(law["provenance"] == "measured");
    INFO(law["kernel"]);
    const double fitted = law["mean_absolute"];
    CHECK_THAT(errors.at(law["kernel"]), WithinAbs(fitted, 0.01 + 0.05 * fitted));
  }
  // A spec may name it, like any GPU's.
  CHECK(run_shell("memest estimate gpt2 --gpu " + scratch.profile).code != 70);
}

TEST_CASE("a run goes on from the whole lines of the one before") {
  const Scratch scratch;
  const std::string before = strange_line("host");
  std::ofstream(scratch.part) << sample_head() << before
                              << before.substr(0, before.find("0.0123456789") + 5);
  const Ran ran =
      run_shell("memest calibrate --device host --seconds 1 --output " + scratch.profile);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK_FALSE(scratch.has("host.samples.csv.part"));
  const std::vector<std::string> lines = lines_of_file(scratch.samples);
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0] + "\n" == sample_head());
  CHECK(lines[1] + "\n" == before);
  CHECK(lines[2].find(",77,777,") == std::string::npos);  // not the torn one
  const auto table = read_samples(scratch.samples);
  REQUIRE(table.ok());
  CHECK(table.diagnostics().empty());
  CHECK(table.value().samples().size() == lines.size() - 1);
}

TEST_CASE("Ctrl-C ends a run after its shape, and the same command goes on") {
  const Scratch scratch;
  // The signal comes when the first sample is there, however long that takes.
  const Ran ran =
      run_shell("\"" MEMEST_BINARY "\" calibrate --device host --seconds 100 --output " +
                scratch.profile + " & run=$!\n" + "until { [ \"$(wc -l < " + scratch.part +
                ")\" -ge 2 ]; } 2> /dev/null; do :; done\n"
                "kill -INT $run; wait $run");
  INFO(ran.err);
  CHECK(ran.code == 130);
  CHECK_THAT(ran.err, ContainsSubstring("warning: interrupted before "));
  CHECK_THAT(ran.err, ContainsSubstring("the same command goes on from there"));
  CHECK_THAT(ran.err, ContainsSubstring("note: the samples so far are in '"));
  CHECK_FALSE(scratch.has("host.profile.yaml"));
  CHECK_FALSE(scratch.has("host.samples.csv"));
  const std::string kept = file_text(scratch.part);
  CHECK(kept.ends_with("\n"));
  REQUIRE(
      run_shell("memest calibrate --device host --seconds 1 --output " + scratch.profile).code ==
      0);
  CHECK_THAT(file_text(scratch.samples), StartsWith(kept));
}

TEST_CASE("what cannot be measured is refused with what to do") {
  const Scratch scratch;
  const auto refused = [](const std::string& flags, const std::string& message) {
    const Ran ran = run_shell("memest calibrate " + flags);
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, ContainsSubstring(message));
  };
  refused("--device host --output " + scratch.file("host.yaml"),
          "a measured profile goes to a file NAME.profile.yaml");
  refused("--device cpu", "--device is gpu or host, not 'cpu'");
  refused("--device host --gpu h100", "--device host is no GPU");
  refused("--seconds 0", "--seconds takes a count from 1 to 86,400, not '0'");
  refused("--quick --from x.csv", "--device, --quick and --seconds measure; --from does not");
  refused("--rows all", "--load and --rows are about samples from elsewhere");

  const std::string run = "--device host --seconds 1 --output " + scratch.profile;
  std::ofstream(scratch.part) << sample_head() << strange_line("h100-sxm-80gb");
  refused(run, "holds samples of 'h100-sxm-80gb', not of");
  std::ofstream(scratch.part) << "op,seconds\n";
  const Ran other = run_shell("memest calibrate " + run);
  CHECK(other.code == 3);
  CHECK_THAT(other.err, ContainsSubstring("is of another"));
  CHECK(file_text(scratch.part) == "op,seconds\n");
}

TEST_CASE("without a GPU a measurement ends with what is missing") {
  const Ran ran = run_shell("CUDA_VISIBLE_DEVICES= memest calibrate");
  CHECK(ran.code == 3);
  CHECK(ran.out.empty());
  CHECK_THAT(ran.err, StartsWith("error: no GPU can be measured here: "));
  CHECK_THAT(ran.err, ContainsSubstring("--device host measures the"));
}

TEST_CASE("a profile of samples without a source is one that memest reads") {
  const Scratch scratch;
  const std::string csv = scratch.file("few.csv");
  std::ofstream(csv) << "sku,op,dtype,m,n,k,seconds\n"
                        "L40S,gemm,bf16,4096,4096,4096,0.0006\n"
                        "L40S,gemm,bf16,8192,4096,4096,0.0013\n"
                        "L40S,gemm,bf16,8192,8192,4096,0.0026\n";
  const std::string profile = scratch.file("few.profile.yaml");
  REQUIRE(run_shell("memest calibrate --from " + csv + " --output " + profile).code == 0);
  const Ran shown = run_shell("memest profile " + profile);
  INFO(shown.err);
  CHECK(shown.code == 0);
}

TEST_CASE("a profile says measured of samples that memest took, public of others") {
  const Scratch scratch;
  const std::string csv = scratch.file("few.csv");
  const auto profile_of = [&](const char* first_source) {
    std::ofstream(csv) << "sku,op,dtype,m,n,k,seconds,source\n"
                          "L40S,gemm,bf16,4096,4096,4096,0.0006,"
                       << first_source
                       << "\nL40S,gemm,bf16,8192,4096,4096,0.0013,memest calibrate\n"
                          "L40S,gemm,bf16,8192,8192,4096,0.0026,memest calibrate\n";
    return run_shell("memest calibrate --from " + csv).out;
  };
  CHECK_THAT(profile_of("memest calibrate"), ContainsSubstring("provenance: measured\n"));
  CHECK_THAT(profile_of("a table"), ContainsSubstring("provenance: public\n"));
}

TEST_CASE("a profile of a GPU that nobody knows is refused by its name") {
  const Scratch scratch;
  const std::string profile = scratch.file("other.profile.yaml");
  REQUIRE(run_shell("sed 's/^gpu: .*/gpu: zzz/' configs/gpus/l4.profile.yaml > " + profile).code ==
          0);
  const Ran ran = run_shell("memest profile " + profile);
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("other.profile.yaml' is of no GPU"));
}

TEST_CASE("every row of a file comes back with a predicted time or an empty cell for it") {
  const Scratch scratch;
  const std::string csv = scratch.file("rows.csv");
  const std::string out = scratch.file("out.csv");
  const auto predict = [&](const std::string& rows) {
    std::ofstream(csv) << "sku,op,dtype,m,n,k,seconds,source\n" << rows;
    return run_shell("memest profile l40s --against " + csv + " --csv " + out);
  };
  Ran ran = predict(
      "L40S,gemm,bf16,4096,4096,4096,0.0006\n"
      "L40S,gemm,bf16,4096\n"
      "A100-SXM4-80GB,gemm,bf16,4096,4096,4096,0.0006,x\n");
  CHECK(ran.code == 0);
  std::vector<std::string> lines = lines_of_file(out);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "sku,op,dtype,m,n,k,seconds,source,predicted_seconds");
  CHECK_THAT(lines[1], StartsWith("L40S,gemm,bf16,4096,4096,4096,0.0006,,0.000"));
  CHECK(lines[2] == "L40S,gemm,bf16,4096,,,,,");
  CHECK_THAT(lines[3], StartsWith("A100-SXM4-80GB,gemm,bf16,4096,4096,4096,0.0006,x,0.000"));
  CHECK_THAT(ran.err, ContainsSubstring("warning: 1 of 2 samples are of other GPUs than L40S"));

  ran = predict("L40S,moe_experts_fwd,bf16,16,2048,512,0.001,x\n");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.err, ContainsSubstring("no law is about 'moe_experts_fwd'"));
  lines = lines_of_file(out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1] == "L40S,moe_experts_fwd,bf16,16,2048,512,0.001,x,");

  ran = run_shell("memest profile l40s --csv " + scratch.file("none.csv"));
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("--against FILE names them"));
  CHECK_FALSE(scratch.has("none.csv"));
}

TEST_CASE("a dry run lists shapes with their time and measures nothing") {
  const Ran ran = run_shell("memest calibrate --device host --seconds 5 --dry-run");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, ContainsSubstring(" shapes, about "));
  CHECK_THAT(ran.out, ContainsSubstring("matmul fp32 "));
  CHECK_THAT(ran.out, ContainsSubstring("to measure"));
}

}  // namespace
}  // namespace memest
