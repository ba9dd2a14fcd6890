// Work that a stream was given once, ready to run again in one launch.
#pragma once

#include <utility>

#include "kernels/harness/check.hpp"

namespace memest::kernels {

class Graph {
 public:
  Graph() = default;
  /// Captures what `enqueue` gives the stream; nothing of it runs yet. A capture that `enqueue`
  /// leaves by an exception ends with the stream.
  template <class Enqueue>
  Graph(cudaStream_t stream, const Enqueue& enqueue) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    const cudaError_t answer = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(answer);
    check(cudaGraphUpload(executable_, stream));  // else the first launch would
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace memest::kernels
