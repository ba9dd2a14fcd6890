// A lock: what each spec of a repository needed when somebody last looked, with the keys that it
// wrote then and what the answer rested on. Whoever checks again says what moved, by how much and
// because of which key.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// A number of an answer: counts, bytes and FLOPs whole, times and money decimal.
using LockedValue = std::variant<std::int64_t, Bytes, Flops, Seconds, Dollars>;

struct LockedFigure {
  std::string name;  ///< "device", "step", or of a term of the ledger its name
  LockedValue value;

  bool operator==(const LockedFigure&) const = default;
};

/// A leaf of a spec as its author wrote it.
struct SpecLeaf {
  std::string key;    ///< "training.micro_batch", "model.layers[3].repeat"
  std::string value;  ///< as written; "{}" and "[]" where nothing is in them
  SourceSpan span;    ///< of the key, of an item of a list the item; none in a lock
};

/// A part of memest that an answer rests on, or a file beside the spec.
struct RestsOn {
  std::string name;    ///< "memest", "gpu h100-sxm-80gb", "recipe mixed"
  std::string digest;  ///< of its text; of memest its version

  bool operator==(const RestsOn&) const = default;
};

struct LockedSpec {
  std::vector<RestsOn> rests_on;
  std::vector<SpecLeaf> keys;  ///< in the order of the file
  std::vector<LockedFigure> figures;
  std::vector<LockedFigure> terms;  ///< the ledger of the rank that takes most
};

/// Seconds and dollars that differ by no more than this share have not moved.
inline constexpr double kLockTolerance = 0.01;

struct Lock {
  double tolerance = kLockTolerance;
  std::map<std::string, LockedSpec> specs;  ///< by path, relative to the folder of the lock
};

}  // namespace memest
