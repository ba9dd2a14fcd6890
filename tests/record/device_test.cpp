// The null device, called as a program calls CUDA.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../../record/abi/cudart.hpp"
#include "../../record/abi/device_properties.hpp"

extern "C" {
int cudaGetDeviceCount(int* count);
int cudaGetDeviceProperties(memest::record::DeviceProperties13* p, int device);
int cudaGetDeviceProperties_v2(memest::record::DeviceProperties12* p, int device);
int cudaDeviceGetAttribute(int* value, int attribute, int device);
int cudaMemGetInfo(std::size_t* free, std::size_t* total);
int cudaMalloc(void** pointer, std::size_t size);
int cudaFree(void* pointer);
int cudaGetLastError();
int cudaMemcpy(void* to, const void* from, std::size_t size, int kind);
int cudaLaunchKernel(const void* kernel, memest::record::Dim3 grid, memest::record::Dim3 block,
                     void** arguments, std::size_t shared, void* stream);
void __cudaRegisterFunction(void** binary, const char* stub, char* device, const char* name,
                            int limit, void* a, void* b, void* c, void* d, int* e);
int cudaStreamCreateWithFlags(void** stream, unsigned flags);
int cudaStreamBeginCapture(void* stream, int mode);
int cudaStreamEndCapture(void* stream, void** graph);
int cudaStreamIsCapturing(void* stream, int* status);
int cuMemAddressReserve(std::uintptr_t* pointer, std::size_t size, std::size_t alignment,
                        std::uintptr_t address, unsigned long long flags);
int cuMemCreate(std::uint64_t* physical, std::size_t size, const void* properties,
                unsigned long long flags);
int cuMemMap(std::uintptr_t pointer, std::size_t size, std::size_t offset, std::uint64_t physical,
             unsigned long long flags);
int cuMemUnmap(std::uintptr_t pointer, std::size_t size);
int cuMemRelease(std::uint64_t physical);
int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* communicator,
                  void* stream);
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int operation,
                      void* communicator, void* stream);
int ncclCommInitRankScalable(void** communicator, int ranks, int rank, int ids, void* id,
                             void* configuration);
int cusolverDnSgetrf_bufferSize();
int cudnnGetConvolutionForwardWorkspaceSize();
std::size_t memest_record_device_peak(int device);
}

namespace memest::record {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kMemory = 1024 * kMiB;
constexpr std::size_t kContext = 24 * kMiB;
constexpr int kHostToDevice = 1;
constexpr int kDeviceToHost = 2;
constexpr int kInt64 = 4;  // of ncclDataType_t

/// Before the first call, which reads the environment.
const std::string journal = [] {
  const std::string path =
      (std::filesystem::temp_directory_path() / "memest_record_test_journal").string();
  std::filesystem::remove(path);
  setenv("MEMEST_RECORD_JOURNAL", path.c_str(), 1);
  setenv("MEMEST_RECORD_NAME", "NVIDIA Test", 1);
  setenv("MEMEST_RECORD_MEMORY", std::to_string(kMemory).c_str(), 1);
  setenv("MEMEST_RECORD_CONTEXT", std::to_string(kContext).c_str(), 1);
  setenv("MEMEST_RECORD_CAPABILITY_MAJOR", "8", 1);
  setenv("MEMEST_RECORD_CAPABILITY_MINOR", "9", 1);
  setenv("MEMEST_RECORD_SMS", "142", 1);
  setenv("MEMEST_RECORD_L2", "100663296", 1);
  return path;
}();

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == 0);
  CHECK(total == kMemory);
  return free;
}

void* allocated(std::size_t size) {
  void* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, size) == 0);
  return pointer;
}

std::int64_t read_back(const void* device) {
  std::int64_t value = -1;
  REQUIRE(cudaMemcpy(&value, device, sizeof value, kDeviceToHost) == 0);
  return value;
}

TEST_CASE("the properties are the environment's, in both majors' layouts") {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == 0);
  CHECK(count == 1);
  DeviceProperties13 p13;
  REQUIRE(cudaGetDeviceProperties(&p13, 0) == 0);
  CHECK(std::string(p13.name) == "NVIDIA Test");
  CHECK(p13.totalGlobalMem == kMemory);
  CHECK(p13.multiProcessorCount == 142);
  CHECK(p13.maxThreadsPerMultiProcessor == 1536);
  CHECK(p13.sharedMemPerBlockOptin == 99 * 1024);
  DeviceProperties12 p12;
  REQUIRE(cudaGetDeviceProperties_v2(&p12, 0) == 0);
  CHECK(p12.major == 8);
  CHECK(p12.minor == 9);
  CHECK(p12.l2CacheSize == 96 * 1024 * 1024);
  int value = 0;
  REQUIRE(cudaDeviceGetAttribute(&value, 16, 0) == 0);
  CHECK(value == 142);
  CHECK(cudaGetDeviceProperties(&p13, 1) == 101);
  cudaGetLastError();
}

TEST_CASE("small requests take units of 512 B, large ones pages of 2 MiB") {
  const std::size_t before = free_bytes();
  CHECK(before == kMemory - kContext);
  void* small = allocated(1);
  CHECK(before - free_bytes() == 512);
  void* large = allocated(kMiB + 1);
  CHECK(before - free_bytes() == 512 + 2 * kMiB);
  CHECK(cudaFree(small) == 0);
  CHECK(cudaFree(large) == 0);
  CHECK(free_bytes() == before);
  CHECK(memest_record_device_peak(0) >= 512 + 2 * kMiB);
  CHECK(cudaFree(large) == 1);
  cudaGetLastError();
}

