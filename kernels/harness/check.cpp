#include "kernels/harness/check.hpp"

#include <string>

#include "kernels/call.hpp"
#include "memest/diag/environment.hpp"

namespace memest::kernels {
namespace {

[[noreturn]] void fail(const std::string& library, const char* words,
                       const std::source_location& place) {
  const std::string file = place.file_name();
  throw EnvironmentError(library + ": " + words + " (" + file.substr(file.rfind('/') + 1) + ":" +
                         std::to_string(place.line()) + ")");
}

}  // namespace

void check(cudaError_t answer, std::source_location place) {
  if (answer == cudaSuccess) return;
  cudaGetLastError();  // answers that do not stick would be met again by the next launch
  fail("CUDA", cudaGetErrorString(answer), place);
}

void check(cublasStatus_t answer, std::source_location place) {
  if (answer != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt", cublasLtGetStatusString(answer), place);
}

void check_launch() { check(cudaGetLastError()); }

}  // namespace memest::kernels
