// A GPU type: what its datasheet says and what was measured, every value with its provenance.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Where a value comes from, best first.
enum class Provenance : std::uint8_t {
  measured,   ///< on such a GPU, by memest
  public_,    ///< published measurement
  datasheet,  ///< the vendor's
  computed,   ///< from datasheet values (cores × clock)
  disputed,   ///< sources disagree
  estimated,  ///< by a stated rule
  unverified  ///< no source read
};

/// "measured", "public", "datasheet", ...
std::string_view name_of(Provenance provenance);

template <class T>
struct Fact {
  T value{};
  Provenance provenance = Provenance::unverified;
  std::string source;
  std::string note;
};

/// An interval beside a fact, where one is known.
struct BytesRange {
  Bytes low;
  Bytes high;
};

struct GpuProfile;

/// Another GPU type that runs alike and was measured.
struct Sibling {
  std::shared_ptr<const GpuProfile> profile;
  double link_ratio = 0;  ///< this GPU's link over the sibling's; 0 where either has none
};

struct GpuSpec {
  std::string slug;  ///< "h100-sxm-80gb"
  std::string name;  ///< "H100 SXM5 80GB"
  std::string vendor;
  std::string architecture;
  GpuTarget target;
  std::vector<std::string> aliases;
  std::map<std::string, std::string> sources;  ///< what the letters of a fact's source stand for
  Fact<Bytes> capacity;                       ///< what the driver reports, not the name on the card
  std::optional<Fact<Bytes>> nominal_memory;  ///< the name on the card
  std::optional<Fact<BytesPerSecond>> memory_bandwidth;
  std::map<DType, Fact<FlopsPerSecond>>
      peak;  ///< dense peaks of fp32 and the tensor-core types, by operand type
  std::optional<Fact<FlopsPerSecond>> tf32_peak;  ///< fp32 operands on tensor cores
  std::optional<Fact<std::int64_t>> multiprocessors;
  std::optional<Fact<Hertz>> boost_clock;
  std::optional<Fact<Bytes>> l2_cache;
  std::optional<Fact<BytesPerSecond>> link_bandwidth;  ///< to its peers, both directions summed
  /// GPUs that its link joins, where that is more than a node: a rack's, behind switches of its
  /// own.
  std::optional<Fact<std::int64_t>> link_domain;
  /// To its host's memory where that is no PCI Express (NVLink-C2C), both directions summed.
  std::optional<Fact<BytesPerSecond>> host_link;
  std::optional<Fact<std::int64_t>> pcie_generation;
  std::optional<Fact<Watts>> power;
  std::optional<Fact<Bytes>>
      context;  ///< CUDA context and loaded modules, outside PyTorch's allocator
  std::optional<BytesRange> context_range;
  std::optional<Fact<Bytes>>
      host_memory;  ///< what a node that is rented with it has of the host's memory, a GPU
  std::shared_ptr<const GpuProfile> profile;  ///< what its kernels were measured to take, if ever
  std::vector<Sibling> siblings;              ///< the nearest first

  /// None of a GPU that runs no CUDA, or whose target is not known.
  [[nodiscard]] std::optional<ComputeCapability> compute_capability() const {
    const auto* capability = std::get_if<ComputeCapability>(&target);
    return capability == nullptr ? std::nullopt : std::optional(*capability);
  }
};

struct Price {
  std::string gpu;       ///< slug
  DollarsPerHour price;  ///< one GPU
  std::string provider;
  std::string source;
  std::string date;
  bool is_default = false;
};

}  // namespace memest
