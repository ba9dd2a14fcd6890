// The closed form: `2Φ + 2Φ + KΦ` plus activations, buffers and overheads, as named terms with
// formula and source. A ledger is written once for a graph and a job and then evaluated in about a
// microsecond for any micro-batch and sequence length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/graph_moments.hpp"
#include "memest/memory/size_polynomial.hpp"
#include "memest/spec/gpu/margin.hpp"
#include "memest/spec/job.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

enum class TermGroup : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  buffers,
  overhead
};
std::string_view name_of(TermGroup group);

/// One named share of the memory of a rank.
struct LedgerTerm {
  std::string name;  ///< "gradients", "optimizer states", "temporaries of down_proj's backward"
  TermGroup group = TermGroup::weights;
  Expr formula;        ///< bytes of one rank
  std::string source;  ///< where the rule comes from
  /// The rule in words where the formula is a number counted tensor by tensor (blocks of 256,
  /// factors, thresholds); empty where the formula's letters say it all.
  std::string rule;
};

/// A moment of the step that may be the peak: which terms are alive then.
struct Instant {
  std::string name;  ///< "forward: loss", "backward: layer 32 of 32, down_proj", "optimizer step"
  std::vector<std::uint16_t> terms;  ///< indices into Ledger::terms
};

struct Ledger {
  std::vector<LedgerTerm> terms;
  std::vector<Instant> instants;  ///< at least one
  Bindings bindings;              ///< every symbol of the formulas, as the job has them
  /// Terms outside PyTorch's allocator (CUDA context): part of the device's memory, not of
  /// `allocated`.
  std::vector<std::uint16_t> outside_allocator;
  Bytes outside_low;  ///< interval of the terms outside
  Bytes outside_high;
  Margin margin;                        ///< of `allocated`, from recorded runs
  std::vector<SizePolynomial> by_size;  ///< `terms` with everything bound but b and s
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
/// "fits", "does-not-fit", "too-close-to-call".
std::string_view name_of(Verdict verdict);
/// The verdict on two that must both hold: does-not-fit outweighs too-close-to-call.
Verdict worse_of(Verdict left, Verdict right);

/// One rank's memory, evaluated. Totals are computed from the terms, never stored apart from them.
/// The interval is lopsided on purpose: below stands what tensors alone may take, above what the
/// allocator reserves for them (fragmentation), which is what must fit.
struct MemoryEstimate {
  std::vector<Term>
      terms;  ///< alive at the peak, in ledger order; those outside the allocator last
  std::vector<InstantTotal> instants;
  std::uint16_t peak = 0;  ///< index into `instants`
  Margin margin;
  Bytes outside;
  Bytes outside_low;
  Bytes outside_high;

  [[nodiscard]] Bytes allocated() const { return instants[peak].total; }
  /// allocated plus context: what nvidia-smi would show if nothing were fragmented.
  [[nodiscard]] Bytes device() const { return allocated() + outside; }
  /// Lower end of what the device must hold: allocated · (1 − margin.low) and the context.
  [[nodiscard]] Bytes low() const;
  /// Upper end: allocated · (1 + margin.high), which is what the allocator reserves, and the
  /// context.
  [[nodiscard]] Bytes high() const;
};

/// Which instants a ledger keeps: those that may be the peak at other micro-batches and sequence
/// lengths, or every one, for what other layouts make of it (StageForm).
enum class LedgerScope : std::uint8_t { sizes, layouts };

struct LedgerOptions {
  std::int64_t pipeline_rank = 0;
  LedgerScope scope = LedgerScope::sizes;
  GraphMoments* moments = nullptr;  ///< of the graph, where several ledgers share them
};

/// Writes the closed form of `job` (its training or inference is present) over `graph`; of a
/// pipeline over the graph of one of its ranks.
Ledger write_ledger(const Graph& graph, const Job& job, const LedgerOptions& options);
inline Ledger write_ledger(const Graph& graph, const Job& job, std::int64_t pipeline_rank = 0) {
  return write_ledger(graph, job, LedgerOptions{.pipeline_rank = pipeline_rank});
}

/// Why the ledger's formulas are not those of the job; empty where they are.
std::optional<Unavailable> beyond_the_formulas(const Job& job);

/// Why a ledger does not answer for the job: that, or what the allocator is told; empty where it
/// does.
std::optional<Unavailable> beyond_the_closed_form(const Job& job);

/// The ledger's bindings at another micro-batch and sequence length.
/// `seq_len` is the whole sequence, of which a context-parallel rank has a part.
Bindings bindings_at(const Ledger& ledger, std::int64_t micro_batch, std::int64_t seq_len);

/// Evaluates at `bindings`: Ledger::bindings, or bindings_at(...). Throws OverflowError.
MemoryEstimate estimate_memory(const Ledger& ledger, const Bindings& bindings);

/// Only the peak within the allocator: what a search asks for, without allocation.
Bytes peak_allocated(const Ledger& ledger, const Bindings& bindings);

/// The capacity that the device offers the estimate: what the driver reports, or the spec's own
/// limit for the allocator.
struct Capacity {
  Bytes bytes;
  bool allocator_limit = false;  ///< set by hardware.memory: overheads are not taken off it
};
Capacity capacity_of(const Hardware& hardware);

/// `fits` only where the whole interval fits, `does-not-fit` only where none of it does.
Verdict judge(const MemoryEstimate& estimate, const Capacity& capacity);

/// The simple view, `fixed + per_sequence · b`, of the moment that binds at the first micro-batch
/// that does not fit; and the largest micro-batch whose whole interval fits (0: none).
struct SimpleView {
  Bytes fixed;
  Bytes per_sequence;
  std::int64_t largest_micro_batch = 0;
};
SimpleView simple_view(const Ledger& ledger, const Capacity& capacity);

}  // namespace memest
