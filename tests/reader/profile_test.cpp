#include "memest/reader/profile.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<GpuProfile> read_text(std::string text) {
  return read_profile(
      std::make_shared<const SourceText>(SourceText{"gpu.profile.yaml", std::move(text)}));
}

GpuProfile full_profile() {
  GpuProfile profile;
  profile.gpu = "h100-sxm-80gb";
  profile.load = Load::sustained;
  profile.origin = {.date = "2026-01-31",
                    .device = "NVIDIA \"H100\"",
                    .driver = "580.1",
                    .libraries = {"CUDA 13.0", "cuBLAS 13.1"},
                    .burst_clock_mhz = 1980,
                    .sustained_clock_mhz = 1410.5,
                    .sources = {"a", "b"}};
  const LawResiduals residuals{.fitted = 60,
                               .tested = 1000,
                               .mean_absolute = 0.04,
                               .bias = -0.01,
                               .low = -0.05,
                               .high = 0.07,
                               .shortest = 20e-6,
                               .longest = 0.04};
  MatmulLaw with_cast{
      .product = {}, .data_gradient = 1.01, .weight_gradient = 0.95, .cast = StreamLaw{}};
  profile.matmuls = {
      {{}, {}, residuals, Provenance::measured},
      {{.operand = DType::fp8, .scaling = OperandScaling::per_tensor, .cast_included = true},
       with_cast,
       residuals,
       Provenance::public_},
      {{.operand = DType::fp4, .scaling = OperandScaling::block_16, .cast_included = true},
       with_cast,
       residuals,
       Provenance::public_}};
  profile.attentions = {{{.kernel = "cudnn", .pass = KernelPass::backward, .causal = false},
                         {},
                         residuals,
                         Provenance::measured}};
  profile.streams = {{{.op = StreamOp::cross_entropy}, {}, residuals, Provenance::measured}};
  profile.collectives = {{{.gpus = 8}, {}, residuals, Provenance::public_}};
  profile.transfers = {{TransferPath::device_to_host_pinned, {}, residuals, Provenance::public_}};
  profile.launches = {{LaunchPath::graph, {}, residuals, Provenance::datasheet}};
  profile.fitted = {{"samples.csv", {2, 3, 5, 8}}};
  return profile;
}

TEST_CASE("a profile that is written, read and written is the same", "[reader]") {
  const std::string text = write_profile(full_profile());
  const Checked<GpuProfile> read = read_text(text);
  for (const Diagnostic& diagnostic : read.diagnostics()) UNSCOPED_INFO(diagnostic.message);
  REQUIRE(read.ok());
  CHECK(write_profile(read.value()) == text);
  CHECK(read.value().matmuls[1].kind == full_profile().matmuls[1].kind);
  CHECK(read.value().attentions[0].kind == full_profile().attentions[0].kind);
  CHECK(read.value().fitted[0].lines == full_profile().fitted[0].lines);
}

TEST_CASE("a profile of another form is refused with what to do", "[reader]") {
  const Checked<GpuProfile> read = read_text("format_version: 7\nlaws: none\n");
  REQUIRE_FALSE(read.ok());
  REQUIRE(read.diagnostics().size() == 1);
  CHECK(read.diagnostics()[0].message == "a profile of format 7; this memest reads 1");
  CHECK(read.diagnostics()[0].hint ==
        "`memest calibrate` writes it anew, with --from out of the samples beside it");
}

TEST_CASE("a broken profile has its mistakes at their places", "[reader]") {
  const Checked<GpuProfile> read = read_text(
      "format_version: 1\ngpu: h100-sxm-80gb\nload: burst\nlaunches:\n  - path: strem\n"
      "    provenance: measured\n    law: {seconds: 2}\n");
  REQUIRE_FALSE(read.ok());
  CHECK(read.diagnostics().size() == 3);  // the word, the unit, the residuals
}

/// A spec whose hardware.gpu is a file of `text` beside it.
Checked<Job> job_with_profile(const std::string& name, const std::string& text) {
  const auto folder = std::filesystem::temp_directory_path() / "memest_profile_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "own.profile.yaml") << text;
  const Checked<Job> job = read_job(std::make_shared<const SourceText>(
      SourceText{(folder / "spec.yaml").string(),
                 "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
                 "training: {seq_len: 128}\nhardware: {gpu: " +
                     name + "}\n"}));
  std::filesystem::remove_all(folder);
  return job;
}

TEST_CASE("a spec names a profile of its own as its GPU", "[reader]") {
  const Checked<Job> job = job_with_profile("own.profile.yaml", write_profile(full_profile()));
  REQUIRE(job.ok());
  const GpuSpec& gpu = job.value().hardware.gpu;
  CHECK(gpu.slug == "h100-sxm-80gb");
  CHECK(gpu.peak.contains(DType::bf16));
  REQUIRE(gpu.profile != nullptr);
  CHECK(gpu.profile->origin.date == full_profile().origin.date);
  CHECK(gpu.profile->matmuls.size() == full_profile().matmuls.size());
}

TEST_CASE("a spec's profile that is missing, broken or of no known GPU has its mistake",
          "[reader]") {
  CHECK_FALSE(job_with_profile("other.profile.yaml", "").ok());
  CHECK_FALSE(job_with_profile("own.profile.yaml", "format_version: 1\ngpu: h100\n").ok());
  GpuProfile unknown = full_profile();
  unknown.gpu = "abacus";
  const Checked<Job> job = job_with_profile("own.profile.yaml", write_profile(unknown));
  REQUIRE_FALSE(job.ok());
  CHECK(job.diagnostics().front().message == "unknown GPU 'abacus'");
}

}  // namespace
}  // namespace memest
