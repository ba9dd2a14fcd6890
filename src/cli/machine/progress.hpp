// A line on standard error that says how far long work is. Only on a terminal; gone at the end.
#pragma once

#include <cstddef>
#include <string>

#include "memest/report/render_options.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

class ProgressLine {
 public:
  /// Shows nothing where standard error is no terminal, or where `quiet`.
  ProgressLine(const RenderOptions& options, bool quiet);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// "12 of 80  softmax bf16 forward 8192 × 4096  1:20 left".
  void show(std::size_t done, std::size_t of, const std::string& what, Seconds left);
  /// "12  softmax bf16 forward 8192 × 4096": where nobody knows how much is left.
  void show(std::size_t done, const std::string& what);

 private:
  void print(const std::string& text) const;

  RenderOptions options_;
  std::size_t columns_;  ///< less than the terminal has: a line that wraps would stay
  bool shows_;
};

}  // namespace memest
