// The closed form: `2Φ + 2Φ + KΦ` plus activations, buffers and overheads, as named terms with formula and source. A ledger is
// written once for a graph and a job and then evaluated in about a microsecond for any micro-batch and sequence length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

enum class TermGroup : std::uint8_t { weights, gradients, optimizer, activations, buffers, overhead };
std::string_view name_of(TermGroup group);

/// One named share of the memory of a rank.
struct LedgerTerm {
  std::string_view name;    ///< "gradients", "optimizer states", "log-softmax of the loss"
  TermGroup group = TermGroup::weights;
  Expr formula;             ///< bytes of one rank
  std::string_view source;  ///< where the rule comes from
};

/// A moment of the step that may be the peak: which terms are alive then.
struct Instant {
  std::string_view name;             ///< "end of forward", "loss backward", "optimizer step", ...
  std::vector<std::uint16_t> terms;  ///< indices into Ledger::terms
};

struct Ledger {
  std::vector<LedgerTerm> terms;
  std::vector<Instant> instants;  ///< at least one
  Bindings bindings;              ///< every symbol of the formulas, as the job has them
  /// Terms outside PyTorch's allocator (CUDA context): part of the device's memory, not of `allocated`.
  std::vector<std::uint16_t> outside_allocator;
  Bytes outside_low;   ///< interval of the terms outside
  Bytes outside_high;
  /// Relative margin of the closed form, both sides, from its residuals against recorded runs.
  double margin = 0;
};

struct Term {
  std::uint16_t index = 0;  ///< into Ledger::terms, for name, formula and source
  Bytes value;
};

struct InstantTotal {
  std::uint16_t index = 0;  ///< into Ledger::instants
  Bytes total;              ///< within the allocator
};

enum class Verdict : std::uint8_t { fits, does_not_fit, too_close_to_call };
std::string_view name_of(Verdict verdict);

/// One rank's memory, evaluated. Totals are computed from the terms, never stored apart from them.
struct MemoryEstimate {
  std::vector<Term> terms;               ///< alive at the peak, in ledger order; the terms outside the allocator last
  std::vector<InstantTotal> instants;
  std::uint16_t peak = 0;                ///< index into `instants`
  double margin = 0;

  [[nodiscard]] Bytes allocated() const { return instants[peak].total; }
  /// allocated plus context: what nvidia-smi would show if nothing were fragmented.
  [[nodiscard]] Bytes device() const;
  [[nodiscard]] Bytes low() const;   ///< device() less the margin
  [[nodiscard]] Bytes high() const;  ///< device() and the margin
  Bytes outside;
  Bytes outside_low;
  Bytes outside_high;
};

/// Writes the closed form of `job` (its training is present) over `graph`.
Ledger write_ledger(const Graph& graph, const Job& job);

/// Evaluates at `bindings` (Ledger::bindings, or those with another b or s). Throws OverflowError.
MemoryEstimate estimate_memory(const Ledger& ledger, const Bindings& bindings);

/// Only the peak within the allocator: what a search asks for, without allocation.
Bytes peak_allocated(const Ledger& ledger, const Bindings& bindings);

/// What the device offers the estimate: the capacity the driver reports, or the spec's own limit for the allocator.
struct Capacity {
  Bytes bytes;
  bool allocator_limit = false;  ///< set by hardware.memory: overheads are not taken off it
};
Capacity capacity_of(const Hardware& hardware);

/// `fits` only where the whole interval fits, `does-not-fit` only where none of it does.
Verdict judge(const MemoryEstimate& estimate, const Capacity& capacity);

/// The simple view: bytes that do not depend on the micro-batch, bytes a further sequence, and the largest micro-batch whose
/// whole interval fits (0: none).
struct SimpleView {
  Bytes fixed;
  Bytes per_sequence;
  std::int64_t largest_micro_batch = 0;
};
SimpleView simple_view(const Ledger& ledger, const Capacity& capacity);

}  // namespace memest
