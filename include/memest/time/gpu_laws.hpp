// Times of kernel calls on one GPU type within a training step: by the laws of its own profile,
// else of a sibling's, else of its datasheet. docs/calibration.md says which is nearest to what.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

enum class Bound : std::uint8_t { compute, memory, link, launch, other_ranks, loader };
std::string_view name_of(Bound bound);

/// How a time is known.
struct LawOrigin {
  Provenance provenance = Provenance::datasheet;
  std::string_view sibling;  ///< slug of the GPU that was measured in place of this one; or empty

  friend bool operator==(const LawOrigin&, const LawOrigin&) = default;
};
/// "public", "public (from h100-sxm-80gb)".
std::string text_of(const LawOrigin& origin);

/// Which end of an interval.
enum class Outlook : std::uint8_t { fast, expected, slow };

/// Seconds of a call alone, without what a step adds to its kernels.
struct CallPrice {
  double fast = 0;
  double expected = 0;
  double slow = 0;
  Bound bound = Bound::launch;
  LawOrigin origin;

  [[nodiscard]] double at(Outlook outlook) const;
};

class GpuLaws {
 public:
  /// `gpu` outlives this and has a memory bandwidth.
  explicit GpuLaws(const GpuSpec& gpu);

  /// The price of a call under sustained load. A product loses `load` of what it loses to the limit
  /// of power in a step of nothing else.
  [[nodiscard]] CallPrice price(const KernelShape& call, double load = 1) const;
  /// The price of a kernel that does nothing.
  [[nodiscard]] CallPrice price_of_empty() const {
    return {.fast = launch_, .expected = launch_, .slow = launch_, .origin = {}};
  }
  /// That load where products take `share` of the time of a step's kernels: 1 where nobody measured
  /// how it depends on that.
  [[nodiscard]] double load_of_products(double share) const;
  /// Whether GPUs of a node reach each other through their host alone.
  [[nodiscard]] bool through_host() const { return !gpu_->link_bandwidth; }
  /// Whether there is a link, so that collectives have a price.
  [[nodiscard]] bool know_collectives() const { return !datasheet_->collectives.empty(); }
  /// Whether PCIe's generation is known, so that copies from and to the host have a price.
  [[nodiscard]] bool know_transfers() const { return !datasheet_->transfers.empty(); }

 private:
  /// A profile whose laws hold here.
  struct Source {
    const GpuProfile* profile = nullptr;
    std::string_view sibling;  ///< its GPU, where that is another
    double link_ratio = 1;     ///< this GPU's link over that one's
  };
  friend class Pricing;

  const GpuSpec* gpu_;
  std::shared_ptr<const GpuProfile> datasheet_;
  std::vector<Source> sources_;  ///< the best first; the last has a law for every call
  double launch_ = 0;            ///< seconds that a kernel takes at least
};

}  // namespace memest
