// The null device in a process that `memest record` did not set up: there is no device.
#include <cstdlib>

extern "C" int cudaGetDeviceCount(int* count);
extern "C" int cudaMalloc(void** pointer, std::size_t size);
extern "C" int cuInit(unsigned flags);

int main() {
  unsetenv("MEMEST_RECORD_JOURNAL");
  constexpr int kNoDevice = 100;
  int count = -1;
  void* pointer = nullptr;
  const bool idle = cudaGetDeviceCount(&count) == kNoDevice && count == 0 &&
                    cudaMalloc(&pointer, 512) == kNoDevice && cuInit(0) == kNoDevice;
  return idle ? EXIT_SUCCESS : EXIT_FAILURE;
}
