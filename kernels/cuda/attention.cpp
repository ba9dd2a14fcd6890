#include "kernels/cuda/attention.hpp"

#include <map>
#include <type_traits>

#include "kernels/attention.hpp"
#include "kernels/cuda/attention_plan.hpp"
#include "kernels/harness/library.hpp"
#include "kernels/harness/memory.hpp"
#include "memest/kernels/backend.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where the frontend looks the library's functions up
}

namespace memest::kernels {
namespace {

namespace fe = cudnn_frontend;

/// Before 9.15.1, a backward in a graph reads past keys that do not fill their last tile of 128
/// (cudnn-frontend's release notes of 1.16).
constexpr std::size_t kSafeTails = 91'501;
constexpr std::int64_t kTile = 128;

struct DestroysHandle {
  void operator()(cudnnHandle_t handle) const { fe::detail::destroy_handle(handle); }
};
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroysHandle>;

/// The frontend opens a CUDA runtime of its own to ask for the device.
bool has_shared_runtime() {
  return Library("libcudart.so.13").is_open() || Library("libcudart.so.12").is_open();
}

/// Null where a library is missing or does not start. Once opened it stays: the frontend keeps its
/// functions' places.
OwnedHandle open_cudnn() {
  static const Library library("libcudnn.so.9");
  if (!library.is_open() || !has_shared_runtime()) return nullptr;
  fe::cudnn_dlhandle = library.handle();
  cudnnHandle_t made = nullptr;
  if (fe::detail::create_handle(&made) != CUDNN_STATUS_SUCCESS) return nullptr;
  return OwnedHandle(made);
}

bool is_safe(const AttentionShape& shape) {
  return shape.pass == KernelPass::forward || shape.seq_len % kTile == 0 ||
         fe::detail::get_backend_version() >= kSafeTails;
}

}  // namespace

/// Each shape's plan, made once: the library takes a while to choose and longer to compile.
class CudnnAttention::Plans {
 public:
  explicit Plans(OwnedHandle handle) : handle_(std::move(handle)) {}

  std::shared_ptr<AttentionPlan> of(AttentionShape shape) {
    shape.kernel = kGpuAttention;
    std::shared_ptr<AttentionPlan>& plan = plans_[shape];
    if (plan == nullptr) plan = std::make_shared<AttentionPlan>(handle_.get(), shape);
    return plan;
  }
  std::shared_ptr<AttentionPlan> built(const AttentionShape& shape) {
    auto plan = of(shape);
    plan->build();
    return plan;
  }

 private:
  OwnedHandle handle_;
  std::map<AttentionShape, std::shared_ptr<AttentionPlan>> plans_;
};

CudnnAttention::CudnnAttention() {
  if (OwnedHandle handle = open_cudnn()) plans_ = std::make_unique<Plans>(std::move(handle));
}
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::library() const {
  return plans_ == nullptr ? "" : "cuDNN " + fe::detail::get_backend_version_string();
}

bool CudnnAttention::supports(const AttentionShape& shape) const {
  const bool is_ours = shape.kernel.empty() || shape.kernel == kGpuAttention;
  if (plans_ == nullptr || !is_ours || !is_attention(shape) || !is_half(shape.dtype)) return false;
  // A backward needs its forward's plan for its inputs.
  return is_safe(shape) && plans_->of(shape)->is_supported() &&
         plans_->of(forward_of(shape))->is_supported();
}

Workload CudnnAttention::workload(const AttentionShape& shape) const {
  Workload work{.description = describe_attention(shape),
                .reference = [=](double* const* operands) { attention_reference(shape, operands); },
                // A 16-bit kernel also rounds P, dS and each head's part of dK and dV. Each of
                // these deviates by a fifth of a place, all together by less than half of one; but
                // a position that sees few keys may be off by many, so no single result is judged.
                .error = mean_error,
                .least_tolerance = tolerance(shape.dtype)};
  const auto plan = plans_->built(shape);
  const std::size_t workspace = work.description.operands.size();
  work.description.operands.push_back({.name = "workspace",
                                       .dtype = DType::uint8,
                                       .elements = plan->workspace().value(),
                                       .access = Access::scratch});
  work.enqueue = [=](void* const* operands, Stream stream) {
    plan->enqueue(operands, operands[workspace], stream);
  };
  // A backward reads o and lse of its own forward, so that is run once on every copy of the
  // operands.
  if (shape.pass == KernelPass::backward) {
    const auto forward = plans_->built(forward_of(shape));
    const auto scratch = std::make_shared<DeviceMemory>(forward->workspace());
    work.prepare = [=](void* const* operands, Stream stream) {
      forward->enqueue(operands, scratch->data(), stream);
    };
  }
  return work;
}

}  // namespace memest::kernels
