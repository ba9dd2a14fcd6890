// A CUDA stream that ends with its owner.
#pragma once

#include "kernels/harness/check.hpp"

namespace memest::kernels {

class OwnedStream {
 public:
  /// Does not wait for the default stream.
  OwnedStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream(OwnedStream&&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  OwnedStream& operator=(OwnedStream&&) = delete;
  ~OwnedStream() { cudaStreamDestroy(stream_); }

  [[nodiscard]] cudaStream_t handle() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace memest::kernels
