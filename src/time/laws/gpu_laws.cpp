#include "memest/time/gpu_laws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/time/kernel_law.hpp"
#include "time/laws/cool_share.hpp"
#include "time/laws/datasheet_laws.hpp"
#include "time/laws/nearest_fit.hpp"
#include "time/laws/unaligned_rows.hpp"

namespace memest {
namespace {

/// FLOP/s of attention's backward over its forward's: 0.76 to 0.87 of cuDNN's, 0.85 inside a
/// training loop (docs/calibration.md).
constexpr double kBackwardOverForward = 0.85;

/// Measured over predicted where a law is a sibling's: 10th and 90th percentile over pairs of
/// GPUs that were measured both (docs/calibration.md).
constexpr double kSiblingFast = 0.85;
constexpr double kSiblingSlow = 1.20;

/// Factor on an interval's ends for each doubling of time beyond the samples a law was fitted to
/// (docs/calibration.md).
constexpr double kDriftOfDoubling = 1.06;

/// `load` of what products lose where a step is nothing else.
double seconds_under(double load, const MatmulFit& fit, const MatmulShape& shape,
                     const Machine& machine) {
  MatmulLaw law = fit.law;
  law.product.sustained_load *= load;
  return seconds_of(law, shape, machine, Load::sustained);
}
double seconds_by(const AttentionFit& fit, const AttentionShape& shape, const Machine& machine) {
  if (fit.kind.pass == shape.pass) return seconds_of(fit.law, shape, machine);
  AttentionShape forward = shape;
  forward.pass = KernelPass::forward;
  // Five products against two: with equal head sizes 2.5 times the FLOPs, at 0.85 of the rate 2.9
  // times the time.
  const double more = flops_of(shape) / flops_of(forward) / kBackwardOverForward;
  return seconds_of(fit.law, forward, machine) * more;
}
double seconds_by(const StreamFit& fit, const StreamShape& shape, const Machine& machine) {
  return seconds_of(fit.law, shape, machine);
}
double seconds_by(const CollectiveFit& fit, const CollectiveShape& shape, const Machine&) {
  return seconds_of(fit.law, shape);
}
double seconds_by(const TransferFit& fit, const TransferShape& shape, const Machine&) {
  return seconds_of(fit.law, shape);
}
double seconds_by(const LaunchFit& fit, const LaunchShape&, const Machine&) {
  return fit.law.seconds;
}

const std::vector<MatmulFit>& fits_of(const GpuProfile& profile, const MatmulShape&) {
  return profile.matmuls;
}
const std::vector<AttentionFit>& fits_of(const GpuProfile& profile, const AttentionShape&) {
  return profile.attentions;
}
const std::vector<StreamFit>& fits_of(const GpuProfile& profile, const StreamShape&) {
  return profile.streams;
}
const std::vector<CollectiveFit>& fits_of(const GpuProfile& profile, const CollectiveShape&) {
  return profile.collectives;
}
const std::vector<TransferFit>& fits_of(const GpuProfile& profile, const TransferShape&) {
  return profile.transfers;
}
const std::vector<LaunchFit>& fits_of(const GpuProfile& profile, const LaunchShape&) {
  return profile.launches;
}

/// Operands whose rate the datasheet may not have; what streams or moves needs none.
std::optional<DType> operand_of(const MatmulShape& shape) { return shape.operand; }
std::optional<DType> operand_of(const AttentionShape& shape) { return shape.dtype; }
template <class Shape>
std::optional<DType> operand_of(const Shape&) {
  return std::nullopt;
}

/// How far beyond its samples a law of contractions is asked, as a factor on an interval's ends;
/// what streams or moves grows with its bytes alone.
template <class Shape>
double drift(const LawResiduals& samples, const Shape& shape, double seconds) {
  if (!operand_of(shape) || samples.longest == 0) return 1;
  const double beyond = std::max({seconds / samples.longest, samples.shortest / seconds, 1.0});
  return std::pow(kDriftOfDoubling, std::log2(beyond));
}

template <class Shape>
constexpr bool kIsCollective = std::is_same_v<Shape, CollectiveShape>;

}  // namespace

/// Prices the call that it is called with.
class Pricing {
 public:
  explicit Pricing(const GpuLaws& laws, double load = 1) : laws_(laws), load_(load) {}

