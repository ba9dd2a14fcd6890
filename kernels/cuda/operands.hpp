// Operands on the device, several copies of each, which calls take in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/description.hpp"
#include "kernels/harness/memory.hpp"
#include "kernels/harness/stream.hpp"

namespace memest::kernels {

class DeviceOperands {
 public:
  /// Inputs are filled; every byte of a result is 0xFF, which is not a number in any type of
  /// floats.
  DeviceOperands(const Description& description, std::int64_t copies, const OwnedStream& stream);

  [[nodiscard]] std::int64_t copies() const;
  /// Operands of the copy that the `call`-th call uses.
  [[nodiscard]] void* const* of_call(std::int64_t call) const;
  /// An operand of the first copy, once the stream has done its work.
  [[nodiscard]] std::vector<double> read(std::size_t operand) const;

  /// Bytes of one copy, with each operand at an address that vectors and tensor cores want.
  static Bytes memory(const Description& description);

 private:
  void add(const Operand& operand, void* memory);

  const OwnedStream& stream_;
  std::vector<Operand> operands_;
  DeviceMemory memory_;  // all copies of all operands
  std::vector<void*> pointers_;
};

}  // namespace memest::kernels
