#include "memest/kernels/selftest.hpp"

#include <algorithm>
#include <array>

#include "kernels/description.hpp"
#include "memest/kernels/traffic.hpp"

namespace memest {
namespace {

constexpr double kRulerShare = 0.025;  // as nvbench asks of its own
constexpr Seconds kRulerLaunch{8e-6};  // likewise
constexpr std::array kSpins = {Seconds(2e-5), Seconds(2e-4), Seconds(5e-3)};
constexpr std::array kTypes = {DType::fp32, DType::bf16, DType::fp16, DType::fp8};

/// Sizes at which kernels are checked: whole vectors, odd ones, and rows longer than registers
/// hold.
struct Size {
  std::int64_t rows;
  std::int64_t columns;
};
constexpr std::array kCheckSizes = {Size{1, 1}, Size{37, 1001}, Size{16, 4096}, Size{2, 131'075}};

/// Shares of the device's own copy that kernels reach which read and write once and keep a row on
/// chip: reference measurements of such kernels on Hopper (QuACK, cuDNN-frontend).
struct Target {
  StreamOp op;
  KernelPass pass;
  double share;
};
constexpr std::array kTargets = {Target{StreamOp::softmax, KernelPass::forward, 0.95},
                                 Target{StreamOp::layernorm, KernelPass::forward, 0.95},
                                 Target{StreamOp::rmsnorm, KernelPass::forward, 0.95},
                                 Target{StreamOp::cross_entropy, KernelPass::forward, 0.95},
                                 Target{StreamOp::cross_entropy, KernelPass::backward, 0.95},
                                 Target{StreamOp::layernorm, KernelPass::backward, 0.80},
                                 Target{StreamOp::rmsnorm, KernelPass::backward, 0.80},
                                 Target{StreamOp::adamw, KernelPass::forward, 0.93}};

std::optional<double> target_of(const StreamShape& shape) {
  const auto* const found = std::find_if(
      kTargets.begin(), kTargets.end(),
      [&](const Target& target) { return target.op == shape.op && target.pass == shape.pass; });
  if (found == kTargets.end()) return std::nullopt;
  return found->share;
}

std::vector<KernelShape> shapes_to_check() {
  std::vector<KernelShape> shapes;
  for (const kernels::StreamKernel& kernel : kernels::stream_kernels()) {
    for (const DType dtype : kTypes) {
      for (const Size& size : kCheckSizes) {
        shapes.emplace_back(StreamShape{.op = kernel.op,
                                        .pass = kernel.pass,
                                        .dtype = dtype,
                                        .rows = size.rows,
                                        .columns = size.columns});
      }
    }
  }
  for (const DType operand : kTypes) {
    for (const DType result : {DType::fp32, DType::bf16}) {
      for (const MatmulPass pass :
           {MatmulPass::forward, MatmulPass::data_gradient, MatmulPass::weight_gradient}) {
        for (const bool option : {false, true}) {  // fp32 through TF32, others added to
          shapes.emplace_back(MatmulShape{.operand = operand,
                                          .result = result,
                                          .tensor_float = option && operand == DType::fp32,
                                          .pass = pass,
                                          .accumulates = option && operand != DType::fp32,
                                          .batch = 2,
                                          .m = 128,
                                          .n = 96,
                                          .k = 112});
        }
      }
    }
  }
  return shapes;
}

/// The device's copy comes first: the others are held against it.
std::vector<KernelShape> shapes_to_time(const Backend& backend, const SelftestSettings& settings) {
  const auto stream = [&](StreamOp op, KernelPass pass, DType dtype) {
    return StreamShape{
        .op = op, .pass = pass, .dtype = dtype, .rows = settings.rows, .columns = settings.columns};
  };
  const bool has_bf16 =
      backend.can_measure(stream(StreamOp::copy, KernelPass::forward, DType::bf16));
  const DType dtype = has_bf16 ? DType::bf16 : DType::fp32;
  std::vector<KernelShape> shapes = {stream(StreamOp::copy, KernelPass::forward, dtype)};
  for (const kernels::StreamKernel& kernel : kernels::stream_kernels()) {
    if (kernel.op != StreamOp::copy) shapes.emplace_back(stream(kernel.op, kernel.pass, dtype));
  }
  for (std::int64_t size = settings.largest_matmul; size >= settings.largest_matmul / 4;
       size /= 2) {
    shapes.emplace_back(
        MatmulShape{.operand = dtype, .result = dtype, .m = size, .n = size, .k = size});
  }
  return shapes;
}

RateVerdict rate(const KernelShape& shape, const Measurement& measured,
                 const std::vector<RateVerdict>& before) {
  RateVerdict verdict;
  verdict.shape = shape;
  verdict.measured = measured;
  if (const auto* matmul = std::get_if<MatmulShape>(&shape)) {
    verdict.rate = (matmul_flops(*matmul) / measured.median).value();
  } else if (const auto* stream = std::get_if<StreamShape>(&shape)) {
    verdict.rate = (stream_traffic(*stream).value_or(Bytes(0)) / measured.median).value();
    verdict.share_of_copy = before.empty() ? 1 : verdict.rate / before.front().rate;
    verdict.target = target_of(*stream);
  }
  return verdict;
}

template <class Verdicts>
bool all_passed(const Verdicts& verdicts) {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const auto& verdict) { return verdict.passed(); });
}

}  // namespace

bool KernelVerdict::passed() const { return all_passed(checks); }

bool RulerVerdict::passed() const {
  const Seconds most = asked * (1 + kRulerShare) + kRulerLaunch;
  return measured.median >= asked * (1 - kRulerShare) && measured.median <= most;
}

bool Selftest::passed() const {
  return all_passed(kernels) && all_passed(ruler) && all_passed(rates);
}

Selftest run_selftest(Backend& backend, const SelftestSettings& settings,
                      const std::function<void(const KernelShape&)>& begins) {
  Selftest selftest;
  for (const KernelShape& shape : shapes_to_check()) {
    if (!backend.can_measure(shape)) continue;
    begins(shape);
    selftest.kernels.push_back({.shape = shape, .checks = backend.check(shape)});
  }
  for (const Seconds time : kSpins) {
    selftest.ruler.push_back(
        {.asked = time, .measured = backend.measure_spin(time, settings.ruler)});
  }
  for (const KernelShape& shape : shapes_to_time(backend, settings)) {
    if (!backend.can_measure(shape)) continue;
    begins(shape);
    selftest.rates.push_back(rate(shape, backend.measure(shape, settings.ruler), selftest.rates));
  }
  return selftest;
}

}  // namespace memest
