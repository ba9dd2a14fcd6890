// A recorded family as text, and back (docs/commands/replay.md has the format).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/recorded/family.hpp"

namespace memest {

std::string write_family(const RecordedFamily& family);

/// The family in a text, or every mistake in it.
Checked<RecordedFamily> read_family(const std::shared_ptr<const SourceText>& source);

/// A step's work in lines that can be compared with those of another size.
struct ComparableWork {
  std::string of;                    ///< "step2"
  std::vector<std::string> kernels;  ///< by number
  std::vector<std::string> lines;
};
/// That of a recording's text; nothing where it tells none, or not all.
std::optional<ComparableWork> comparable_work(std::string_view recording);

/// The work of a family's step at a point; nothing where it has none, or no numbers there.
std::optional<RecordedWork> work_at(const RecordedFamily& family, const SizePoint& point);

/// A file of text or gzip that is a recording or a family; of a recording as read_recording. Throws
/// EnvironmentError for a file that cannot be opened.
Checked<std::variant<Recording, RecordedFamily>> read_recording_or_family(const std::string& path);

/// "batch=2,3,5", in the order that is written; nothing where it is not written so. A name is of
/// letters, digits and _, and begins with no digit; values are from 1 to 2^40.
std::optional<VariedSize> parse_varied(std::string_view text);
/// "batch=2".
std::optional<std::pair<std::string, std::int64_t>> parse_size_value(std::string_view text);

/// "3072*batch*seq+512" as SizeFormula::text() has it; nothing where it is no formula of the names.
std::optional<SizeFormula> parse_formula(std::string_view text,
                                         const std::vector<std::string>& names);

}  // namespace memest
