// Every answer of CUDA's libraries is checked here: what is no success becomes an EnvironmentError
// with the library's words and the place of the call.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <source_location>

namespace memest::kernels {

void check(cudaError_t answer, std::source_location place = std::source_location::current());
void check(cublasStatus_t answer, std::source_location place = std::source_location::current());

}  // namespace memest::kernels
