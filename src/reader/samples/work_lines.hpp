// The lines of a recording that tell its work: `w` and a letter (docs/commands/record.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "reader/samples/line_words.hpp"

namespace memest {

class WorkLines {
 public:
  /// `# work: step2` begins them, `# work: cut off` ends them.
  void begin(const PlacedText& of);
  /// The words of a line, from its `w` on; `modules` are known.
  void read(const LineWords& of, std::size_t modules);
  /// The work that was read; nothing where the recording tells none.
  [[nodiscard]] std::optional<RecordedWork> take() { return std::move(work_); }

 private:
  struct Line;

  std::optional<RecordedWork> work_;
  std::unordered_map<std::size_t, std::size_t> modules_;  ///< that each thread works for
};

}  // namespace memest
