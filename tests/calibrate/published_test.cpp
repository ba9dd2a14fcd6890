// The laws held to published measurements: fitted to at most 200 rows of a table, tested on its
// others. timing/README.md says where the tables are from.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "memest/calibrate/fit_profile.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/samples.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

using Catch::Matchers::WithinRel;

/// A table, fitted.
struct Fitted {
  GpuSpec gpu;
  GpuProfile profile;
  std::vector<Sample> others;  ///< samples that no law was fitted to
};

Fitted fit_table(const std::string& file, Load load = Load::burst) {
  const auto table = read_samples(std::string(MEMEST_TIMING_FOLDER) + "/" + file);
  REQUIRE(table.ok());
  std::vector<Sample> samples = table.value().samples();
  for (Sample& sample : samples) sample.load = load;
  Fitted result;
  result.gpu = find_gpu(samples.front().gpu).value();
  const ProfileFit fit = fit_profile(result.gpu, samples);
  result.profile = fit.profile;
  std::set<std::int64_t> lines;
  for (const Sample& sample : fit.fitted) lines.insert(sample.line);
  CHECK(fit.fitted.size() <= 200);
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(result.others),
               [&lines](const Sample& sample) { return !lines.contains(sample.line); });
  return result;
}

struct Errors {
  double mean_absolute = 0;
  double bias = 0;  ///< of the sum
  int rows = 0;
};

template <class Shape>
Errors errors_of(const Fitted& fitted, const std::function<bool(const Shape&, double)>& counts) {
  Errors errors;
  double predicted_sum = 0;
  double measured_sum = 0;
  for (const Sample& sample : fitted.others) {
    const Shape* shape = std::get_if<Shape>(&sample.shape);
    if (shape == nullptr || !counts(*shape, sample.seconds.value())) continue;
    const auto predicted = predict(fitted.profile, fitted.gpu, *shape, sample.load);
    REQUIRE(predicted);
    errors.mean_absolute += std::abs(predicted->value() / sample.seconds.value() - 1);
    predicted_sum += predicted->value();
    measured_sum += sample.seconds.value();
    ++errors.rows;
  }
  errors.mean_absolute /= errors.rows;
  errors.bias = predicted_sum / measured_sum - 1;
  return errors;
}

bool is_of_training(const MatmulShape& shape) {
  return shape.m >= 2048 && shape.n >= 1024 && shape.k >= 1024;
}

struct MatmulLine {
  const char* file;
  double training;   ///< mean absolute error over shapes of training
  double long_rows;  ///< and over all rows longer than 50 µs
};

TEST_CASE("the matmul law predicts bf16 products that it has not seen", "[calibrate]") {
  for (const MatmulLine& line : {MatmulLine{"gemm_a100_sxm.csv.gz", 0.04, 0.07},
                                 MatmulLine{"gemm_h100_sxm.csv.gz", 0.05, 0.06},
                                 MatmulLine{"gemm_l40s.csv.gz", 0.09, 0.12}}) {
    INFO(line.file);
    const Fitted fitted = fit_table(line.file);
    const Errors training = errors_of<MatmulShape>(fitted, [](const MatmulShape& shape, double) {
      return shape.operand == DType::bf16 && is_of_training(shape);
    });
    CHECK(training.rows > 800);
    CHECK(training.mean_absolute <= line.training);
    CHECK(std::abs(training.bias) <= 0.03);
    const Errors long_rows =
        errors_of<MatmulShape>(fitted, [](const MatmulShape& shape, double seconds) {
          return shape.operand == DType::bf16 && seconds > 50e-6;
        });
    CHECK(long_rows.mean_absolute <= line.long_rows);
  }
}

TEST_CASE("fp8 with the cast of its operand as a term of its own", "[calibrate]") {
  const Errors errors = errors_of<MatmulShape>(
      fit_table("gemm_h100_sxm.csv.gz"), [](const MatmulShape& shape, double) {
        return shape.scaling == OperandScaling::per_tensor && is_of_training(shape);
      });
  CHECK(errors.rows > 500);
  CHECK(errors.mean_absolute <= 0.05);
}

