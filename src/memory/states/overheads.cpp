#include "memory/states/overheads.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/memory/stage_form.hpp"
#include "memest/memory/unfollowed.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/lowered_images.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

// ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize: 8 times 4 MiB on compute capability
// 9.0, else 2 times 4 MiB and 8 times 16 KiB. One for each handle and stream; handles are a
// thread's own, and backward runs in the autograd engine's thread of the device.
constexpr std::int64_t kCublasWorkspaces = 2;
constexpr std::int64_t kCublasWorkspaceHopper = 32 * kMiB;
constexpr std::int64_t kCublasWorkspace = 8519680;
constexpr std::int64_t kCublasLtWorkspace = kMiB;
constexpr std::int64_t kTransformerEngineWorkspaceHopper = 32 * kMiB + 1024;
constexpr std::int64_t kTransformerEngineWorkspace = 4 * kMiB;

// NCCL outside the allocator: measured on A100s (NVIDIA/nccl#964) 544 MiB for two ranks and 688 MiB
// for more; from 250 MiB with few channels up to 1.6 GiB (NVIDIA/nccl#864).
constexpr std::int64_t kNcclTwoRanks = 544 * kMiB;
constexpr std::int64_t kNcclMoreRanks = 688 * kMiB;
constexpr std::int64_t kNcclLow = 250 * kMiB;
constexpr std::int64_t kNcclHigh = 1638 * kMiB;

bool uses(const Graph& graph, Workspace workspace) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [=](const Block& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [=](const Op& op) { return op.workspace == workspace; });
  });
}

/// Whether any library multiplies: convolutions alone do not ask cuBLAS.
bool multiplies(const Graph& graph) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [](const Block& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [](const Op& op) { return op.workspace != Workspace::none; });
  });
}

/// Whether the op's forward calls cuBLAS or cublasLt: some products of float8 linears are PyTorch's
/// own kernels.
bool multiplies_forward(const Op& op) {
  if (op.workspace == Workspace::none || op.workspace == Workspace::transformer_engine)
    return false;
  return op.forward_steps.empty() ||
         std::any_of(op.forward_steps.begin(), op.forward_steps.end(),
                     [](const Step& step) { return step.kind == StepKind::product; });
}

/// Whether an op of the graph does so; `workspace`: one that asks for that one.
bool multiplies_forward(const Graph& graph, std::optional<Workspace> workspace = {}) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [=](const Block& block) {
    return std::any_of(block.ops.begin(), block.ops.end(), [=](const Op& op) {
      return (!workspace || op.workspace == *workspace) && multiplies_forward(op);
    });
  });
}

LedgerTerm cublas_term(const Graph& graph, const Job& job, const WorkspaceSizes& sizes) {
  const TorchRow& torch = row_of(job.forward()->implementation.torch);
  const bool kept = sizes.cublas_life == WorkspaceLife::process;
  std::int64_t count = kept && job.training ? kCublasWorkspaces : 1;
  // Handles have others in the stream in which a CUDA graph is captured.
  const bool captured = job.forward()->implementation.cuda_graph.full_iteration;
  if (captured) count *= 2;
  // The forward's thread has none where all its products are other kernels' (CUTLASS's in float8).
  if (uses(graph, Workspace::cublas_lt_twice) && !multiplies_forward(graph)) --count;
  std::string source = "PyTorch " + std::string(torch.name) + ", ";
  source += kept ? "one for the forward and one for the backward thread: 32 MiB each"
                 : "of one product at a time, at most: 32 MiB";
  if (captured) source += ", and as many for a CUDA graph's stream";
  source += " on compute capability 9.0";
  if (torch.large_on_blackwell) source += ", 10.x and 12.x";
  source += ", 8,519,680 B elsewhere";
  return {kept ? "cuBLAS workspaces" : "cuBLAS workspace", TermGroup::overhead,
          Expr(count * sizes.cublas), std::move(source), ""};
}

}  // namespace

WorkspaceSizes workspaces_of(const Job& job) {
  const TorchRow& torch = row_of(job.forward()->implementation.torch);
  const std::optional<ComputeCapability> capability = job.hardware.gpu.compute_capability();
  const bool blackwell = capability && (capability->major == 10 || capability->major == 12);
  const bool large = capability == kHopper || (torch.large_on_blackwell && blackwell);
  return {.cublas = large ? kCublasWorkspaceHopper : kCublasWorkspace,
          .cublas_lt = kCublasLtWorkspace,
          .transformer_engine = capability >= kHopper ? kTransformerEngineWorkspaceHopper
                                                      : kTransformerEngineWorkspace,
          .cublas_life = torch.cublas,
          .cublas_lt_life = torch.cublas_lt};
}

