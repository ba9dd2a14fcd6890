// Numbers in the place of letters of what is written already.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

class Numbers {
 public:
  explicit Numbers(std::vector<std::pair<Symbol, Expr>> numbers) : numbers_(std::move(numbers)) {}

  /// A sequence's length, and what it is rounded up to.
  static Numbers of_length(std::int64_t length);

  void add(const std::vector<std::pair<Symbol, Expr>>& numbers) {
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }

  void put(Expr& formula) const;
  void put(Tensor& tensor) const;
  void put(Op& op) const;

 private:
  void put(std::vector<KernelLaunch>& launches) const;

  std::vector<std::pair<Symbol, Expr>> numbers_;
};

}  // namespace memest