TEST_CASE("attention of a named kernel", "[calibrate]") {
  struct Line {
    const char* file;
    const char* kernel;
    double error;
  };
  for (const Line& line : {Line{"attention_a100_sxm.csv.gz", "flash_attention", 0.10},
                           Line{"attention_a100_sxm.csv.gz", "torch_flow", 0.10},
                           Line{"attention_a100_sxm.csv.gz", "vllm_flash_attn", 0.10},
                           Line{"attention_h100_sxm.csv.gz", "fa3", 0.13},
                           Line{"attention_h100_sxm.csv.gz", "torch_flow", 0.13},
                           Line{"attention_h100_sxm.csv.gz", "vllm_flash_attn_fa3", 0.13}}) {
    INFO(line.file << " " << line.kernel);
    const Errors errors = errors_of<AttentionShape>(
        fit_table(line.file), [&line](const AttentionShape& shape, double) {
          return shape.kernel == line.kernel && shape.causal && shape.seq_len >= 1024 &&
                 shape.head_dim == 128 && shape.heads >= 8;
        });
    CHECK(errors.rows > 30);
    CHECK(errors.mean_absolute <= line.error);
  }
}

TEST_CASE("collectives of eight GPUs, from 1 MiB on", "[calibrate]") {
  for (const char* file : {"nccl_a100_sxm.csv.gz", "nccl_h100_sxm.csv.gz"}) {
    INFO(file);
    Fitted fitted = fit_table(file);
    const auto table = read_samples(std::string(MEMEST_TIMING_FOLDER) + "/" + file);
    fitted.others = table.value().samples();  // a table is smaller than what may be fitted to
    const Errors errors =
        errors_of<CollectiveShape>(fitted, [](const CollectiveShape& shape, double) {
          return shape.gpus == 8 && shape.bytes >= 1 << 20;
        });
    CHECK(errors.rows >= 24);
    CHECK(errors.mean_absolute <= 0.12);
  }
}

TEST_CASE("all-reduces larger than any that a law was fitted to", "[calibrate]") {
  struct Published {
    const char* file;
    std::int64_t gibibytes;
    double busbw;  ///< B/s on 8 GPUs; for H100 the H200's, whose links are the same
  };
  // stas00/ml-engineering, network/README.md; the tables end at 256 MiB.
  for (const Published& published : {Published{"nccl_a100_sxm.csv.gz", 1, 229.0e9},
                                     Published{"nccl_a100_sxm.csv.gz", 16, 234.9e9},
                                     Published{"nccl_h100_sxm.csv.gz", 1, 463.6e9},
                                     Published{"nccl_h100_sxm.csv.gz", 16, 482.3e9}}) {
    INFO(published.file << " " << published.gibibytes << " GiB");
    const Fitted fitted = fit_table(published.file);
    const CollectiveShape shape{
        .op = CollectiveOp::all_reduce, .gpus = 8, .bytes = published.gibibytes << 30};
    const auto seconds = predict(fitted.profile, fitted.gpu, shape, Load::burst);
    REQUIRE(seconds);
    const double carried = static_cast<double>(shape.bytes) * ring_factor(shape);
    CHECK_THAT(carried / seconds->value(), WithinRel(published.busbw, 0.1));
  }
}

TEST_CASE("operators inside a training loop: sustained", "[calibrate]") {
  const Fitted matmuls = fit_table("simumax_gemm_a100_pcie.csv.gz", Load::sustained);
  const LawResiduals& matmul = matmuls.profile.matmuls.at(0).residuals;
  CHECK(matmul.fitted > 100);
  CHECK(matmul.mean_absolute <= 0.08);
  const Fitted attentions = fit_table("simumax_attention_a100_pcie.csv.gz", Load::sustained);
  REQUIRE(attentions.profile.attentions.size() == 2);
  for (const AttentionFit& fit : attentions.profile.attentions) {
    CHECK(fit.residuals.mean_absolute <= 0.08);
  }
}

}  // namespace
}  // namespace memest
