// cuBLASLt: its descriptors are kept, so that a product is told with its sizes and types.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "abi/calls.hpp"
#include "device/handles.hpp"
#include "device/kernels.hpp"
#include "device/work.hpp"
#include "libraries/cuda_types.hpp"

namespace memest::record {
namespace {

constexpr std::size_t kVersion = 130000;  // CUBLAS_VERSION of CUDA 13.0

/// cublasLtMatmulHeuristicResult_t.
struct MatmulHeuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Layout {
  int type = kReal32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int32_t batch = 1;
};

struct Multiplication {
  int compute = 0;
  int scale = kReal32;  ///< the type of alpha and beta
  std::int32_t transpose_a = 0;
  std::int32_t transpose_b = 0;
};

/// cublasLtMatmulDescAttributes_t and cublasLtMatrixLayoutAttribute_t.
enum MultiplicationAttribute : int { transpose_a = 3, transpose_b = 4 };
enum LayoutAttribute : int { batch_count = 5 };
constexpr int kTensorFloatCompute = 77;

/// What programs describe, by the handles that they got. They describe each product anew.
template <class Description>
class Descriptions {
 public:
  Status create(Handle* handle, Description description) {
    *handle = new_handle();
    put(*handle, description);
    return kSuccess;
  }
  void put(Handle handle, Description description) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_[handle] = description;
  }
  void remove(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(handle);
  }
  Description of(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(handle);
    return found == all_.end() ? Description() : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, Description> all_;
};

Descriptions<Layout>& layouts() {
  static auto* const all = new Descriptions<Layout>;
  return *all;
}

Descriptions<Multiplication>& multiplications() {
  static auto* const all = new Descriptions<Multiplication>;
  return *all;
}

void read(const void* buffer, std::size_t size, std::int32_t& value) {
  if (size >= sizeof value) std::memcpy(&value, buffer, sizeof value);
}

/// Of op(A)[m, k] · op(B)[k, n].
Product product_of(const Multiplication& multiplication, const Layout& a, const Layout& result) {
  Product product{.operand = a.type, .result = result.type};
  product.transposes_a = multiplication.transpose_a != 0;
  product.transposes_b = multiplication.transpose_b != 0;
  product.tensor_float = a.type == kReal32 && multiplication.compute == kTensorFloatCompute;
  product.m = result.rows;
  product.n = result.columns;
  product.k = product.transposes_a ? a.rows : a.columns;
  product.batch = std::max(result.batch, 1);
  return product;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL std::size_t cublasLtGetVersion() { return kVersion; }
MEMEST_CALL const char* cublasLtGetStatusString(Status) { return "error of cuBLAS"; }

MEMEST_CALL Status cublasLtMatrixLayoutCreate(Handle* layout, int type, std::uint64_t rows,
                                              std::uint64_t columns, std::int64_t) {
  return layouts().create(
      layout, {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), 1});
}
MEMEST_CALL Status cublasLtMatrixLayoutInit_internal(Handle layout, std::size_t, int type,
                                                     std::uint64_t rows, std::uint64_t columns,
                                                     std::int64_t) {
  layouts().put(layout,
                {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), 1});
  return kSuccess;
}
MEMEST_CALL Status cublasLtMatrixLayoutSetAttribute(Handle handle, int attribute,
                                                    const void* buffer, std::size_t size) {
  if (attribute != batch_count) return kSuccess;
  Layout layout = layouts().of(handle);
  read(buffer, size, layout.batch);
  layouts().put(handle, layout);
  return kSuccess;
}
MEMEST_CALL Status cublasLtMatrixLayoutDestroy(Handle layout) {
  layouts().remove(layout);
  return kSuccess;
}

MEMEST_CALL Status cublasLtMatmulDescCreate(Handle* multiplication, int compute, int scale) {
  return multiplications().create(multiplication, {compute, scale, 0, 0});
}
MEMEST_CALL Status cublasLtMatmulDescInit_internal(Handle multiplication, std::size_t, int compute,
                                                   int scale) {
  multiplications().put(multiplication, {compute, scale, 0, 0});
  return kSuccess;
}
MEMEST_CALL Status cublasLtMatmulDescSetAttribute(Handle handle, int attribute, const void* buffer,
                                                  std::size_t size) {
  Multiplication multiplication = multiplications().of(handle);
  if (attribute == transpose_a) read(buffer, size, multiplication.transpose_a);
  if (attribute == transpose_b) read(buffer, size, multiplication.transpose_b);
  multiplications().put(handle, multiplication);
  return kSuccess;
}
MEMEST_CALL Status cublasLtMatmulDescDestroy(Handle multiplication) {
  multiplications().remove(multiplication);
  return kSuccess;
}

/// One algorithm, which needs no workspace: PyTorch allocates its own, whatever the answer.
MEMEST_CALL Status cublasLtMatmulAlgoGetHeuristic(Handle, Handle, Handle, Handle, Handle, Handle,
                                                  Handle, int wanted, MatmulHeuristic* results,
                                                  int* count) {
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) {
    results[0] = {};
    results[0].waves = 1;
  }
  return kSuccess;
}
MEMEST_CALL Status cublasLtMatmul(Handle library, Handle multiplication, const void*, const void*,
                                  Handle a, const void*, Handle, const void* beta, const void*,
                                  Handle, void*, Handle result, const void*, void*, std::size_t,
                                  Handle stream) {
  library_ran(nullptr, library);
  if (!work().watches()) return kSuccess;
  Product product =
      product_of(multiplications().of(multiplication), layouts().of(a), layouts().of(result));
  product.accumulates = is_set(beta, multiplications().of(multiplication).scale);
  work().product(product, stream);
  return kSuccess;
}
