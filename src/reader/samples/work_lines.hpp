// The lines of a recording that tell its work: `w` and a letter (docs/commands/record.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "reader/job/read_allocator.hpp"

namespace memest {

class WorkLines {
 public:
  /// `# work: step2` begins them, `# work: cut off` ends them.
  void begin(const PlacedText& of);
  /// The words of a line, from its `w` on. Mistakes are added to `diagnostics`.
  void read(const std::vector<PlacedText>& words, Diagnostics& diagnostics);
  /// The work that was read; nothing where the recording tells none.
  [[nodiscard]] std::optional<RecordedWork> take() { return std::move(work_); }

 private:
  struct Line;

  std::optional<RecordedWork> work_;
};

}  // namespace memest
