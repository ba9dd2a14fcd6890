#include "time/launch_rate.hpp"

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// Host seconds of a forward's launch where autograd writes its graph, over one without, of
/// PyTorch 2.11 under transformers 5.17: 19.2 over 14.9 ms in sixteen layers of LLaMA, 18.2 over
/// 14.3 in GPT-2's, a processor's own time where a device takes none.
constexpr double kGraphShare = 1.28;

/// Host seconds of a backward's launch over such a forward's: 9.4 over 14.8 µs in LLaMA's layers,
/// 14.0 over 26.7 in GPT-2's.
constexpr double kBackwardShare = 0.58;

/// The slower host of two virtual machines that steps were recorded on, by those that wait for
/// their launches: the median of 14 (docs/calibration.md, "An H200, measured").
constexpr double kSlowestTraining = 48e-6;

/// Host seconds of a launch in megatron-core's layers over one in transformers' of the same release
/// of PyTorch: their products, norms and gates are modules and autograd functions written in
/// Python. megatron-core 0.16.1, its local layers, beside transformers 5.17: 32.2 over 17.0 µs
/// forward and 14.9 over 10.5 backward in sixteen dense layers, 28.5 and 13.0 in eight of 64
/// experts, a processor's own time where a device takes none; the means of both models.
constexpr double kMegatronForward = 1.8;
constexpr double kMegatronBackward = 1.3;

/// Inductor's launch of a Triton kernel without arguments and with 19 of them, on a GB200's host
/// (meta-pytorch/tritonbench pull request 1017); at worst as slow as an eager one.
constexpr LaunchRate kCompiledLaunch{6.8e-6, 9.1e-6, kEagerLaunch.expected};

constexpr LaunchRate operator*(double share, const LaunchRate& rate) {
  return {share * rate.fast, share * rate.expected, share * rate.slow};
}

/// At best as fast as others: Transformer Engine's products, which stand for Megatron's own,
/// took 2.7 times the host's time of PyTorch's in August 2025 and about as long from January 2026
/// on (NVIDIA/TransformerEngine issues 2053 and 2126).
constexpr LaunchRate slowed(const LaunchRate& rate, double share) {
  return {rate.fast, share * rate.expected, share * rate.slow};
}

/// A forward of training, whose graph autograd writes.
constexpr LaunchRate kGraphLaunch = kGraphShare * kEagerLaunch;
constexpr LaunchRate kTrainingLaunch{kGraphLaunch.fast, kGraphLaunch.expected, kSlowestTraining};

}  // namespace

double LaunchRate::at(Outlook outlook) const {
  switch (outlook) {
    case Outlook::fast:
      return fast;
    case Outlook::expected:
      return expected;
    case Outlook::slow:
      return slow;
  }
  unreachable("every outlook has a rate");
}

LaunchRates launch_rates(const Implementation& implementation) {
  // A compiled backward is called by Python too.
  if (implementation.compile != CompileScope::off) return {kCompiledLaunch, kCompiledLaunch};
  const LaunchRates eager{kTrainingLaunch, kBackwardShare * kTrainingLaunch};
  if (!row_of(implementation.framework).has_layer_specs) return eager;
  return {slowed(eager.forward, kMegatronForward), slowed(eager.backward, kMegatronBackward)};
}

}  // namespace memest
