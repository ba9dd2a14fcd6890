#include "kernel_time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "memest/spec/gpu_profile.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Tokens of a sequence at which fused attention reaches half of its rate for long ones.
constexpr double kAttentionHalfLength = 500;

double compute_seconds(const OpWork& work, Pass pass, double seq_len, const Rates& rates) {
  const double flops = pass == Pass::forward ? work.forward.flops : work.backward.flops;
  if (flops == 0) return 0;
  const TypeRate& rate = rates.of(work.op->compute);
  if (work.op->kind != OpKind::attention) return rate.matmul > 0 ? flops / rate.matmul : 0;
  const double reached = pass == Pass::forward ? rates.attention_forward : rates.attention_backward;
  // Fused kernels skip the masked half that FlopCounterMode counts.
  const double executed = work.op->causal ? flops / 2 : flops;
  const double saturation = seq_len / (seq_len + kAttentionHalfLength);
  return rate.peak > 0 ? executed / (rate.peak * reached * saturation) : 0;
}

double bandwidth(OpKind kind, Pass pass, const Rates& rates) {
  if (class_of(kind) != OpClass::normalization) return rates.stream;
  return pass == Pass::forward ? rates.normalization_forward : rates.normalization_backward;
}

}  // namespace

KernelTime kernel_time(const OpWork& work, Pass pass, double seq_len, const Rates& rates) {
  const PassWork& amount = pass == Pass::forward ? work.forward : work.backward;
  if (amount.flops == 0 && amount.bytes == 0) return {};
  const double compute = compute_seconds(work, pass, seq_len, rates);
  const double traffic = amount.bytes / bandwidth(work.op->kind, pass, rates);
  const Bound bound = compute >= traffic && compute >= rates.launch ? Bound::compute
                      : traffic >= rates.launch                     ? Bound::memory
                                                                    : Bound::launch;
  if (const auto measured =
          rates.laws.seconds(pass == Pass::forward ? work.forward_calls : work.backward_calls)) {
    return {*measured, bound};
  }
  return {std::max({compute, traffic, rates.launch}), bound};
}

}  // namespace memest