  template <class Shape>
  CallPrice operator()(const Shape& shape) const {
    // Sources in their order: the GPU's own profile, siblings of its kind, and last the datasheet.
    for (const GpuLaws::Source& source : laws_.sources_) {
      const auto* fit = nearest_fit(fits_of(*source.profile, shape), shape);
      if (fit == nullptr || !holds(source, shape)) continue;
      return price_by(source, *fit, shape);
    }
    unreachable("the datasheet has a law for every call of a step");
  }

 private:
  [[nodiscard]] bool is_datasheet(const GpuLaws::Source& source) const {
    return source.profile == laws_.datasheet_.get();
  }

  /// Whether the source's laws can be evaluated here: fitted ones deal tiles to multiprocessors,
  /// and those of links need one.
  template <class Shape>
  [[nodiscard]] bool holds(const GpuLaws::Source& source, const Shape& shape) const {
    if (is_datasheet(source)) return true;
    if constexpr (kIsCollective<Shape>) {
      // Through the host, peer access makes a factor of ten between nodes of the same GPUs, so only
      // what was measured on the asker's own counts.
      const bool own_node = source.sibling.empty() &&
                            source.profile->collectives.front().provenance == Provenance::measured;
      return own_node || (laws_.gpu_->link_bandwidth && source.link_ratio > 0);
    }
    const GpuSpec& gpu = *laws_.gpu_;
    const auto operand = operand_of(shape);
    return gpu.multiprocessors && (!operand || gpu.peak.contains(*operand));
  }

  template <class Shape>
  [[nodiscard]] Machine machine_for(const GpuLaws::Source& source, const Shape& shape) const {
    const GpuSpec& gpu = *laws_.gpu_;
    const auto operand = operand_of(shape);
    const auto peak = operand ? gpu.peak.find(*operand) : gpu.peak.end();
    Machine machine;
    // The datasheet's rule knows no tiles.
    const bool deals_tiles = !is_datasheet(source) && gpu.multiprocessors;
    machine.multiprocessors = deals_tiles ? static_cast<double>(gpu.multiprocessors->value) : 1;
    machine.flops_per_second = peak == gpu.peak.end() ? std::numeric_limits<double>::infinity()
                                                      : peak->second.value.value();
    machine.bytes_per_second = gpu.memory_bandwidth->value.value();
    machine.l2_bytes = gpu.l2_cache ? gpu.l2_cache->value.as_double() : 0;
    return machine;
  }

  template <class Fit, class Shape>
  [[nodiscard]] double seconds_in_step(const Fit& fit, const Shape& shape,
                                       const Machine& machine) const {
    if constexpr (std::is_same_v<Shape, MatmulShape>) {
      return seconds_under(load_, fit, shape, machine);
    } else {
      return seconds_by(fit, shape, machine);
    }
  }

  template <class Fit, class Shape>
  [[nodiscard]] CallPrice price_by(const GpuLaws::Source& source, const Fit& fit,
                                   const Shape& shape) const {
    const Machine machine = machine_for(source, shape);
    const double roof = least_seconds(shape, machine);
    const double seconds =
        std::max(roof, seconds_in_step(fit, shape, machine) / ratio_of(source, shape));
    const bool borrowed = !source.sibling.empty();
    const double beyond = drift(fit.residuals, shape, seconds);
    // A law of this GPU is as good as its share of recorded steps; another's may be off by more.
    double fast = (borrowed ? kSiblingFast : 1) / beyond;
    double slow = (borrowed ? kSiblingSlow : 1) * beyond;
    if (is_datasheet(source)) {
      fast = 1 + fit.residuals.low;
      slow = 1 + fit.residuals.high;
    }
    CallPrice price{.fast = std::max({seconds * fast, roof, laws_.launch_}),
                    .expected = std::max(seconds, laws_.launch_),
                    .slow = std::max(seconds * slow, laws_.launch_),
                    .bound = bound_of(shape, machine),
                    .origin = {fit.provenance, source.sibling}};
    if constexpr (kIsCollective<Shape>) {
      if (!is_datasheet(source)) widen_to_datasheet(price, shape);
    }
    return price;
  }

