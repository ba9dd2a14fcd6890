// The values of a ledger's terms: on the stack for every model but the longest lists of layers, as
// a search asks for them hundreds of thousands of times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memest {

class TermValues {
 public:
  explicit TermValues(std::size_t count)  // NOLINT(cppcoreguidelines-pro-type-member-init)
      : many_(count > kFew ? count : 0) {
    if (!many_.empty()) values_ = many_;
  }
  TermValues(const TermValues&) = delete;
  TermValues& operator=(const TermValues&) = delete;
  ~TermValues() = default;

  [[nodiscard]] std::int64_t& operator[](std::size_t term) { return values_[term]; }
  [[nodiscard]] std::int64_t operator[](std::size_t term) const { return values_[term]; }

 private:
  static constexpr std::size_t kFew = 512;
  std::array<std::int64_t, kFew> few_;  // written before it is read
  std::vector<std::int64_t> many_;
  std::span<std::int64_t> values_ = few_;
};

}  // namespace memest