TEST_CASE("what does not fit behind the context fails, and the error is told once") {
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, kMemory - kContext + 1) == 2);
  CHECK(pointer == nullptr);
  CHECK(cudaGetLastError() == 2);
  CHECK(cudaGetLastError() == 0);
  void* all = allocated(kMemory - kContext);
  CHECK(free_bytes() == 0);
  CHECK(cudaFree(all) == 0);
}

TEST_CASE("addresses take no memory, what is mapped behind them does until its last reference") {
  struct {
    int type, handle_types, location_type, device;
  } properties = {1, 0, 1, 0};
  const std::size_t before = free_bytes();
  std::uintptr_t address = 0;
  REQUIRE(cuMemAddressReserve(&address, 4 * kMemory, 0, 0, 0) == 0);
  CHECK(free_bytes() == before);
  std::uint64_t physical = 0;
  REQUIRE(cuMemCreate(&physical, 20 * kMiB, &properties, 0) == 0);
  CHECK(before - free_bytes() == 20 * kMiB);
  REQUIRE(cuMemMap(address, 20 * kMiB, 0, physical, 0) == 0);
  CHECK(cuMemRelease(physical) == 0);
  CHECK(before - free_bytes() == 20 * kMiB);
  CHECK(cuMemUnmap(address, 20 * kMiB) == 0);
  CHECK(free_bytes() == before);
  CHECK(cuMemCreate(&physical, 2 * kMemory, &properties, 0) == 2);
}

TEST_CASE("a copy can be read back until a kernel runs, then all is zero") {
  void* pointer = allocated(8);
  const std::int64_t sent = 42;
  REQUIRE(cudaMemcpy(pointer, &sent, sizeof sent, kHostToDevice) == 0);
  CHECK(read_back(pointer) == 42);
  const int kernel = 0;
  CHECK(cudaLaunchKernel(&kernel, {}, {}, nullptr, 0, nullptr) == 0);
  CHECK(read_back(pointer) == 0);
  cudaFree(pointer);
}

TEST_CASE("all() is true and any() is false when they are read back") {
  static const char all = 0;
  static const char any = 0;
  __cudaRegisterFunction(nullptr, &all, nullptr, "_ZN2at6native13reduce_kernelI15and_kernel_cudaE",
                         0, nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFunction(nullptr, &any, nullptr, "_ZN2at6native13reduce_kernelI14or_kernel_cudaE",
                         0, nullptr, nullptr, nullptr, nullptr, nullptr);
  void* pointer = allocated(1);
  const auto told = [&](const void* kernel) {
    REQUIRE(cudaLaunchKernel(kernel, {}, {}, nullptr, 0, nullptr) == 0);
    char value = 7;
    REQUIRE(cudaMemcpy(&value, pointer, 1, kDeviceToHost) == 0);
    return static_cast<int>(value);
  };
  CHECK(told(&all) == 1);
  CHECK(told(&any) == 0);
  cudaFree(pointer);
}

TEST_CASE("ranks gather what this one sends, and a rank keeps its part of a sum") {
  constexpr int kRanks = 4;
  constexpr int kRank = 2;
  void* communicator = nullptr;
  REQUIRE(ncclCommInitRankScalable(&communicator, kRanks, kRank, 1, nullptr, nullptr) == 0);
  auto* from = static_cast<std::int64_t*>(allocated(kRanks * 8));
  auto* to = static_cast<std::int64_t*>(allocated(kRanks * 8));
  const std::array<std::int64_t, kRanks> sent = {10, 11, 12, 13};
  REQUIRE(cudaMemcpy(from, sent.data(), sizeof sent, kHostToDevice) == 0);
  REQUIRE(ncclAllGather(from, to, 1, kInt64, communicator, nullptr) == 0);
  for (int rank = 0; rank < kRanks; ++rank) CHECK(read_back(to + rank) == 10);
  REQUIRE(ncclReduceScatter(from, to, 1, kInt64, 0, communicator, nullptr) == 0);
  CHECK(read_back(to) == 12);
  cudaFree(from);
  cudaFree(to);
}

TEST_CASE("a stream captures between begin and end") {
  void* stream = nullptr;
  void* graph = nullptr;
  int status = -1;
  REQUIRE(cudaStreamCreateWithFlags(&stream, 0) == 0);
  CHECK(cudaStreamIsCapturing(stream, &status) == 0);
  CHECK(status == 0);
  CHECK(cudaStreamBeginCapture(stream, 0) == 0);
  CHECK(cudaStreamIsCapturing(stream, &status) == 0);
  CHECK(status == 1);
  CHECK(cudaStreamEndCapture(stream, &graph) == 0);
  CHECK(graph != nullptr);
  CHECK(cudaStreamIsCapturing(stream, &status) == 0);
  CHECK(status == 0);
}

TEST_CASE("a question without an answer fails, and the journal names it once") {
  CHECK(cusolverDnSgetrf_bufferSize() != 0);
  CHECK(cusolverDnSgetrf_bufferSize() != 0);
  CHECK(cudnnGetConvolutionForwardWorkspaceSize() != 0);
  std::vector<std::string> unanswered;
  std::ifstream lines(journal);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("unanswered ")) unanswered.push_back(line);
  }
  CHECK(unanswered ==
        std::vector<std::string>{"unanswered cusolverDnSgetrf_bufferSize",
                                 "unanswered cudnnGetConvolutionForwardWorkspaceSize"});
}

}  // namespace
}  // namespace memest::record
