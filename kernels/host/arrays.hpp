// Operands on the host: every element in one type, copies of all operands in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/description.hpp"
#include "kernels/fill.hpp"

namespace memest::kernels {

/// `copies` sets of a description's operands. Inputs are filled; outputs hold not-a-number, so that
/// an element that no kernel writes is found.
template <class T>
class HostArrays {
 public:
  HostArrays(const Description& description, std::int64_t copies)
      : operands_(description.operands.size()) {
    for (const Operand& operand : description.operands) add(operand);
    const std::size_t arrays = static_cast<std::size_t>(copies) * operands_;
    arrays_.reserve(arrays);  // the copied ones stay where they are
    while (arrays_.size() < arrays) arrays_.push_back(arrays_[arrays_.size() - operands_]);
    for (std::vector<T>& array : arrays_) pointers_.push_back(array.data());
  }

  /// Operands of the copy that the `call`-th call uses.
  [[nodiscard]] T* const* of_call(std::int64_t call) const {
    const std::size_t copies = pointers_.size() / operands_;
    return pointers_.data() + static_cast<std::size_t>(call) % copies * operands_;
  }
  /// An operand of the first copy.
  [[nodiscard]] std::span<T> operand(std::size_t index) { return arrays_[index]; }

 private:
  void add(const Operand& operand) {
    std::vector<T>& array = arrays_.emplace_back(static_cast<std::size_t>(operand.elements),
                                                 std::numeric_limits<T>::quiet_NaN());
    if (operand.access == Access::reads || operand.access == Access::updates) {
      fill<T>(operand, arrays_.size(), array);
    }
  }

  std::vector<std::vector<T>> arrays_;
  std::vector<T*> pointers_;
  std::size_t operands_ = 0;
};

}  // namespace memest::kernels
