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
int cudaEventRecord(void* event, void* stream);
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags);
int cudaDeviceSynchronize();
int cudaGraphLaunch(void* graph, void* stream);
int cublasCreate_v2(void** library);
int cublasSetStream_v2(void* library, void* stream);
int cublasGemmEx(void* library, int transpose_a, int transpose_b, int m, int n, int k,
                 const void* alpha, const void* a, int a_type, int lda, const void* b, int b_type,
                 int ldb, const void* beta, void* c, int c_type, int ldc, int compute,
                 int algorithm);
int cublasLtMatmulDescCreate(void** multiplication, int compute, int scale);
int cublasLtMatmulDescSetAttribute(void* multiplication, int attribute, const void* value,
                                   std::size_t size);
int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading);
int cublasLtMatmul(void* library, void* multiplication, const void* alpha, const void* a,
                   void* a_layout, const void* b, void* b_layout, const void* beta, const void* c,
                   void* c_layout, void* d, void* d_layout, const void* algorithm, void* workspace,
                   std::size_t bytes, void* stream);
int InitializeInjectionNvtx2(const void* (*export_table)(std::uint32_t));
void memest_record_watch_work(int on);
void memest_record_mark_work(const char* name);
int memest_record_write_work(const char* path);
void memest_record_enter_module(std::uint32_t module);
void memest_record_leave_module();
std::uint64_t memest_record_entered_ranges();
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
  setenv("MEMEST_RECORD_MASKS_KEEP_ALL", "1", 1);
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

// --- What the program asks for -----------------------------------------------------------------

/// What was written while it is there.
class Watched {
 public:
  Watched() { memest_record_watch_work(1); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { memest_record_watch_work(0); }

  [[nodiscard]] std::vector<std::string> lines() const {
    const std::string path =
        (std::filesystem::temp_directory_path() / "memest_record_test_work").string();
    REQUIRE(memest_record_write_work(path.c_str()) == 1);
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::filesystem::remove(path);
    return lines;
  }
};

/// NVTX of a program that no tool has injected itself into.
int (*pushed)(const char*) = nullptr;
int (*popped)() = nullptr;
const void* nvtx_tables(std::uint32_t) {
  using Function = void (*)();
  static Function* functions[16];
  static Function known[16];
  for (std::size_t i = 0; i < 16; ++i) functions[i] = &known[i];
  struct Callbacks {
    std::size_t size;
    int (*functions_of)(int, Function***, unsigned*);
  };
  static const Callbacks callbacks{sizeof(Callbacks), [](int, Function*** table, unsigned* size) {
                                     *table = functions;
                                     *size = 16;
                                     return 1;
                                   }};
  pushed = reinterpret_cast<int (*)(const char*)>(known[9]);
  popped = reinterpret_cast<int (*)()>(known[11]);
  return &callbacks;
}

TEST_CASE("a kernel is told with its name, its operator and its stream, while somebody watches") {
  static const char stub = 0;
  __cudaRegisterFunction(nullptr, &stub, nullptr, "_Z3addPf", 0, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  void* side = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&side, 1) == 0);
  const auto launched = [&](void* stream) {
    void* arguments[] = {nullptr};
    REQUIRE(cudaLaunchKernel(&stub, {4, 2, 1}, {32, 4, 1}, arguments, 0, stream) == 0);
  };
  launched(nullptr);  // before anybody does
  REQUIRE(InitializeInjectionNvtx2(&nvtx_tables) == 1);
  nvtx_tables(1);
  const Watched watched;
  pushed("aten::add, seq = 3, op_id = 41");
  launched(nullptr);
  pushed("a range of the program's own");
  launched(side);
  popped();
  popped();
  launched(reinterpret_cast<void*>(2));  // cudaStreamPerThread
  memest_record_mark_work("step1.forward");
  CHECK(watched.lines() == std::vector<std::string>{"w n 0 _Z3addPf", "w k 0 0 41 0 4 2 1 128",
                                                    "w k 0 1 41 0 4 2 1 128",
                                                    "w k 0 0 0 0 4 2 1 128", "w = step1.forward"});
}

