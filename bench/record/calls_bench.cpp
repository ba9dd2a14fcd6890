// What a program's calls cost on the null device. A launch is what every operator does: it takes
// well under two microseconds, or a step of many small kernels would take longer than on a GPU.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "abi/cudart.hpp"

extern "C" {
int cudaMalloc(void** pointer, std::size_t size);
int cudaMallocAsync(void** pointer, std::size_t size, void* stream);
int cudaFree(void* pointer);
int cudaFreeAsync(void* pointer, void* stream);
int cudaMemcpyAsync(void* to, const void* from, std::size_t size, int kind, void* stream);
int cudaLaunchKernel(const void* kernel, memest::record::Dim3 grid, memest::record::Dim3 block,
                     void** arguments, std::size_t shared, void* stream);
void __cudaRegisterFunction(void** binary, const char* stub, char* device, const char* name,
                            int limit, void* a, void* b, void* c, void* d, int* e);
int cublasGemmEx(void* handle, int left, int right, int m, int n, int k, const void* alpha,
                 const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                 const void* beta, void* c, int c_type, int ldc, int compute, int algorithm);
}

namespace memest::record {
namespace {

/// Before the first call, which reads the environment.
const bool is_set_up = [] {
  setenv("MEMEST_RECORD_JOURNAL", "/dev/null", 1);
  setenv("MEMEST_RECORD_MEMORY", "85899345920", 1);
  setenv("MEMEST_RECORD_CAPABILITY_MAJOR", "9", 1);
  setenv("MEMEST_RECORD_CAPABILITY_MINOR", "0", 1);
  setenv("MEMEST_RECORD_SMS", "132", 1);
  return true;
}();

constexpr int kHostToDevice = 1;
constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr Dim3 kGrid = {132, 1, 1};
constexpr Dim3 kBlock = {256, 1, 1};

/// PyTorch's libraries register about so many before a program launches the first.
constexpr int kRegistered = 100'000;

std::array<char, kRegistered>& stubs() {
  static auto* const all = new std::array<char, kRegistered>;
  return *all;
}

/// A kernel's stub, with `name` its own and the others' of a kind that PyTorch has thousands of.
const void* registered(const char* name) {
  static const bool others = [] {
    for (char& stub : stubs()) {
      __cudaRegisterFunction(nullptr, &stub, nullptr,
                             "_ZN2at6native29vectorized_elementwise_kernelILi4EE", 0, nullptr,
                             nullptr, nullptr, nullptr, nullptr);
    }
    return true;
  }();
  benchmark::DoNotOptimize(others);
  static std::array<char, 2> own;
  char* const stub = &own[name[0] == '_' ? 0 : 1];
  __cudaRegisterFunction(nullptr, stub, nullptr, name, 0, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  return stub;
}

void launch(benchmark::State& state, const char* name) {
  const void* const kernel = registered(name);
  int count = 1 << 20;
  int functor = 0;
  void* output = nullptr;
  cudaMalloc(&output, 4 * kMiB);
  std::array<void*, 3> arguments = {&count, &functor, &output};
  for (auto _ : state) {
    benchmark::DoNotOptimize(cudaLaunchKernel(kernel, kGrid, kBlock, arguments.data(), 0, nullptr));
  }
  cudaFree(output);
}
void launch_of_a_kernel(benchmark::State& state) { launch(state, "some_kernel"); }
BENCHMARK(launch_of_a_kernel);
void launch_of_an_elementwise_kernel(benchmark::State& state) {
  launch(state, "_ZN2at6native29vectorized_elementwise_kernelILi4EE");
}
BENCHMARK(launch_of_an_elementwise_kernel);

/// A launch that forgets what a copy has left, as the first behind a batch does.
void copy_of_a_scalar_and_launch(benchmark::State& state) {
  const void* const kernel = registered("some_kernel");
  const std::int64_t scalar = 1;
  void* pointer = nullptr;
  cudaMalloc(&pointer, kMiB);
  for (auto _ : state) {
    cudaMemcpyAsync(pointer, &scalar, sizeof scalar, kHostToDevice, nullptr);
    benchmark::DoNotOptimize(cudaLaunchKernel(kernel, kGrid, kBlock, nullptr, 0, nullptr));
  }
  cudaFree(pointer);
}
BENCHMARK(copy_of_a_scalar_and_launch);

void product(benchmark::State& state) {
  constexpr int kSize = 4096;
  constexpr int kBf16 = 14;         // CUDA_R_16BF
  constexpr int kComputeFp32 = 68;  // CUBLAS_COMPUTE_32F
  const float one = 1;
  void* pointer = nullptr;
  cudaMalloc(&pointer, 3 * kSize * kSize * sizeof(std::uint16_t));
  for (auto _ : state) {
    benchmark::DoNotOptimize(cublasGemmEx(nullptr, 0, 0, kSize, kSize, kSize, &one, pointer, kBf16,
                                          kSize, pointer, kBf16, kSize, &one, pointer, kBf16, kSize,
                                          kComputeFp32, -1));
  }
  cudaFree(pointer);
}
BENCHMARK(product);

/// Beside so many allocations that live: a caching allocator holds some thousands of segments.
class Live {
 public:
  explicit Live(std::int64_t count) : pointers_(static_cast<std::size_t>(count)) {
    for (void*& pointer : pointers_) cudaMalloc(&pointer, 2 * kMiB);
  }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() {
    for (void* pointer : pointers_) cudaFree(pointer);
  }

 private:
  std::vector<void*> pointers_;
};

void allocation_and_free(benchmark::State& state) {
  const Live live(state.range(0));
  void* pointer = nullptr;
  for (auto _ : state) {
    cudaMalloc(&pointer, 20 * kMiB);
    cudaFree(pointer);
  }
}
BENCHMARK(allocation_and_free)->Arg(10)->Arg(4000);

void stream_ordered_allocation_and_free(benchmark::State& state) {
  const Live live(state.range(0));
  void* pointer = nullptr;
  for (auto _ : state) {
    cudaMallocAsync(&pointer, 20 * kMiB, nullptr);
    cudaFreeAsync(pointer, nullptr);
  }
}
BENCHMARK(stream_ordered_allocation_and_free)->Arg(10)->Arg(4000);

}  // namespace
}  // namespace memest::record
