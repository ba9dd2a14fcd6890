#include "calibrate/sweep_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "memest/kernels/traffic.hpp"

namespace memest {
namespace {

/// Tokens of a micro-batch, and some that no tile divides.
constexpr std::array<std::int64_t, 20> kTokens = {128,  200,   256,   384,   512,   1000, 1024,
                                                  1536, 2048,  3000,  4096,  6000,  6144, 8192,
                                                  9999, 12288, 16384, 24576, 32768, 65536};
/// Widths of layers: hidden sizes, feed-forward sizes and vocabularies of published models; 1000
/// (ImageNet), 2730 (a gated layer of 1024), 4544 (Falcon 7B) and 50257 (GPT-2) are not aligned.
constexpr std::array<std::int64_t, 36> kWidths = {
    128,  192,   256,   384,   512,   640,   768,   1000,  1024,  1280,  1536,  1600,
    2048, 2304,  2560,  2730,  3072,  3584,  4096,  4544,  5120,  6144,  7168,  8192,
    9216, 10240, 11008, 12288, 13824, 14336, 16384, 18432, 22016, 28672, 32000, 50257};
constexpr std::array<std::int64_t, 6> kRows = {4096, 1024, 8192, 768, 2048, 12288};
constexpr std::array<std::int64_t, 3> kVocabularies = {32'000, 128'256, 50'257};
constexpr std::array<std::int64_t, 8> kSequences = {256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
constexpr std::array<std::int64_t, 4> kHeads = {16, 32, 64, 8};
/// GPUs of a node.
constexpr std::array<std::int64_t, 4> kCounts = {2, 4, 8, 16};

/// Shorter products are bound by their launch; laws of products leave them out.
constexpr Seconds kShortestMatmul{40e-6};
constexpr std::int64_t kSmallest = 256 * kKiB;
constexpr std::int64_t kSmallestTransfer = 4 * kKiB;
constexpr Bytes kMostBytes{4 * kGiB};
/// Operands take this part of the memory at most: calls take turns at copies of them.
constexpr std::int64_t kMemoryParts = 8;

/// Most shapes of a kind, and how many candidates are looked at for one.
constexpr std::size_t kMostMatmuls = 150;
constexpr std::size_t kMostAttentions = 60;
constexpr std::size_t kMostStreams = 12;
constexpr std::size_t kMostTransfers = 9;
constexpr std::size_t kMostCollectives = 10;
constexpr std::size_t kCandidates = 40;

/// A point of the unit cube: any first n of them are spread evenly (M. Roberts, "The Unreasonable
/// Effectiveness of Quasirandom Sequences", 2018; the inverse powers of the root of x⁴ = x + 1).
std::array<double, 3> spread_point(std::size_t index) {
  constexpr std::array kSteps = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};
  std::array<double, 3> point{};
  for (std::size_t i = 0; i < point.size(); ++i) {
    double whole = 0;
    point[i] = std::modf(0.5 + kSteps[i] * static_cast<double>(index), &whole);
  }
  return point;
}

/// A size of an ascending list, by its place between the logarithms of the ends.
template <std::size_t kCount>
std::int64_t size_at(const std::array<std::int64_t, kCount>& sizes, double place) {
  const auto first = static_cast<double>(sizes.front());
  // Even in logarithms: half of the points lie below the geometric mean of the ends.
  const double wanted = first * std::pow(static_cast<double>(sizes.back()) / first, place);
  const auto distance = [wanted](std::int64_t size) {
    return std::abs(std::log(static_cast<double>(size) / wanted));
  };
  return *std::min_element(sizes.begin(), sizes.end(),
                           [&](auto a, auto b) { return distance(a) < distance(b); });
}

/// Collects the shapes of a kind that the device can take in the time that a call may have.
class ShapeList {
 public:
  ShapeList(const SweepDevice& device, const SweepScope& scope, Seconds shortest = Seconds(0))
      : device_(device), scope_(scope), shortest_(shortest) {}

  void add(const KernelShape& shape) {
    const std::optional<Seconds> call = expected_call(device_.gpu, shape);
    if (!call || *call > scope_.longest_call || *call < shortest_) return;
    const Bytes bytes = footprint(shape);
    if (bytes > kMostBytes || bytes * kMemoryParts > device_.facts.memory) return;
    if (std::find(shapes_.begin(), shapes_.end(), shape) == shapes_.end()) shapes_.push_back(shape);
  }
  [[nodiscard]] std::size_t size() const { return shapes_.size(); }
  [[nodiscard]] std::vector<KernelShape> take() && { return std::move(shapes_); }

 private:
  const SweepDevice& device_;
  const SweepScope& scope_;
  Seconds shortest_;
  std::vector<KernelShape> shapes_;
};

struct MatmulType {
  DType operand;
  DType result;
  OperandScaling scaling = OperandScaling::none;
  bool tensor_float = false;
  double weight = 1;
  bool always = true;  ///< else where every type is asked for
  bool cast = false;   ///< of the left operand, in the time
};
constexpr std::array kMatmulTypes = {
    MatmulType{DType::bf16, DType::bf16, OperandScaling::none, false, 16},
    MatmulType{DType::fp16, DType::fp16, OperandScaling::none, false, 4, false},
    MatmulType{DType::fp32, DType::fp32, OperandScaling::none, true, 3},
    MatmulType{DType::fp32, DType::fp32, OperandScaling::none, false, 3},
    MatmulType{DType::fp8, DType::bf16, OperandScaling::fixed, false, 6},
    MatmulType{DType::fp8, DType::bf16, OperandScaling::per_tensor, false, 3, false, true},
};

MatmulShape matmul_at(const MatmulType& type, std::size_t index) {
  // Two of five are gradients. One of ten is a batch, of scores or their product with values.
  constexpr std::array kPasses = {MatmulPass::forward, MatmulPass::data_gradient,
                                  MatmulPass::forward, MatmulPass::weight_gradient,
                                  MatmulPass::forward};
  const auto [x, y, z] = spread_point(index);
  MatmulShape shape{.operand = type.operand,
                    .result = type.result,
                    .scaling = type.scaling,
                    .cast_included = type.cast,
                    .tensor_float = type.tensor_float,
                    .pass = kPasses[index % kPasses.size()],
                    .m = size_at(kTokens, x),
                    .n = size_at(kWidths, y),
                    .k = size_at(kWidths, z)};
  if (index % 10 == 7) {
    constexpr std::array<std::int64_t, 6> kBatches = {8, 16, 32, 64, 128, 256};
    constexpr std::array<std::int64_t, 5> kLengths = {256, 512, 1024, 2048, 4096};
    shape.batch = size_at(kBatches, x);
    shape.m = shape.n = size_at(kLengths, y);
    shape.k = z < 0.5 ? 64 : 128;
  }
  return shape;
}

void add_matmuls(const SweepDevice& device, const SweepScope& scope,
                 std::vector<SweepKind>& kinds) {
  for (const MatmulType& type : kMatmulTypes) {
    if (!type.always && !scope.every_type) continue;
    ShapeList list(device, scope, kShortestMatmul);
    for (std::size_t i = 0; i < kMostMatmuls * kCandidates && list.size() < kMostMatmuls; ++i) {
      list.add(matmul_at(type, i));
    }
    kinds.push_back({std::move(list).take(), type.weight});
  }
}

struct AttentionType {
  const char* kernel;
  DType dtype;
  bool always;
};
constexpr std::array kAttentionTypes = {AttentionType{kGpuAttention, DType::bf16, true},
                                        AttentionType{kGpuAttention, DType::fp16, false},
                                        AttentionType{kHostAttention, DType::fp32, true}};

AttentionShape attention_at(AttentionShape kind, std::size_t index) {
  const auto [x, y, z] = spread_point(index);
  kind.batch = std::int64_t{1} << static_cast<int>(x * 5);
  kind.heads = kHeads[index % kHeads.size()];
  kind.kv_heads = z < 0.5 ? kind.heads : kind.heads / 8;
  kind.seq_len = kSequences[static_cast<std::size_t>(y * static_cast<double>(kSequences.size()))];
  kind.head_dim = kind.value_head_dim = index % 3 == 2 ? 64 : 128;
  return kind;
}

void add_attentions(const SweepDevice& device, const SweepScope& scope,
                    std::vector<SweepKind>& kinds) {
  for (const AttentionType& type : kAttentionTypes) {
    if (!type.always && !scope.every_type) continue;
    for (const KernelPass pass : {KernelPass::forward, KernelPass::backward}) {
      for (const bool causal : {true, false}) {
        const AttentionShape kind{
            .kernel = type.kernel, .dtype = type.dtype, .pass = pass, .causal = causal};
        ShapeList list(device, scope);
        for (std::size_t i = 0; i < kMostAttentions * kCandidates && list.size() < kMostAttentions;
             ++i) {
          list.add(attention_at(kind, i));
        }
        kinds.push_back({std::move(list).take(), causal ? 4.0 : 1.0});
      }
    }
  }
}

/// As many rows as move about `bytes`. None where the op has no kernel in that pass.
std::optional<StreamShape> stream_of(StreamShape shape, double bytes) {
  constexpr std::int64_t kProbeRows = 1024;
  shape.rows = kProbeRows;
  // Traffic grows linearly with the rows, but for tables and weights: many rows at once make those
  // small.
  const std::optional<Bytes> probe = stream_traffic(shape);
  if (!probe) return std::nullopt;
  const double rows = bytes / probe->as_double() * static_cast<double>(kProbeRows);
  shape.rows = std::max<std::int64_t>(std::llround(rows), 1);
  shape.bytes = stream_traffic(shape)->value();
  return shape;
}

/// Bytes between the smallest and what the device can take, by their place on the scale of their
/// logarithms.
double bytes_at(const SweepDevice& device, const SweepScope& scope, double place) {
  const double most =
      // Half of what the bandwidth moves in the longest call, for kernels that reach half of it.
      std::min({kMostBytes.as_double(), device.facts.memory.as_double() / kMemoryParts,
                device.gpu.memory_bandwidth->value.value() * scope.longest_call.value() / 2});
  const auto least = static_cast<double>(kSmallest);
  return least * std::pow(std::max(most / least, 1.0), place);
}

SweepKind streams_of(const SweepDevice& device, const SweepScope& scope, StreamShape shape) {
  ShapeList list(device, scope);
  for (std::size_t i = 0; i < kMostStreams; ++i) {
    shape.columns = shape.op == StreamOp::cross_entropy ? kVocabularies[i % kVocabularies.size()]
                                                        : kRows[i % kRows.size()];
    // Large ones first, then the ends, then what lies between.
    constexpr std::array kPlaces = {0.85, 0.4, 0.1, 1.0,  0.65, 0.25,
                                    0.95, 0.5, 0.0, 0.75, 0.3,  0.9};
    static_assert(kPlaces.size() == kMostStreams);
    const auto sized = stream_of(shape, bytes_at(device, scope, kPlaces[i]));
    if (sized) list.add(*sized);
  }
  return {std::move(list).take(), 1};
}

/// Streams of a second type differ little from those of the first.
constexpr double kOtherTypes = 0.5;

void add_streams(const SweepDevice& device, const SweepScope& scope,
                 std::vector<SweepKind>& kinds) {
  if (!device.gpu.memory_bandwidth) return;
  const auto can = [&](StreamOp op, KernelPass pass, DType dtype) {
    const auto probe = stream_of({.op = op, .pass = pass, .dtype = dtype, .columns = 1024}, 1);
    return probe && device.can_measure(*probe);
  };
  for (int op = 0; op <= static_cast<int>(StreamOp::adamw); ++op) {
    for (const KernelPass pass : {KernelPass::forward, KernelPass::backward}) {
      const auto stream = static_cast<StreamOp>(op);
      bool first = true;
      for (const DType dtype : {DType::bf16, DType::fp32, DType::fp16, DType::fp8}) {
        if (!can(stream, pass, dtype)) continue;
        kinds.push_back(streams_of(device, scope, {.op = stream, .pass = pass, .dtype = dtype}));
        if (!first) kinds.back().weight = kOtherTypes;
        first = false;
        if (!scope.every_type) break;
      }
    }
  }
}

/// Powers of four from kSmallestTransfer on.
template <class Shape>
SweepKind sized(const SweepDevice& device, const SweepScope& scope, Shape shape, std::size_t most) {
  ShapeList list(device, scope);
  // The ends first: latency and bandwidth.
  constexpr std::array kOrder = {7, 1, 4, 8, 2, 6, 0, 5, 3, 9};
  for (std::size_t i = 0; i < std::min(most, kOrder.size()); ++i) {
    shape.bytes = kSmallestTransfer << (2 * kOrder[i]);
    list.add(shape);
  }
  return {std::move(list).take(), 1};
}

void add_moves(const SweepDevice& device, const SweepScope& scope, std::vector<SweepKind>& kinds) {
  for (int path = 0; path <= static_cast<int>(TransferPath::managed_migration); ++path) {
    kinds.push_back(sized(device, scope, TransferShape{.path = static_cast<TransferPath>(path)},
                          kMostTransfers));
  }
  const bool launches = device.facts.compute_capability.has_value();  // the host calls
  for (const LaunchPath path : {LaunchPath::stream, LaunchPath::graph}) {
    if (!launches) break;
    kinds.push_back({{LaunchShape{path}}, 1});
  }
  for (const std::int64_t gpus : kCounts) {
    for (int op = 0; op <= static_cast<int>(CollectiveOp::all_to_all); ++op) {
      kinds.push_back(sized(device, scope,
                            CollectiveShape{.op = static_cast<CollectiveOp>(op), .gpus = gpus},
                            kMostCollectives));
    }
  }
}

}  // namespace

std::vector<SweepKind> sweep_kinds(const SweepDevice& device, const SweepScope& scope) {
  std::vector<SweepKind> kinds;
  add_matmuls(device, scope, kinds);
  add_attentions(device, scope, kinds);
  add_streams(device, scope, kinds);
  add_moves(device, scope, kinds);
  return kinds;
}

}  // namespace memest
