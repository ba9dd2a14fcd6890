#include "kernels/cuda/collective.hpp"

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/fill_device.hpp"
#include "kernels/harness/event.hpp"
#include "kernels/harness/memory.hpp"
#include "kernels/harness/ruler.hpp"

namespace memest::kernels {
namespace {

constexpr std::int64_t kElement = 2;  // bytes of a bf16

/// Makes a device the one that calls of this thread go to, and the first one again at the end.
class OnDevice {
 public:
  explicit OnDevice(int device) { check(cudaSetDevice(device)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice(OnDevice&&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice() { cudaSetDevice(0); }
};

/// One GPU's part; made while it is the current device.
struct Member {
  Member(int rank, Bytes bytes) : send(bytes), receive(bytes) {
    launch_fill({.dtype = DType::bf16,
                 .seed = static_cast<std::uint64_t>(rank),
                 .elements = bytes.value() / kElement,
                 .values = send.data()},
                stream.handle());
    stream.synchronize();
  }

  OwnedStream stream;
  DeviceMemory send;
  DeviceMemory receive;
};

class Collective : public Stopwatch {
 public:
  Collective(const Device& device, const Nccl& nccl, const CollectiveShape& shape)
      : device_(device), nccl_(nccl), shape_(shape), communicators_(size()) {
    std::vector<int> devices(size());
    std::iota(devices.begin(), devices.end(), 0);
    nccl_.check(
        nccl_.initialize_all(communicators_.data(), static_cast<int>(shape_.gpus), devices.data()));
    for (const int rank : devices) {
      const OnDevice current(rank);
      members_.push_back(std::make_unique<Member>(rank, Bytes(shape_.bytes)));
    }
  }
  Collective(const Collective&) = delete;
  Collective(Collective&&) = delete;
  Collective& operator=(const Collective&) = delete;
  Collective& operator=(Collective&&) = delete;
  ~Collective() override {
    for (auto* communicator : communicators_) nccl_.destroy(communicator);
  }

  /// By the first GPU's clock; a collective ends on all at once, or nearly.
  Seconds run(std::int64_t calls) override {
    synchronize();
    begin_.record(members_.front()->stream.handle());
    for (std::int64_t call = 0; call < calls; ++call) enqueue();
    end_.record(members_.front()->stream.handle());
    synchronize();
    return end_.since(begin_);
  }
  void rest(Seconds time) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(time.value()));
  }
  double clock_mhz() override { return device_.nvml.clock_mhz(); }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(shape_.gpus); }
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(shape_.bytes / kElement);
  }

  void synchronize() const {
    for (const auto& member : members_) member->stream.synchronize();
  }

  void enqueue() {
    // One thread drives all GPUs: without a group the first call would wait for ranks that are not
    // yet called.
    nccl_.check(nccl_.group_start());
    for (std::size_t rank = 0; rank < size(); ++rank) nccl_.check(enqueue_of(rank));
    nccl_.check(nccl_.group_end());
  }

  Nccl::Answer enqueue_of(std::size_t rank) {
    const Member& member = *members_[rank];
    const std::size_t share = elements() / size();
    void* const send = member.send.data();
    void* const receive = member.receive.data();
    auto* communicator = communicators_[rank];
    auto* stream = member.stream.handle();
    switch (shape_.op) {
      case CollectiveOp::all_reduce:
        return nccl_.all_reduce(send, receive, elements(), Nccl::kBf16, Nccl::kSum, communicator,
                                stream);
      case CollectiveOp::all_gather:
        return nccl_.all_gather(send, receive, share, Nccl::kBf16, communicator, stream);
      case CollectiveOp::reduce_scatter:
        return nccl_.reduce_scatter(send, receive, share, Nccl::kBf16, Nccl::kSum, communicator,
                                    stream);
      case CollectiveOp::all_to_all:
        return exchange(member, communicator, share);
    }
    return 0;
  }

  Nccl::Answer exchange(const Member& member, Nccl::Communicator communicator, std::size_t share) {
    const std::size_t bytes = share * static_cast<std::size_t>(kElement);
    // NCCL's documentation builds an all-to-all of sends and receives in one group.
    for (std::size_t peer = 0; peer < size(); ++peer) {
      const auto* from = static_cast<const unsigned char*>(member.send.data()) + peer * bytes;
      auto* to = static_cast<unsigned char*>(member.receive.data()) + peer * bytes;
      nccl_.check(nccl_.send(from, share, Nccl::kBf16, static_cast<int>(peer), communicator,
                             member.stream.handle()));
      nccl_.check(nccl_.receive(to, share, Nccl::kBf16, static_cast<int>(peer), communicator,
                                member.stream.handle()));
    }
    return 0;
  }

  const Device& device_;
  const Nccl& nccl_;
  CollectiveShape shape_;
  std::vector<Nccl::Communicator> communicators_;
  std::vector<std::unique_ptr<Member>> members_;
  Event begin_;
  Event end_;
};

}  // namespace

bool can_communicate(const Nccl& nccl, const CollectiveShape& shape) {
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus));
  return nccl.is_complete() && shape.gpus > 1 && shape.gpus <= gpus && shape.bytes > 0 &&
         shape.bytes % (shape.gpus * kElement) == 0 &&
         // Two buffers, and as much again for the communicator's own.
         Bytes(shape.bytes) * 4 <= Device::free_memory();
}

Measurement measure_collective(const Device& device, const Nccl& nccl, const CollectiveShape& shape,
                               const RulerSettings& settings) {
  Collective collective(device, nccl, shape);
  return measure(collective, settings);
}

}  // namespace memest::kernels
