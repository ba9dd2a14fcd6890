#include "kernels/cuda/operands.hpp"

#include <algorithm>

#include "kernels/encoding.hpp"
#include "kernels/fill_device.hpp"

namespace memest::kernels {
namespace {

constexpr int kNotANumber = 0xFF;

constexpr std::int64_t kAlignment = 256;  // cudaMalloc's own

Bytes size(const Operand& operand) { return Bytes(operand.elements) * size_of(operand.dtype); }

Bytes aligned_size(const Operand& operand) {
  return divide_rounding_up(size(operand), kAlignment) * kAlignment;
}

}  // namespace

DeviceOperands::DeviceOperands(const Description& description, std::int64_t copies,
                               const OwnedStream& stream)
    : stream_(stream),
      operands_(description.operands),
      memory_(std::max(memory(description), Bytes(1)) * copies) {
  auto* place = static_cast<unsigned char*>(memory_.data());
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    for (const Operand& operand : operands_) {
      add(operand, place);
      place += aligned_size(operand).value();
    }
  }
  stream_.synchronize();
}

void DeviceOperands::add(const Operand& operand, void* memory) {
  pointers_.push_back(memory);
  if (operand.access == Access::reads || operand.access == Access::updates) {
    launch_fill({.dtype = operand.dtype,
                 .fill = operand.fill,
                 .limit = operand.limit,
                 .seed = pointers_.size(),
                 .elements = operand.elements,
                 .values = memory},
                stream_.handle());
  } else {
    // Bytes of ones are NaN in fp32, bf16, fp16 and e4m3: an element that no kernel writes fails
    // its check.
    check(cudaMemsetAsync(memory, kNotANumber, static_cast<std::size_t>(size(operand).value()),
                          stream_.handle()));
  }
}

std::int64_t DeviceOperands::copies() const {
  return static_cast<std::int64_t>(pointers_.size() / operands_.size());
}

void* const* DeviceOperands::of_call(std::int64_t call) const {
  return pointers_.data() + static_cast<std::size_t>(call % copies()) * operands_.size();
}

std::vector<double> DeviceOperands::read(std::size_t operand) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size(operands_[operand]).value()));
  check(cudaMemcpyAsync(bytes.data(), pointers_[operand], bytes.size(), cudaMemcpyDeviceToHost,
                        stream_.handle()));
  stream_.synchronize();
  return decode(operands_[operand].dtype, bytes);
}

Bytes DeviceOperands::memory(const Description& description) {
  Bytes sum{0};
  for (const Operand& operand : description.operands) sum += aligned_size(operand);
  return sum;
}

}  // namespace memest::kernels
