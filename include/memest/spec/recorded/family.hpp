// A recorded program for other sizes: its requests in order, each with a formula in the numbers
// that were varied. `memest record --vary` writes one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "memest/spec/recorded/varied_work.hpp"
#include "memest/symbolic/size_formula.hpp"

namespace memest {

/// A number of the program that was varied.
struct VariedSize {
  std::string name;                  ///< "batch", as in {batch}
  std::vector<std::int64_t> values;  ///< that were recorded: positive, ascending, each once
};

struct RecordedFamily {
  std::vector<VariedSize> varied;
  std::vector<SizePoint> fitted;  ///< recordings that the formulas give, every size
  SizePoint held_out;             ///< one that they were compared with
  std::string torch;              ///< its release: "2.11.0+cu130"
  std::string rank;               ///< "3 of 8"; empty where the program is no rank of several
  std::string gpu;                ///< the GPU type that stood there; empty where none is said
  std::vector<DeviceRead> reads;  ///< the first recording's
  bool masks_keep_all = false;    ///< masks that shaped what followed kept all they had
  /// Without segments and statistics, which follow from the requests. The sizes are those of no
  /// point.
  AllocatorTrace trace;
  std::vector<SizeFormula> formulas;      ///< each once, in bytes as requested
  std::vector<std::uint32_t> formula_of;  ///< by allocation, indices into `formulas`
  std::optional<VariedWork> work = {};    ///< of a step, where it has formulas
  std::string no_work = {};               ///< why there is none: a sentence without its full stop

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const VariedSize& size : varied) names.push_back(size.name);
    return names;
  }
};

}  // namespace memest
