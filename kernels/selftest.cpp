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

/// Shares of the datasheet's bandwidth and peak, random data: the best published measurements of
/// copies and of matrix products reach them on parts that are not limited by their power.
constexpr double kCopyOfDatasheet = 0.90;
constexpr double kMatmulOfDatasheet = 0.78;

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
  shapes.emplace_back(MatmulShape{.operand = DType::fp8,
                                  .scaling = OperandScaling::fixed,
                                  .m = settings.largest_matmul,
                                  .n = settings.largest_matmul,
                                  .k = settings.largest_matmul});
  return shapes;
}

/// The datasheet's rate for the shape; nothing where it gives none.
std::optional<double> datasheet_rate(const KernelShape& shape, const GpuSpec* gpu) {
  if (gpu == nullptr) return std::nullopt;
  if (const auto* matmul = std::get_if<MatmulShape>(&shape)) {
    const auto peak = gpu->peak.find(matmul->operand);
    if (peak == gpu->peak.end()) return std::nullopt;
    return peak->second.value.value();
  }
  if (!gpu->memory_bandwidth) return std::nullopt;
  return gpu->memory_bandwidth->value.value();
}

/// Holds the rate to the datasheet; a peak is of its boost clock.
void hold_to_datasheet(const GpuSpec* gpu, RateVerdict& verdict) {
  constexpr double kMega = 1e6;
  const std::optional<double> most = datasheet_rate(verdict.shape, gpu);
  if (!most) return;
  verdict.share_of_datasheet = verdict.rate / *most;
  double clock = 1;
  const bool computes = std::holds_alternative<MatmulShape>(verdict.shape);
  if (computes && verdict.measured.clock_mhz > 0 && gpu->boost_clock) {
    clock = verdict.measured.clock_mhz * kMega / gpu->boost_clock->value.value();
  }
  verdict.utilization = *verdict.share_of_datasheet / clock;
  const auto* stream = std::get_if<StreamShape>(&verdict.shape);
  if (stream != nullptr && stream->op == StreamOp::copy) {
    verdict.datasheet_target = kCopyOfDatasheet;
  }
}

/// The target of products is of the best of them, without those in 8 bits.
void set_matmul_target(std::vector<RateVerdict>& rates) {
  RateVerdict* best = nullptr;
  for (RateVerdict& rate : rates) {
    const auto* matmul = std::get_if<MatmulShape>(&rate.shape);
    if (matmul == nullptr || matmul->operand == DType::fp8 || !rate.share_of_datasheet) continue;
    if (best == nullptr || rate.rate > best->rate) best = &rate;
  }
  if (best != nullptr) best->datasheet_target = kMatmulOfDatasheet;
}

/// Measures of products the best kernel that the library has: a ceiling is the best one's.
Measurement measure_rate(Backend& backend, const KernelShape& shape, const RulerSettings& ruler) {
  const auto* matmul = std::get_if<MatmulShape>(&shape);
  return matmul == nullptr ? backend.measure(shape, ruler) : backend.measure_best(*matmul, ruler);
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
    // The copy is timed first and is the measure of the others.
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
  // A kernel that spins for a given time tells whether the ruler reads it: the launch may add to
  // it, nothing may take off.
  const Seconds most = asked * (1 + kRulerShare) + kRulerLaunch;
  return measured.median >= asked * (1 - kRulerShare) && measured.median <= most;
}

bool RateVerdict::passed() const {
  const bool near_copy = !target || share_of_copy >= target;
  const bool near_datasheet = !datasheet_target || share_of_datasheet >= datasheet_target;
  return possible() && near_copy && near_datasheet;
}

bool Selftest::passed() const {
  return all_passed(kernels) && (!judges_times || (all_passed(ruler) && all_passed(rates)));
}

Selftest selftest_of(Backend& backend, const SelftestSettings& settings,
                     const std::function<void(const KernelShape&)>& begins) {
  Selftest selftest;
  selftest.judges_times = settings.judges_times;
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
    const Measurement measured = measure_rate(backend, shape, settings.ruler);
    selftest.rates.push_back(rate(shape, measured, selftest.rates));
    hold_to_datasheet(settings.datasheet, selftest.rates.back());
    if (!settings.judges_times) selftest.rates.back().target.reset();
  }
  set_matmul_target(selftest.rates);
  return selftest;
}

}  // namespace memest
