// Measurements of a GPU type: laws of its kernels' times, how well each holds, and where all
// of it comes from.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "memest/spec/gpu/time_law.hpp"

namespace memest {

/// How a law did on samples that it was not fitted to (on those it was, where no others are).
struct LawResiduals {
  std::int64_t fitted = 0;   ///< samples that the law was fitted to
  std::int64_t tested = 0;   ///< others
  double mean_absolute = 0;  ///< of predicted / measured − 1
  double bias = 0;           ///< of the summed time: Σ predicted / Σ measured − 1
  double low = 0;            ///< 10th percentile of measured / predicted − 1
  double high = 0;           ///< 90th percentile of measured / predicted − 1
  double shortest = 0;       ///< seconds, of the samples that it was fitted to
  double longest = 0;        ///< seconds, of the samples that it was fitted to; 0: not said
};

/// A law with what it is of: the same kernel in any size.
template <class Kind, class Law>
struct Fit {
  Kind kind;
  Law law;
  LawResiduals residuals;
  Provenance provenance = Provenance::public_;
};

struct MatmulKind {
  DType operand = DType::bf16;
  OperandScaling scaling = OperandScaling::none;
  bool tensor_float = false;
  bool cast_included = false;

  friend auto operator<=>(const MatmulKind&, const MatmulKind&) = default;
};
MatmulKind kind_of(const MatmulShape& shape);
using MatmulFit = Fit<MatmulKind, MatmulLaw>;

struct AttentionKind {
  std::string kernel;
  DType dtype = DType::bf16;
  KernelPass pass = KernelPass::forward;
  bool causal = true;

  friend auto operator<=>(const AttentionKind&, const AttentionKind&) = default;
};
AttentionKind kind_of(const AttentionShape& shape);
using AttentionFit = Fit<AttentionKind, AttentionLaw>;

struct StreamKind {
  StreamOp op = StreamOp::copy;
  KernelPass pass = KernelPass::forward;
  DType dtype = DType::bf16;

  friend auto operator<=>(const StreamKind&, const StreamKind&) = default;
};
StreamKind kind_of(const StreamShape& shape);
using StreamFit = Fit<StreamKind, StreamLaw>;

struct CollectiveKind {
  CollectiveOp op = CollectiveOp::all_reduce;
  std::int64_t gpus = 2;

  friend auto operator<=>(const CollectiveKind&, const CollectiveKind&) = default;
};
CollectiveKind kind_of(const CollectiveShape& shape);
using CollectiveFit = Fit<CollectiveKind, CollectiveLaw>;

TransferPath kind_of(const TransferShape& shape);
using TransferFit = Fit<TransferPath, TransferLaw>;

LaunchPath kind_of(const LaunchShape& shape);
using LaunchFit = Fit<LaunchPath, LaunchLaw>;

/// The fit of `shape`'s kind among `fits`, all of one operation; null where there is none.
template <class Fits, class Shape>
const typename Fits::value_type* find_fit(const Fits& fits, const Shape& shape) {
  const auto found =
      std::find_if(fits.begin(), fits.end(),
                   [kind = kind_of(shape)](const auto& fit) { return fit.kind == kind; });
  return found == fits.end() ? nullptr : &*found;
}

/// Where and when the samples were taken; what is not known is empty.
struct ProfileOrigin {
  std::string date;  ///< ISO 8601: of the measuring, or of the fit to samples from elsewhere
  std::string device;
  std::string driver;
  std::vector<std::string> libraries;
  double burst_clock_mhz = 0;
  double sustained_clock_mhz = 0;
  std::vector<std::string> sources;  ///< of samples from elsewhere, with licence
};

/// The machine that the laws' shares refer to, where no catalog has it: the host.
struct ProfiledMachine {
  std::int64_t multiprocessors = 1;
  Bytes memory;
  Bytes l2_cache;
  BytesPerSecond bandwidth;
  FlopsPerSecond fp32_peak;
};

/// Lines of a file of samples, from 1 on.
struct SampleLines {
  std::string file;
  std::vector<std::int64_t> lines;
};

struct GpuProfile {
  std::string gpu;          ///< slug of the GPU's facts
  Load load = Load::burst;  ///< that all samples were taken under; burst where some were
  ProfileOrigin origin;
  std::optional<ProfiledMachine> machine;
  std::vector<MatmulFit> matmuls;
  std::vector<AttentionFit> attentions;
  std::vector<StreamFit> streams;
  std::vector<CollectiveFit> collectives;
  std::vector<TransferFit> transfers;
  std::vector<LaunchFit> launches;
  std::vector<SampleLines> fitted;  ///< the samples that the laws were fitted to
};

/// The machine as a GPU called `slug`: best rates as peaks, tagged as measured.
GpuSpec gpu_of(const ProfiledMachine& machine, const std::string& slug);

}  // namespace memest
