// NCCL, opened at run time: machines with one GPU need none of it. Names and types as in nccl.h.
#pragma once

#include <cstddef>

#include "kernels/harness/library.hpp"

struct CUstream_st;

namespace memest::kernels {

struct Nccl {
  using Answer = int;
  using Communicator = struct NcclCommunicator*;
  using Stream = CUstream_st*;
  using InitializeAll = Answer(Communicator*, int devices, const int* device);
  using Destroy = Answer(Communicator);
  using Group = Answer();
  using Reduce = Answer(const void*, void*, std::size_t, int type, int operation, Communicator,
                        Stream);
  using Gather = Answer(const void*, void*, std::size_t, int type, Communicator, Stream);
  using Send = Answer(const void*, std::size_t, int type, int peer, Communicator, Stream);
  using Receive = Answer(void*, std::size_t, int type, int peer, Communicator, Stream);

  static constexpr int kBf16 = 9;  // ncclBfloat16
  static constexpr int kSum = 0;   // ncclSum

  Library library{"libnccl.so.2"};
  InitializeAll* initialize_all = library.function<InitializeAll>("ncclCommInitAll");
  Destroy* destroy = library.function<Destroy>("ncclCommDestroy");
  Group* group_start = library.function<Group>("ncclGroupStart");
  Group* group_end = library.function<Group>("ncclGroupEnd");
  Reduce* all_reduce = library.function<Reduce>("ncclAllReduce");
  Reduce* reduce_scatter = library.function<Reduce>("ncclReduceScatter");
  Gather* all_gather = library.function<Gather>("ncclAllGather");
  Send* send = library.function<Send>("ncclSend");
  Receive* receive = library.function<Receive>("ncclRecv");

  /// Whether the library was found, with all of these.
  [[nodiscard]] bool is_complete() const {
    return initialize_all != nullptr && destroy != nullptr && group_start != nullptr &&
           group_end != nullptr && all_reduce != nullptr && reduce_scatter != nullptr &&
           all_gather != nullptr && send != nullptr && receive != nullptr;
  }
  /// Throws EnvironmentError with the library's words unless the answer is success.
  void check(Answer answer) const;
};

}  // namespace memest::kernels
