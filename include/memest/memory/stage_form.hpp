// The closed form of one kind of rank, for every pipeline depth, number of replicas and
// micro-batch: what a search over layouts asks for hundreds of thousands of times. A ledger with
// everything bound but what layouts vary, evaluated term by term as the ledger itself is: the same
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// The sizes that a layout gives a rank beside those its graph was lowered for.
struct StageSizes {
  std::int64_t micro_batch = 1;  ///< b
  std::int64_t layers = 1;       ///< L: of one of the rank's stages
  std::int64_t in_flight = 1;    ///< w: micro-steps of its stages
  std::int64_t parameters = 1;   ///< Φ: of the rank
  std::int64_t experts = 0;      ///< Φx: of them those of experts that other ranks have others of
  std::int64_t data = 1;         ///< D
  std::int64_t micro_steps = 1;  ///< m: what has a buffer for each is there all the time
};

/// Bytes that a rank's device holds outside PyTorch's allocator (the CUDA context, NCCL's buffers):
/// the same for all ledgers of a GPU type and so many ranks that share.
struct OutsideBytes {
  Bytes expected;
  Bytes low;
  Bytes high;
};
OutsideBytes outside_bytes(const Job& job);
/// DeepEP's Hybrid-EP keeps so much of these on a rank of a layout with so many sequences a
/// micro-batch: zero where another dispatcher carries tokens. Source: deepseek-ai/DeepEP, branch
/// hybrid-ep, csrc/hybrid_ep/buffer and extension/allgather.cu. Throws OverflowError.
Bytes dispatch_buffer_bytes(const Job& job, const Parallelism& layout, std::int64_t micro_batch);

class StageForm {
 public:
  /// `ledger` holds every instant (LedgerScope::layouts). InternalError where its formulas have D
  /// beyond the first power.
  explicit StageForm(const Ledger& ledger);

  /// Within the allocator. Throws OverflowError.
  [[nodiscard]] Bytes peak(const StageSizes& sizes) const;
  /// A peak with its margin and what the device holds beside: enough to judge.
  [[nodiscard]] MemoryEstimate estimate(Bytes peak, const OutsideBytes& outside) const;

 private:
  static constexpr std::size_t kLetters = 6;  // b, L, w, Φ, Φx, m
  static constexpr std::size_t kMostFactors = 6;
  struct Monomial {
    std::int64_t coefficient = 0;                      // over the term's denominator
    std::array<std::uint8_t, kMostFactors> factors{};  // letters, ascending
    std::uint8_t degree = 0;                           // how many of them
    bool over_data = false;
  };
  struct BoundTerm {
    std::vector<Monomial> monomials;
    std::int64_t denominator = 1;

    [[nodiscard]] std::int64_t evaluate(const StageSizes& sizes) const;
  };
  static BoundTerm bound(const Expr& formula, const Bindings& bindings);
  void keep_possible_peaks(const StageSizes& own, bool in_pipeline);

  std::vector<BoundTerm> terms_;
  std::vector<std::vector<std::uint16_t>> instants_;
  Margin margin_;
};

}  // namespace memest