std::vector<LedgerTerm> workspace_terms(const Graph& graph, const Job& job) {
  // The field's formulas count no library.
  if (row_of(job.forward()->implementation.framework).is_formula) return {};
  if (!multiplies(graph)) return {};
  const WorkspaceSizes sizes = workspaces_of(job);
  std::vector<LedgerTerm> terms{cublas_term(graph, job, sizes)};
  const bool backward = uses(graph, Workspace::cublas_lt_twice);
  const bool keeps_lt = sizes.cublas_lt_life == WorkspaceLife::process;
  if (keeps_lt && (backward || uses(graph, Workspace::cublas_lt))) {
    // One for each thread that calls it, as with cuBLAS above.
    const bool forward = multiplies_forward(graph, Workspace::cublas_lt) ||
                         multiplies_forward(graph, Workspace::cublas_lt_twice);
    const std::int64_t calls = (backward ? 1 : 0) + (forward ? 1 : 0);
    terms.push_back({"cublasLt workspace", TermGroup::overhead, Expr(calls * sizes.cublas_lt),
                     backward ? "PyTorch 2.9 to 2.11: 1 MiB kept from a thread's first _scaled_mm"
                              : "PyTorch 2.9 to 2.11: 1 MiB kept from the first addmm with a bias",
                     ""});
  }
  if (uses(graph, Workspace::transformer_engine)) {
    terms.push_back({"workspace of Transformer Engine's products", TermGroup::overhead,
                     Expr(sizes.transformer_engine),
                     "Transformer Engine 2.11, cpp_extensions/gemm.py: 32 MiB and 1 KiB from "
                     "compute capability 9.0 on, 4 MiB before",
                     ""});
  }
  return terms;
}

std::vector<LedgerTerm> resident_bucket_terms(const Job& job, const Inventory& inventory) {
  const Sharding sharding = sharding_of(job);
  const auto* accumulator = std::get_if<GradientAccumulator>(&sharding);
  const bool beside_sums = accumulator != nullptr && accumulator->buckets;
  const auto* ddp = std::get_if<ReplicasOfDdp>(&sharding);
  // reducer.cpp: a bucket is one flat tensor of its gradients. Without views `.grad` is copied into
  // it and back, so both are there: 2 · 2 B a parameter in 16 bit.
  if (!beside_sums && (ddp == nullptr || ddp->buckets.gradient_as_bucket_view)) return {};
  const Recipe& recipe = job.training->recipe;
  const Symbol reduced = recipe.trained ? Symbol::trainable : Symbol::parameters;
  const DType type = beside_sums ? recipe.weights : recipe.gradients;
  Expr bytes = size_of(type) * Expr(reduced);
  // Modules that are trained in full beside adapters have gradients of the weights' type.
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.whole_module || recipe.weights == type) continue;
    const std::int64_t elements = checked_multiply(elements_of(tensor), tensor.count);
    bytes += Expr(checked_multiply(size_of(recipe.weights) - size_of(type), elements));
  }
  return {{"gradient buckets of DDP", TermGroup::gradients, bytes,
           "torch.nn.parallel.DistributedDataParallel: flat buckets of all gradients beside the "
           "gradients, unless gradient_as_bucket_view",
           ""}};
}

OutsideTerms outside_terms(const Job& job) {
  OutsideTerms outside;
  const GpuSpec& gpu = job.hardware.gpu;
  if (gpu.context) {
    outside.terms.push_back({"CUDA context", TermGroup::overhead, Expr(gpu.context->value.value()),
                             gpu.context->source, ""});
    const BytesRange range =
        gpu.context_range.value_or(BytesRange{gpu.context->value, gpu.context->value});
    outside.low += range.low;
    outside.high += range.high;
  }
  if (job.parallelism.shard_ranks() > 1) {
    const bool two = job.parallelism.shard_ranks() == 2;
    outside.terms.push_back(
        {"NCCL buffers", TermGroup::overhead, Expr(two ? kNcclTwoRanks : kNcclMoreRanks),
         "measured by others on A100s (NVIDIA/nccl#964); between 250 MiB and 1.6 GiB elsewhere "
         "(NVIDIA/nccl#864)",
         ""});
    outside.low += Bytes(kNcclLow);
    outside.high += Bytes(kNcclHigh);
  }
  const std::int64_t micro_batch = job.training ? job.training->micro_batch : 0;
  if (const Bytes buffers = dispatch_buffer_bytes(job, job.parallelism, micro_batch);
      buffers != Bytes()) {
    outside.terms.push_back({"buffers of Hybrid-EP", TermGroup::overhead, Expr(buffers.value()),
                             "DeepEP, branch hybrid-ep: rows for all tokens of all expert-parallel "
                             "ranks, and who chose "
                             "which expert",
                             ""});
    outside.low += buffers;
    outside.high += buffers;
  }
  const auto none_up_to = [&outside](Bytes most, const char* name, const char* why) {
    if (most == Bytes()) return;
    outside.terms.push_back({name, TermGroup::overhead, Expr(0), why, ""});
    outside.high += most;
  };
  none_up_to(most_convolution_workspace(job), "workspaces of cuDNN's convolutions",
             "not known without a GPU: none is assumed; the interval goes up to the largest "
             "convolution's lowered input (im2col)");
  none_up_to(most_graph_bytes(job), "static tensors of CUDA graphs",
             "Transformer Engine, make_graphed_callables: what goes into and comes out of each "
             "graph, and both gradients, where its buffers are not used again; none is assumed");
  none_up_to(most_outlier_bytes(job), "columns of outliers (LLM.int8())",
             "known from the data alone: none is assumed; the interval goes up to every column of "
             "every input");
  return outside;
}

}  // namespace memest