TEST_CASE("a count of what a mask keeps is of all, in one kernel and in blocks") {
  static const char whole = 0;
  static const char in_blocks = 0;
  static const char of_blocks = 0;
  static const char other = 0;
  const auto registered = [](const char* stub, const char* name) {
    __cudaRegisterFunction(nullptr, stub, nullptr, name, 0, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
  };
  registered(&whole, "_ZN3cub28DeviceReduceSingleTileKernelIN2at6native9NonZeroOpIbEEPiyEE");
  registered(&in_blocks, "_ZN3cub18DeviceReduceKernelIN2at6native9NonZeroOpIbEEyEE");
  registered(&of_blocks, "_ZN3cub28DeviceReduceSingleTileKernelIPiS1_iEE");
  registered(&other, "_Z3addPf");
  void* const count = allocated(512);
  void* const partial = allocated(512);
  const auto launched = [](const char* stub, void* output, std::uint64_t elements) {
    void* input = nullptr;
    void* arguments[] = {&input, &output, &elements};
    REQUIRE(cudaLaunchKernel(stub, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr) == 0);
  };
  const auto counted = [&] {
    std::int32_t value = -1;
    REQUIRE(cudaMemcpy(&value, count, sizeof value, kDeviceToHost) == 0);
    return value;
  };
  launched(&whole, count, 1000);
  CHECK(counted() == 1000);
  launched(&in_blocks, partial, 5'000'000);
  launched(&of_blocks, count, 264);
  CHECK(counted() == 5'000'000);
  launched(&of_blocks, count, 264);  // of another sum
  CHECK(counted() == 0);
  launched(&in_blocks, partial, 5'000'000);
  launched(&other, partial, 1);
  launched(&of_blocks, count, 264);
  CHECK(counted() == 0);
}

TEST_CASE("a launch belongs to the module that runs, and in the backward to its node's") {
  static const char stub = 0;
  __cudaRegisterFunction(nullptr, &stub, nullptr, "_Z3addPf", 0, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  const auto launched = [&] {
    void* arguments[] = {nullptr};
    REQUIRE(cudaLaunchKernel(&stub, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr) == 0);
  };
  /// The modules that the launches since `watched` belong to.
  const auto modules_of = [](const Watched& watched) {
    std::vector<std::string> modules;
    std::string told = "0";
    for (const std::string& line : watched.lines()) {
      if (line.starts_with("w > 0 ")) told = line.substr(6);
      if (line.starts_with("w k ")) modules.push_back(told);
    }
    return modules;
  };
  REQUIRE(InitializeInjectionNvtx2(&nvtx_tables) == 1);
  nvtx_tables(1);
  const Watched watched;
  const std::uint64_t entered = memest_record_entered_ranges();
  memest_record_enter_module(1);
  memest_record_enter_module(2);
  pushed("aten::linear, seq = 7, op_id = 1");
  pushed("aten::t, seq = 7, op_id = 2");
  popped();
  launched();  // of module 2
  popped();
  memest_record_leave_module();
  pushed("aten::mul, seq = 8, op_id = 3");
  launched();  // of module 1
  popped();
  memest_record_leave_module();
  CHECK(memest_record_entered_ranges() == entered + 3);
  launched();  // of none
  pushed("autograd::engine::evaluate_function: MulBackward0, op_id = 4");
  pushed("MulBackward0, seq = 8, op_id = 5");
  pushed("aten::mul, op_id = 6");
  launched();  // of module 1
  popped();
  pushed("aten::linear, seq = 7, op_id = 7");
  launched();  // computed anew, of none
  popped();
  pushed("autograd::engine::evaluate_function: TBackward0, op_id = 8");
  pushed("TBackward0, seq = 7, op_id = 9");
  launched();  // of a graph that was made there, of none
  popped();
  popped();
  popped();
  launched();  // gradients that are summed behind the node, of module 1
  popped();
  pushed("autograd::engine::evaluate_function: TBackward0, op_id = 10");
  pushed("TBackward0, seq = 7, op_id = 11");
  launched();  // of module 2
  popped();
  popped();
  pushed("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, op_id = 12");
  pushed("torch::autograd::AccumulateGrad, op_id = 13");
  launched();  // of none
  popped();
  popped();
  CHECK(modules_of(watched) ==
        std::vector<std::string>{"2", "1", "0", "1", "0", "0", "1", "2", "0"});
}

TEST_CASE("products are told by cuBLAS' arguments, and by cuBLASLt's descriptors") {
  constexpr int kBrainHalf = 14;
  constexpr int kSingle = 68;  // CUBLAS_COMPUTE_32F
  const float one = 1;
  const float zero = 0;
  void* library = nullptr;
  REQUIRE(cublasCreate_v2(&library) == 0);
  REQUIRE(cublasSetStream_v2(library, nullptr) == 0);
  const Watched watched;
  for (const float* beta : {&zero, &one}) {
    cublasGemmEx(library, 1, 0, 16, 32, 64, &one, nullptr, kBrainHalf, 64, nullptr, kBrainHalf, 64,
                 beta, nullptr, kBrainHalf, 16, kSingle, 0);
  }
  void* multiplication = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* d = nullptr;
  const int transposed = 1;
  REQUIRE(cublasLtMatmulDescCreate(&multiplication, kSingle, 0) == 0);
  REQUIRE(cublasLtMatmulDescSetAttribute(multiplication, 3, &transposed, sizeof transposed) == 0);
  REQUIRE(cublasLtMatrixLayoutCreate(&a, kBrainHalf, 64, 16, 64) == 0);
  REQUIRE(cublasLtMatrixLayoutCreate(&b, kBrainHalf, 64, 32, 64) == 0);
  REQUIRE(cublasLtMatrixLayoutCreate(&d, 0, 16, 32, 16) == 0);
  cublasLtMatmul(library, multiplication, &one, nullptr, a, nullptr, b, &zero, nullptr, d, nullptr,
                 d, nullptr, nullptr, 0, nullptr);
  // A beta that lies on the device is not looked into.
  void* const on_device = allocated(sizeof one);
  cublasLtMatmul(library, multiplication, &one, nullptr, a, nullptr, b, on_device, nullptr, d,
                 nullptr, d, nullptr, nullptr, 0, nullptr);
  CHECK(watched.lines() ==
        std::vector<std::string>{"w g 0 0 0 14 14 tn 16 32 64 1", "w g 0 0 0 14 14 tn+ 16 32 64 1",
                                 "w g 0 0 0 14 0 tn 16 32 64 1", "w g 0 0 0 14 0 tn 16 32 64 1"});
  cudaFree(on_device);
}

TEST_CASE("waits, copies and messages are told in their order") {
  void* side = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&side, 1) == 0);
  void* const device = allocated(64);
  std::int64_t host = 0;
  int event = 0;
  void* group = nullptr;
  REQUIRE(ncclCommInitRankScalable(&group, 4, 1, 0, nullptr, nullptr) == 0);
  const Watched watched;
  cudaMemcpy(device, &host, sizeof host, kHostToDevice);
  cudaEventRecord(&event, nullptr);
  cudaStreamWaitEvent(side, &event, 0);
  ncclReduceScatter(device, device, 2, kInt64, 0, group, side);
  cudaDeviceSynchronize();
  cudaGraphLaunch(nullptr, nullptr);
  const std::vector<std::string> lines = watched.lines();
  REQUIRE(lines.size() == 8);
  CHECK(lines[6] == "w n 0 cudaGraphLaunch");
  CHECK(lines[7] == "w k 0 0 0 0 0 0 0 0");
  CHECK(lines[0] == "w m 0 0 0 h2d_pageable 8");
  CHECK(lines[1] == "w h stream 0");
  const std::string number = lines[2].substr(4, lines[2].find(' ', 4) - 4);
  const std::string stream = lines[3].substr(lines[3].rfind(' ') + 1);
  CHECK(lines[2] == "w e " + number + " 0");
  CHECK(lines[3] == "w t " + number + " " + stream);
  CHECK(stream != "0");
  CHECK(lines[4] == "w c 0 " + stream + " 0 reduce_scatter 64 4");
  CHECK(lines[5] == "w h all");
  cudaFree(device);
}

}  // namespace
}  // namespace memest::record