  /// No kernel computes faster than the datasheet's rate, whatever share a law's fit reaches
  /// beyond its samples, and none of unaligned rows faster than was measured of them.
  template <class Shape>
  [[nodiscard]] double least_seconds(const Shape& shape, const Machine& machine) const {
    if constexpr (std::is_same_v<Shape, MatmulShape>) {
      const auto unaligned = share_of_unaligned(shape, laws_.gpu_->compute_capability());
      return flops_of(shape) / (machine.flops_per_second * unaligned.value_or(1));
    } else if constexpr (std::is_same_v<Shape, AttentionShape>) {
      return flops_of(shape) / machine.flops_per_second;
    } else {
      return 0;
    }
  }

  /// One node's links say little of another's.
  void widen_to_datasheet(CallPrice& price, const CollectiveShape& shape) const {
    const GpuLaws::Source& datasheet = laws_.sources_.back();
    const CollectiveFit* fit = nearest_fit(datasheet.profile->collectives, shape);
    if (fit == nullptr) return;
    const CallPrice other = price_by(datasheet, *fit, shape);
    price.fast = std::min(price.fast, other.fast);
    // Topology, NVLink bridges and peer access differ between nodes of equal GPUs.
    price.slow = std::max(price.slow, other.slow);
  }

  template <class Shape>
  [[nodiscard]] double ratio_of(const GpuLaws::Source& source, const Shape&) const {
    return kIsCollective<Shape> ? source.link_ratio : 1;
  }

  /// The datasheet's bound: the slower of FLOPs and bytes, or the launch where both take less.
  template <class Shape>
  [[nodiscard]] Bound bound_of(const Shape& shape, const Machine& machine) const {
    if constexpr (kIsCollective<Shape> || std::is_same_v<Shape, TransferShape>) {
      return Bound::link;
    } else if constexpr (std::is_same_v<Shape, LaunchShape>) {
      return Bound::launch;
    } else {
      double compute = 0;
      double traffic = 0;
      if constexpr (std::is_same_v<Shape, StreamShape>) {
        traffic = static_cast<double>(shape.bytes) / machine.bytes_per_second;
      } else {
        compute = flops_of(shape) / machine.flops_per_second;
        traffic = bytes_of(shape) / machine.bytes_per_second;
      }
      if (std::max(compute, traffic) < laws_.launch_) return Bound::launch;
      return compute >= traffic ? Bound::compute : Bound::memory;
    }
  }

  const GpuLaws& laws_;
  double load_ = 1;
};

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::link:
      return "link";
    case Bound::launch:
      return "launch";
    case Bound::other_ranks:
      return "other ranks";
    case Bound::loader:
      return "loader";
  }
  unreachable("every bound has a name");
}

std::string text_of(const LawOrigin& origin) {
  std::string text(name_of(origin.provenance));
  if (!origin.sibling.empty()) text += " (from " + std::string(origin.sibling) + ")";
  return text;
}

double CallPrice::at(Outlook outlook) const {
  switch (outlook) {
    case Outlook::fast:
      return fast;
    case Outlook::expected:
      return expected;
    case Outlook::slow:
      return slow;
  }
  unreachable("every outlook has a price");
}

GpuLaws::GpuLaws(const GpuSpec& gpu)
    : gpu_(&gpu), datasheet_(std::make_shared<const GpuProfile>(datasheet_laws(gpu))) {
  expect(gpu.memory_bandwidth.has_value(), "laws are in shares of a memory bandwidth");
  if (gpu.profile != nullptr) sources_.push_back({.profile = gpu.profile.get(), .sibling = {}});
  for (const Sibling& sibling : gpu.siblings) {
    sources_.push_back({sibling.profile.get(), sibling.profile->gpu, sibling.link_ratio});
  }
  sources_.push_back({.profile = datasheet_.get(), .sibling = {}});
  launch_ = Pricing(*this)(LaunchShape{}).expected;
}

CallPrice GpuLaws::price(const KernelShape& call, double load) const {
  return std::visit(Pricing(*this, load), call);
}

double GpuLaws::load_of_products(double share) const {
  const std::optional<double> cool = cool_share_of(*gpu_);
  return cool ? std::clamp((share - *cool) / (1 - *cool), 0.0, 1.0) : 1;
}

}  // namespace memest
