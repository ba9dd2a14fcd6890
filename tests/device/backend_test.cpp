// The kernels, the libraries and the ruler on a real GPU. Each test is skipped where there is none.
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "memest/diag/environment.hpp"
#include "memest/kernels/selftest.hpp"
#include "memest/kernels/traffic.hpp"

using namespace memest;

namespace {

/// Null where there is no GPU, which is said.
Backend* gpu() {
  static const std::unique_ptr<Backend> only = []() -> std::unique_ptr<Backend> {
    try {
      return open_cuda_backend();
    } catch (const EnvironmentError& error) {
      WARN("skipped, no GPU: " << error.what());
      return nullptr;
    }
  }();
  return only.get();
}

/// Of the GPU, once.
const Selftest& selftest() {
  static const Selftest only = [] {
    SelftestSettings settings;
    settings.ruler.longest = Seconds(0.05);
    return selftest_of(*gpu(), settings, [](const KernelShape&) {});
  }();
  return only;
}

}  // namespace

TEST_CASE("every kernel of the GPU matches its reference") {
  if (gpu() == nullptr) return;
  CHECK(selftest().kernels.size() > 100);
  for (const KernelVerdict& verdict : selftest().kernels) {
    if (const auto* stream = std::get_if<StreamShape>(&verdict.shape)) {
      INFO(name_of(stream->op) << ' ' << name_of(stream->pass) << ' ' << name_of(stream->dtype)
                               << ' ' << stream->rows << ' ' << stream->columns);
      CHECK(verdict.passed());
    } else {
      const auto& matmul = std::get<MatmulShape>(verdict.shape);
      INFO(name_of(matmul.operand) << ' ' << name_of(matmul.pass) << ' ' << matmul.accumulates);
      CHECK(verdict.passed());
    }
  }
  for (const RulerVerdict& verdict : selftest().ruler) {
    INFO("asked " << verdict.asked.value() << ", measured " << verdict.measured.median.value());
    CHECK(verdict.passed());
  }
}

TEST_CASE("nothing is faster than the GPU can be") {
  if (gpu() == nullptr) return;
  // No GPU yet moves 20 TB/s or multiplies 20 PFLOP/s in bf16: faster is a measurement that missed
  // its kernel.
  for (const RateVerdict& rate : selftest().rates) {
    CHECK(rate.rate > 0);
    CHECK(rate.rate < (std::holds_alternative<MatmulShape>(rate.shape) ? 20e15 : 20e12));
  }
}

TEST_CASE("transfers, migrations and launches are measured") {
  if (gpu() == nullptr) return;
  const RulerSettings settings{.longest = Seconds(0.05)};
  for (const TransferPath path :
       {TransferPath::host_to_device_pinned, TransferPath::device_to_host_pinned,
        TransferPath::host_to_device_pageable, TransferPath::device_to_host_pageable,
        TransferPath::managed_migration}) {
    const TransferShape shape{.path = path, .bytes = 16 << 20};
    INFO(name_of(path));
    REQUIRE(gpu()->can_measure(shape));
    CHECK(gpu()->measure(shape, settings).median > Seconds(0));
  }
  const Seconds by_stream = gpu()->measure(LaunchShape{}, settings).median;
  const Seconds by_graph = gpu()->measure(LaunchShape{.path = LaunchPath::graph}, settings).median;
  CHECK(by_graph <= by_stream);
}

TEST_CASE("attention matches its reference, and backward takes longer than forward") {
  if (gpu() == nullptr) return;
  AttentionShape shape{.kernel = kGpuAttention,
                       .batch = 2,
                       .heads = 16,
                       .kv_heads = 4,
                       .seq_len = 1024,
                       .head_dim = 128,
                       .value_head_dim = 128};
  if (!gpu()->can_measure(shape)) {
    WARN("no cuDNN, or no frontend of it when this was built: attention is not tested");
    return;
  }
  const RulerSettings settings{.longest = Seconds(0.05)};
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t dim : {64, 128}) {
      for (const bool causal : {false, true}) {
        shape.dtype = dtype;
        shape.head_dim = shape.value_head_dim = dim;
        shape.causal = causal;
        INFO(name_of(dtype) << ' ' << dim << ' ' << causal);
        Seconds time{0};
        for (const KernelPass pass : {KernelPass::forward, KernelPass::backward}) {
          shape.pass = pass;
          for (const KernelCheck& check : gpu()->check(shape)) {
            INFO(name_of(pass) << ' ' << check.result << ' ' << check.error);
            CHECK(check.passed());
          }
          const Seconds measured = gpu()->measure(shape, settings).median;
          CHECK((attention_flops(shape) / measured).value() < 20e15);
          CHECK(measured > time);
          time = measured;
        }
      }
    }
  }
  shape.dtype = DType::fp32;
  CHECK_FALSE(gpu()->can_measure(shape));
}

TEST_CASE("the best matrix product is no slower than the one that frameworks run") {
  if (gpu() == nullptr) return;
  const MatmulShape shape{.m = 4096, .n = 4096, .k = 4096};
  const RulerSettings settings{.longest = Seconds(0.05)};
  const Seconds first = gpu()->measure(shape, settings).median;
  CHECK(gpu()->measure_best(shape, settings).median <= first * 1.02);  // two measurements
}

TEST_CASE("fp8 is measured with the cast of its input and without") {
  if (gpu() == nullptr) return;
  MatmulShape shape{.operand = DType::fp8,
                    .scaling = OperandScaling::fixed,
                    .cast_included = true,
                    .m = 4096,
                    .n = 1024,
                    .k = 4096};
  if (!gpu()->can_measure(shape)) return;  // before Ada
  for (const OperandScaling scaling : {OperandScaling::fixed, OperandScaling::per_tensor}) {
    shape.scaling = scaling;
    INFO(name_of(scaling));
    for (const KernelCheck& check : gpu()->check(shape)) CHECK(check.passed());
  }
  const RulerSettings settings{.longest = Seconds(0.05)};
  const Seconds with_fitting_cast = gpu()->measure(shape, settings).median;
  shape.scaling = OperandScaling::fixed;
  const Seconds with_cast = gpu()->measure(shape, settings).median;
  CHECK(with_cast < with_fitting_cast);
  shape.cast_included = false;
  CHECK(gpu()->measure(shape, settings).median < with_cast);
}
