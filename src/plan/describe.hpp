// A candidate as the answer shows it: ledger, time, money, and for a refusal the reason and the
// levers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "group_search.hpp"
#include "memest/plan/search.hpp"
#include "memo.hpp"
#include "space.hpp"

namespace memest {

/// Several threads may ask at once.
class Describer {
 public:
  /// `request` outlives this.
  explicit Describer(const PlanRequest& request) : request_(request) {}

  /// Setting, bytes, time and money.
  [[nodiscard]] PlanVerdict outline(const Evaluated& candidate, const Group& group,
                                    const std::vector<Recompute>& recomputes) const;
  /// With the terms of the peak, and for a refusal the reason and the levers.
  [[nodiscard]] PlanVerdict describe(const Evaluated& candidate, const Group& group,
                                     const std::vector<Recompute>& recomputes);
  /// The same with its memory from the replay; none where there is no replay of such jobs.
  [[nodiscard]] std::optional<PlanVerdict> replay(const PlanVerdict& described) const;
  /// No layout, or none over whose ranks the global batch divides.
  [[nodiscard]] PlanVerdict refuse(const Group& group) const;
  /// The job of a candidate, with its price.
  [[nodiscard]] Job job_of(const PlanCandidate& candidate) const;

 private:
  /// What decides a ledger, beside the request's job.
  using LedgerKey = std::tuple<DeviceClass, std::int64_t, LayoutKey,
                               std::pair<std::int64_t, std::int64_t>, std::size_t>;
  /// What a job needs after a change.
  struct Changed {
    std::string name;
    MemoryEstimate memory;
    std::optional<Bytes> host;
  };

  static LedgerKey key_of(const Evaluated& candidate, const GpuSpec& gpu);
  void add_levers(const LedgerKey& key, const Job& job, PlanVerdict& verdict);

  const PlanRequest& request_;
  Memo<LedgerKey, Ledger> ledgers_;
  Memo<LedgerKey, std::optional<Bytes>> hosts_;
  Memo<LedgerKey, std::vector<Changed>> changed_;
};

}  // namespace memest
