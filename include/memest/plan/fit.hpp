// When it does not fit: each technique that saves memory, and what several save together, with what
// a step then takes. Every line is a job of its own, estimated as any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Techniques of which a step has one.
enum class TechniqueGroup : std::uint8_t {
  recompute,
  saved_tensors,
  micro_batch,
  optimizer,
  sharding,
  kernels,
  compile,
  attention,
  allocator,
  precision,
  adapter
};

/// A change of a spec, in memest's words and in those of the program that trains.
struct Technique {
  std::string name;  ///< "recompute every layer"
  TechniqueGroup group = {};
  std::vector<std::string>
      sets;            ///< keys and values as --set takes them: "training.recompute=full"
  std::string change;  ///< what to write in the program: "--recompute-granularity full"
  /// How it changes what is trained, beside memory and time; empty where the numbers of a step stay
  /// but for rounding.
  std::string caveat = {};
};

/// The techniques that the program of `job` has a word for, without those that the job uses
/// already.
std::vector<Technique> techniques_for(const Job& job);

/// The job with some techniques; none: as written.
struct Rung {
  std::vector<std::size_t> techniques;  ///< indices into FitLadder::techniques
  Verdict verdict = Verdict::too_close_to_call;
  Bytes taken;  ///< of the capacity, by the rank that takes most
  Bytes low;
  Bytes high;
  std::optional<Bytes> host;    ///< of all ranks of a node, where something is offloaded
  std::optional<Seconds> step;  ///< of the same global batch; absent where its time is not known
};

/// A technique that this job cannot have, and why.
struct RefusedTechnique {
  std::size_t technique = 0;
  std::string reason;
};

struct FitLadder {
  std::vector<Technique> techniques;
  Bytes capacity;
  Rung own;                 ///< as written
  std::vector<Rung> rungs;  ///< those that fit first, each kind by the step's time, then by memory
  std::vector<std::size_t> front;  ///< rungs that no other beats in memory and time, by memory
  std::vector<RefusedTechnique> refused;

  /// How many rungs, the first ones, fit.
  [[nodiscard]] std::size_t fitting() const;
  /// Whether a rung changes what is trained.
  [[nodiscard]] bool has_caveat(const Rung& rung) const;
};

/// The job with the keys of so many techniques set.
using ReadChanged = std::function<Checked<Job>(const std::vector<std::string>& sets)>;

struct FitRequest {
  Job job;  ///< as written; its training is present
  ReadChanged read;
  std::size_t threads = 1;
};

/// Estimates each technique alone, then together with others of other groups, up to three, the most
/// promising first. Combinations of techniques without a caveat come first; those with one are
/// looked at where none else fits. Unavailable where the memory of the job as written is not known.
/// Throws OverflowError.
std::variant<FitLadder, Unavailable> fit_ladder(const FitRequest& request);

}  // namespace memest
