// NCCL: one process stands for one rank of many. Collectives deliver as if every rank had sent what
// this one sends, so that what ranks agree on (shapes, sizes, pickled objects) comes out right.

#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "abi/calls.hpp"
#include "device/contents.hpp"
#include "device/handles.hpp"
#include "device/memory.hpp"
#include "device/work.hpp"

MEMEST_CALL memest::record::Status cudaMalloc(void** pointer, std::size_t size);
MEMEST_CALL memest::record::Status cudaFree(void* pointer);

namespace memest::record {
namespace {

constexpr int kVersion = 22809;  // NCCL_VERSION_CODE of 2.28.9
constexpr Status kUnhandledCudaError = 1;

/// ncclUniqueId, passed by value.
struct UniqueId {
  std::array<char, 128> bytes;
};

struct Communicator {
  int ranks = 1;
  int rank = 0;
};

std::mutex communicators_mutex;
using Lock = std::lock_guard<std::mutex>;

std::unordered_map<Handle, Communicator>& communicators() {
  static auto* const all = new std::unordered_map<Handle, Communicator>;
  return *all;
}

Status open_communicator(Handle* handle, Communicator communicator) {
  *handle = new_handle();
  const Lock lock(communicators_mutex);
  communicators()[*handle] = communicator;
  return kSuccess;
}

Communicator communicator_of(Handle handle) {
  const Lock lock(communicators_mutex);
  const auto found = communicators().find(handle);
  return found == communicators().end() ? Communicator() : found->second;
}

/// By ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, fp16, fp32, fp64, bf16, two fp8.
std::size_t size_of(int type) {
  constexpr std::array<std::size_t, 12> kSizes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes.at(static_cast<std::size_t>(type));
}

void tell(const char* operation, std::size_t bytes, Handle communicator, Handle stream) {
  if (work().watches()) {
    work().message(operation, bytes, communicator_of(communicator).ranks, stream);
  }
}

/// Ranks that are not the root of a reduction receive nothing.
Status deliver(void* to, const void* from, std::size_t bytes) {
  if (to != nullptr && to != from) contents().copy(to, from, bytes);
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status ncclGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}
MEMEST_CALL const char* ncclGetErrorString(Status) { return "error of NCCL"; }
MEMEST_CALL const char* ncclGetLastError(Handle) { return ""; }
MEMEST_CALL Status ncclGetUniqueId(UniqueId* id) {
  *id = {};
  return kSuccess;
}

MEMEST_CALL Status ncclCommInitRank(Handle* communicator, int ranks, UniqueId, int rank) {
  return open_communicator(communicator, {ranks, rank});
}
MEMEST_CALL Status ncclCommInitRankConfig(Handle* communicator, int ranks, UniqueId, int rank,
                                          void*) {
  return open_communicator(communicator, {ranks, rank});
}
MEMEST_CALL Status ncclCommInitRankScalable(Handle* communicator, int ranks, int rank, int,
                                            UniqueId*, void*) {
  return open_communicator(communicator, {ranks, rank});
}
MEMEST_CALL Status ncclCommInitAll(Handle* made, int ranks, const int*) {
  for (int rank = 0; rank < ranks; ++rank) open_communicator(made + rank, {ranks, rank});
  return kSuccess;
}
/// Which ranks join is not known to one of them; what they send is not delivered then.
MEMEST_CALL Status ncclCommSplit(Handle, int, int, Handle* made, void*) {
  return open_communicator(made, {});
}
MEMEST_CALL Status ncclCommCount(Handle communicator, int* ranks) {
  *ranks = communicator_of(communicator).ranks;
  return kSuccess;
}
MEMEST_CALL Status ncclCommUserRank(Handle communicator, int* rank) {
  *rank = communicator_of(communicator).rank;
  return kSuccess;
}
MEMEST_CALL Status ncclCommCuDevice(Handle, int* device) {
  *device = current_device();
  return kSuccess;
}
MEMEST_CALL Status ncclCommGetAsyncError(Handle, Status* error) {
  *error = kSuccess;
  return kSuccess;
}
MEMEST_CALL Status ncclRedOpCreatePreMulSum(int* operation, void*, int, int, Handle) {
  *operation = 0;  // ncclSum
  return kSuccess;
}
MEMEST_CALL Status ncclMemAlloc(void** pointer, std::size_t size) {
  return cudaMalloc(pointer, size) == kSuccess ? kSuccess : kUnhandledCudaError;
}
MEMEST_CALL Status ncclMemFree(void* pointer) { return cudaFree(pointer); }

MEMEST_CALL Status ncclAllGather(const void* from, void* to, std::size_t count, int type,
                                 Handle communicator, Handle stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(communicator_of(communicator).ranks);
  tell("all_gather", ranks * bytes, communicator, stream);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    deliver(static_cast<char*>(to) + rank * bytes, from, bytes);
  }
  return kSuccess;
}
MEMEST_CALL Status ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int,
                                     Handle communicator, Handle stream) {
  const std::size_t bytes = count * size_of(type);
  const Communicator group = communicator_of(communicator);
  tell("reduce_scatter", static_cast<std::size_t>(group.ranks) * bytes, communicator, stream);
  return deliver(to, static_cast<const char*>(from) + static_cast<std::size_t>(group.rank) * bytes,
                 bytes);
}
MEMEST_CALL Status ncclAllReduce(const void* from, void* to, std::size_t count, int type, int,
                                 Handle communicator, Handle stream) {
  tell("all_reduce", count * size_of(type), communicator, stream);
  return deliver(to, from, count * size_of(type));
}
MEMEST_CALL Status ncclBroadcast(const void* from, void* to, std::size_t count, int type, int,
                                 Handle communicator, Handle stream) {
  tell("broadcast", count * size_of(type), communicator, stream);
  return deliver(to, from, count * size_of(type));
}
MEMEST_CALL Status ncclReduce(const void* from, void* to, std::size_t count, int type, int, int,
                              Handle communicator, Handle stream) {
  tell("reduce", count * size_of(type), communicator, stream);
  return deliver(to, from, count * size_of(type));
}
/// What a peer sends is not known.
MEMEST_CALL Status ncclSend(const void*, std::size_t count, int type, int, Handle communicator,
                            Handle stream) {
  tell("send", count * size_of(type), communicator, stream);
  return kSuccess;
}
MEMEST_CALL Status ncclRecv(void*, std::size_t count, int type, int, Handle communicator,
                            Handle stream) {
  tell("recv", count * size_of(type), communicator, stream);
  return kSuccess;
}
