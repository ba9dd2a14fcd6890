// A set of a block's tensors, one bit each: a block has some hundred, and most sets hold half.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/graph/tensor.hpp"

namespace memest {

class TensorSet {
 public:
  /// Answers whether `id` was not there.
  bool insert(TensorId id) {
    if (id / kBits >= words_.size()) words_.resize(id / kBits + 1);
    std::uint64_t& word = words_[id / kBits];
    const bool is_new = (word & bit(id)) == 0;
    word |= bit(id);
    return is_new;
  }
  void erase(TensorId id) {
    if (id / kBits < words_.size()) words_[id / kBits] &= ~bit(id);
  }
  [[nodiscard]] bool contains(TensorId id) const {
    return id / kBits < words_.size() && (words_[id / kBits] & bit(id)) != 0;
  }

  /// Calls `visit` with every tensor, in ascending order.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) visit_word(words_[i], i, visit);
  }
  /// As above, with those that `other` does not hold.
  template <class Visit>
  void each_beyond(const TensorSet& other, const Visit& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t known = i < other.words_.size() ? other.words_[i] : 0;
      visit_word(words_[i] & ~known, i, visit);
    }
  }

 private:
  static constexpr TensorId kBits = 64;

  static std::uint64_t bit(TensorId id) { return std::uint64_t{1} << (id % kBits); }
  template <class Visit>
  static void visit_word(std::uint64_t word, std::size_t index, const Visit& visit) {
    for (; word != 0; word &= word - 1) {
      visit(static_cast<TensorId>(index) * kBits + static_cast<TensorId>(std::countr_zero(word)));
    }
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace memest
