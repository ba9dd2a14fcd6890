// The words of what moved from a lock, shared by every format of `memest check`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "memest/report/check_report.hpp"

namespace memest {

/// "61.2 GiB", "9.98 s", "8.03 B"; "none" where a side has no such figure.
std::string value_text(const std::optional<LockedValue>& value);

/// "B", "s", "USD", "FLOP"; empty for a count.
std::string_view unit_of(const LockedValue& value);

/// "+11.6 GiB", "-0.21 s".
std::string difference_text(const MovedFigure& figure);

/// "+19 %"; empty where one side is absent or 0.
std::string share_text(const MovedFigure& figure);

/// "device: 61.2 GiB → 72.8 GiB, +11.6 GiB (+19 %)".
std::string sentence_of(const MovedFigure& figure);

/// ": activations +9.1 GiB, gradients +2.0 GiB": the terms of the memory that moved most; empty
/// where none did, and for a figure that is no memory.
std::string moved_terms(const SpecMoves& moves, const MovedFigure* figure);

/// "training.micro_batch: 1 → 2".
std::string sentence_of(const ChangedKey& key);

/// "device: ... ; training.micro_batch: 1 → 2; also step, cost per hour": all of it in one line.
std::string sentence_of(const SpecMoves& moves);

/// The file's figure of that name; absent where it has none.
std::optional<LockedValue> figure_of(const CheckedFile& file, std::string_view name);

}  // namespace memest
