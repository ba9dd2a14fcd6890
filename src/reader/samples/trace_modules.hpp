// The modules of a traced program: `n N CLASS NAME` says what module N is, from 1 on, `> N` that
// what follows is allocated in its forward; `> 0`: in none's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "reader/samples/line_words.hpp"

namespace memest {

class TraceModules {
 public:
  static bool are_meant(std::string_view first_word) {
    return first_word == "n" || first_word == ">";
  }

  void read(LineWords words) {
    const bool defines = words.text(0) == "n";
    if (words.words.size() != (defines ? 4 : 2)) {
      return words.refuse(words.words.front(), defines ? "'n' is written n NUMBER CLASS NAME"
                                                       : "'>' is written > NUMBER");
    }
    if (!defines) {
      chosen_ = words.known(1, modules_.size(), "module");
      return;
    }
    words.expect_next(1, modules_.size(), "modules");
    if (words.good) modules_.push_back({std::string(words.text(2)), std::string(words.text(3))});
  }

  [[nodiscard]] std::size_t size() const { return modules_.size(); }

  /// The trace's last allocation is made in the chosen module.
  void note(AllocatorTrace& trace) const {
    if (chosen_ == 0) return;
    trace.made_in.resize(static_cast<std::size_t>(trace.allocations), 0);
    trace.made_in.back() = static_cast<std::uint32_t>(chosen_);
  }
  void give(Recording& recording) {
    if (recording.work) recording.work->modules = modules_;
    recording.trace.modules = std::move(modules_);
  }

 private:
  std::vector<RecordedModule> modules_ = {{}};
  std::size_t chosen_ = 0;
};

}  // namespace memest
