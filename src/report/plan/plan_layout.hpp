// Layouts and levers of plans, in words.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "memest/plan/search.hpp"

namespace memest {

/// Parts that a job's framework splits: those that the table of its plans has a column for.
enum class Splits : std::uint8_t { data, layers };
Splits splits_of(const Job& job);

/// A cell of a value that may be missing.
template <class T, class Write>
std::string cell(const std::variant<T, Unavailable>& value, const Write& write) {
  const T* present = std::get_if<T>(&value);
  return present == nullptr ? "–" : write(*present);
}

/// "t8 p4 v2 D16 Z1": what is 1 is left out, but for the data-parallel ranks.
std::string layout_text(const Parallelism& layout);

/// "1", "3f", "3fr4", "2+o", "3+ow": the ZeRO stage, FSDP and its replicas, and what is offloaded.
std::string shards_text(const Parallelism& layout);

/// "micro-batch 2, recompute none, ZeRO 1".
std::string settings_text(const PlanCandidate& candidate, Splits splits);

/// The flags that make a spec this candidate.
std::string flags_of(const PlanCandidate& candidate, Splits splits);

/// The first lever: "ZeRO 3 saves 12.3 GiB and fits"; empty where there is none.
std::string lever_text(const std::vector<Lever>& levers);

}  // namespace memest
