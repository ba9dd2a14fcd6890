// Time of forwards without gradients: of the prompts (prefill), and of each token behind them. The
// GPU computes what it is sent and Python sends it one kernel after another: a pass takes as long
// as the longer of the two, and with one token a sequence that is often Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/gpu_laws.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One forward, with what generate() does behind it.
struct ForwardTime {
  Seconds expected;
  Seconds low;
  Seconds high;
  Seconds kernels;              ///< that the GPU computes, expected
  Seconds host;                 ///< that the host takes to launch them, expected
  std::int64_t launched = 0;    ///< kernels
  Bound bound = Bound::memory;  ///< of most of `kernels`; launch where the host takes longer
};

struct InferenceTime {
  ForwardTime prefill;  ///< the forward of all prompts
  /// The pass that the first token behind the prompts' own takes, and the last; absent where
  /// generate() makes one token or none.
  std::optional<ForwardTime> first_token = {};
  std::optional<ForwardTime> last_token = {};
  Seconds whole;  ///< prefill and all tokens
  Seconds low;
  Seconds high;
  /// New tokens of all prompts over `whole`; where none are made, the prompts' own.
  double tokens_per_second = 0;
  LawOrigin origin;  ///< of the laws behind most of the prefill's kernels
  std::string_view rule;
  std::string_view host_source;  ///< of the host's rate
};

/// `job.inference` is present and `graph` is its own. Unavailable where the GPU has no rate for the
/// compute type or no memory bandwidth, or where layers are compiled. Throws OverflowError.
std::variant<InferenceTime, Unavailable> estimate_inference_time(const Graph& graph,
                                                                 const Job& job);

}  // namespace memest
