// How far an estimate may be from a real run: quantiles of its residuals over recorded runs, from
// configs/residuals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/training.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// How widely a run was spread. Where one has no row, the row of the one before it stands for it.
enum class RunScale : std::uint8_t {
  one_gpu,
  several_gpus,  ///< one rank of many
  offloading,    ///< part of it lay on the host
  unrecorded     ///< nobody recorded one: what memest has read in the sources alone
};
inline constexpr std::size_t kRunScales = 4;

/// The method by which an estimate was made.
enum class EstimateMethod { closed_form, replay };

/// Shares of the closed form's `allocated`, or of the replay's `reserved`. Both ends are quantiles
/// over the same records.
struct Margin {
  EstimateMethod method = EstimateMethod::closed_form;
  double low = 0;  ///< the run's peak (allocated, or reserved) may be this share below the estimate
  double high = 0;  ///< the run's reserved peak may be this share above the estimate
  int records = 0;  ///< behind the two quantiles
  std::optional<Framework> implementation = {};  ///< whose runs they are; none: of all
  bool recomputes = false;                       ///< whether they recompute
  RunScale scale = RunScale::one_gpu;
  LayerSpec layers = LayerSpec::local;  ///< of runs of Megatron
  bool compiled = false;                ///< whether their layers are compiled or captured
  bool mixture = false;                 ///< of experts, where an implementation has runs enough
};

/// The margins of one implementation.
struct Margins {
  Margin kept;
  Margin recomputed;
};

/// The margins of every method.
struct MethodMargins {
  Margins closed_form;  ///< of what tensors take
  Margins replay;       ///< of what the allocator reserves
};

/// Ends of an interval as shares of what is expected. They hold 80 % of the runs of sources that
/// had no part in them: of a framework, a GPU or a year, left out in turn.
struct SourceMargin {
  double low = 0;   ///< below what is expected
  double high = 0;  ///< above it
  int runs = 0;     ///< behind the two
  int sources = 0;  ///< publications that they are from
  double held = 0;  ///< share of the runs within, of the kind of source that holds fewest
};

/// How much of the best measured pace the layout lacked that was predicted fastest, over published
/// cells: runs of one model by one framework on as many GPUs of a type, laid out differently.
struct OrderMargin {
  int cells = 0;
  int layouts = 0;  ///< of all cells
  // Shares of the pace.
  double median_lost = 0;
  double most_lost = 0;
};

/// Margins by what is told of a whole run.
struct SourceMargins {
  SourceMargin step;      ///< seconds
  SourceMargin reserved;  ///< bytes of the allocator
  SourceMargin device;    ///< bytes that nvidia-smi shows
  OrderMargin order;      ///< of layouts by their steps
};

/// Margins by RunScale.
using ScaledMargins = std::array<MethodMargins, kRunScales>;

/// A margin is a measured share, so its bytes are rounded outwards to whole ones.
Bytes share_rounded_up(Bytes whole, double share);

/// The `share` quantile of `values`, which are not empty, linear between neighbours.
double quantile(std::vector<double> values, double share);

const Margin& margin_of(const Margins& margins, const Recompute& recompute);

}  // namespace memest
