#include "kernels/cuda/transfer.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/harness/device_stopwatch.hpp"
#include "kernels/harness/memory.hpp"
#include "kernels/harness/ruler.hpp"
#include "kernels/stream.hpp"

namespace memest::kernels {
namespace {

constexpr int kHostByte = 1;

struct Copy {
  void* to;
  const void* from;
  cudaMemcpyKind kind;
};

/// Pageable copies go through a buffer of the driver, which no graph can hold.
Measurement measure_copy(const Device& device, const Copy& copy, Bytes bytes,
                         const RulerSettings& settings) {
  DeviceStopwatch stopwatch(device.stream, device.nvml, Submission::stream, [&](std::int64_t) {
    check(cudaMemcpyAsync(copy.to, copy.from, static_cast<std::size_t>(bytes.value()), copy.kind,
                          device.stream.handle()));
  });
  return measure(stopwatch, settings);
}

Measurement measure_copy(const Device& device, void* host, const TransferShape& shape,
                         const RulerSettings& settings) {
  const DeviceMemory memory{Bytes(shape.bytes)};
  const bool to_device = shape.path == TransferPath::host_to_device_pinned ||
                         shape.path == TransferPath::host_to_device_pageable;
  const Copy copy = to_device ? Copy{memory.data(), host, cudaMemcpyHostToDevice}
                              : Copy{host, memory.data(), cudaMemcpyDeviceToHost};
  return measure_copy(device, copy, memory.size(), settings);
}

/// Times the device's part of each call alone: before it, the host writes the pages and so has
/// them.
class MigrationStopwatch : public Stopwatch {
 public:
  MigrationStopwatch(const Device& device, Bytes bytes)
      : device_(device), pages_(bytes), sums_(segments(bytes) * 4) {}

  Seconds run(std::int64_t calls) override {
    Seconds sum{0};
    for (std::int64_t call = 0; call < calls; ++call) sum += run_one();
    return sum;
  }
  void rest(Seconds time) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(time.value()));
  }
  double clock_mhz() override { return device_.nvml.clock_mhz(); }

 private:
  static Bytes segments(Bytes bytes) {
    return Bytes(1 + bytes.value() / size_of(DType::fp32) / kReadSegment);
  }
  Seconds run_one() {
    // Managed pages move to where they are touched: back to the host here, to the device in the
    // kernel.
    std::memset(pages_.data(), kHostByte, static_cast<std::size_t>(pages_.size().value()));
    const std::array<void*, 2> operands = {pages_.data(), sums_.data()};
    begin_.record(device_.stream.handle());
    launch_read({.dtype = DType::fp32,
                 .columns = pages_.size().value() / size_of(DType::fp32),
                 .operands = operands.data(),
                 .stream = device_.stream.handle()});
    end_.record(device_.stream.handle());
    end_.synchronize();
    return end_.since(begin_);
  }

  const Device& device_;
  ManagedMemory pages_;
  DeviceMemory sums_;
  Event begin_;
  Event end_;
};

}  // namespace

Measurement measure_transfer(const Device& device, const TransferShape& shape,
                             const RulerSettings& settings) {
  switch (shape.path) {
    case TransferPath::host_to_device_pinned:
    case TransferPath::device_to_host_pinned: {
      const PinnedMemory host{Bytes(shape.bytes)};
      std::memset(host.data(), kHostByte, static_cast<std::size_t>(shape.bytes));
      return measure_copy(device, host.data(), shape, settings);
    }
    case TransferPath::host_to_device_pageable:
    case TransferPath::device_to_host_pageable: {
      std::vector<unsigned char> host(static_cast<std::size_t>(shape.bytes), kHostByte);
      return measure_copy(device, host.data(), shape, settings);
    }
    case TransferPath::managed_migration:
      break;
  }
  MigrationStopwatch stopwatch(device, Bytes(shape.bytes));
  return measure(stopwatch, settings);
}

}  // namespace memest::kernels
