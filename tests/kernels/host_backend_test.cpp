#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "memest/kernels/backend.hpp"

using namespace memest;

namespace {

/// As short as a measurement can be: what is tested is that all are measured, not how long they
/// take.
constexpr RulerSettings kShort{
    .shortest = Seconds(0), .longest = Seconds(1e-3), .least_samples = 1};

void measures(Backend& backend, const KernelShape& shape) {
  REQUIRE(backend.can_measure(shape));
  const Measurement measured = backend.measure(shape, kShort);
  CHECK(measured.median > Seconds(0));
  CHECK(measured.low <= measured.median);
  CHECK(measured.median <= measured.high);
  CHECK(measured.samples >= 1);
}

}  // namespace

TEST_CASE("the host says what it is") {
  const DeviceFacts facts = open_host_backend()->facts();
  CHECK_FALSE(facts.name.empty());
  CHECK_FALSE(facts.compute_capability.has_value());
  CHECK(facts.memory > Bytes(0));
  CHECK(facts.free_memory > Bytes(0));
  CHECK(facts.free_memory <= facts.memory);
}

TEST_CASE("the host checks and measures matrix products of every pass") {
  const auto backend = open_host_backend();
  for (const MatmulPass pass :
       {MatmulPass::forward, MatmulPass::data_gradient, MatmulPass::weight_gradient}) {
    for (const bool accumulates : {false, true}) {
      measures(*backend, MatmulShape{.operand = DType::fp32,
                                     .result = DType::fp32,
                                     .pass = pass,
                                     .accumulates = accumulates,
                                     .batch = 2,
                                     .m = 33,
                                     .n = 17,
                                     .k = 41});
    }
  }
}

TEST_CASE("where no library ranks kernels, the best matrix product is the only one") {
  const auto backend = open_host_backend();
  const MatmulShape shape{.operand = DType::fp32, .result = DType::fp32, .m = 33, .n = 17, .k = 41};
  CHECK(backend->measure_best(shape, kShort).median > Seconds(0));
}

TEST_CASE("the host checks and measures every kernel whose operands are fp32") {
  const auto backend = open_host_backend();
  constexpr auto forward = KernelPass::forward;
  constexpr auto backward = KernelPass::backward;
  for (const auto& [op, pass] :
       {std::pair{StreamOp::read, forward},          std::pair{StreamOp::write, forward},
        std::pair{StreamOp::copy, forward},          std::pair{StreamOp::scale, forward},
        std::pair{StreamOp::add, forward},           std::pair{StreamOp::triad, forward},
        std::pair{StreamOp::gelu, forward},          std::pair{StreamOp::gelu, backward},
        std::pair{StreamOp::silu_mul, forward},      std::pair{StreamOp::silu_mul, backward},
        std::pair{StreamOp::softmax, forward},       std::pair{StreamOp::softmax, backward},
        std::pair{StreamOp::layernorm, forward},     std::pair{StreamOp::layernorm, backward},
        std::pair{StreamOp::rmsnorm, forward},       std::pair{StreamOp::rmsnorm, backward},
        std::pair{StreamOp::cross_entropy, forward}, std::pair{StreamOp::cross_entropy, backward},
        std::pair{StreamOp::embedding, forward},     std::pair{StreamOp::embedding, backward},
        std::pair{StreamOp::rotary, forward},        std::pair{StreamOp::rotary, backward},
        std::pair{StreamOp::adamw, forward}}) {
    INFO(name_of(op) << ' ' << name_of(pass));
    measures(*backend,
             StreamShape{.op = op, .pass = pass, .dtype = DType::fp32, .rows = 13, .columns = 257});
  }
  measures(*backend, LaunchShape{});
}

TEST_CASE("the host checks and measures attention, in blocks that end unevenly") {
  const auto backend = open_host_backend();
  for (const KernelPass pass : {KernelPass::forward, KernelPass::backward}) {
    for (const bool causal : {false, true}) {
      const AttentionShape shape{.kernel = kHostAttention,
                                 .dtype = DType::fp32,
                                 .pass = pass,
                                 .causal = causal,
                                 .batch = 2,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .seq_len = 150,
                                 .head_dim = 32,
                                 .value_head_dim = 24};
      measures(*backend, shape);
      CHECK(backend->check(shape).size() == (pass == KernelPass::forward ? 2 : 3));
    }
  }
}

TEST_CASE("the host refuses what it does not have") {
  const auto backend = open_host_backend();
  CHECK_FALSE(backend->can_measure(MatmulShape{.m = 8, .n = 8, .k = 8}));  // bf16
  CHECK_FALSE(backend->can_measure(
      MatmulShape{.operand = DType::fp32, .result = DType::fp32, .m = 8, .n = 0, .k = 8}));
  CHECK_FALSE(backend->can_measure(MatmulShape{.operand = DType::fp32,
                                               .result = DType::fp32,
                                               .m = 1 << 24,
                                               .n = 1 << 24,
                                               .k = 8}));  // a pebibyte
  CHECK_FALSE(backend->can_measure(StreamShape{.op = StreamOp::copy, .columns = 64}));  // bf16
  // Its casts and masks would move other bytes than the shape's.
  for (const StreamOp op : {StreamOp::cast, StreamOp::dropout}) {
    CHECK_FALSE(backend->can_measure(StreamShape{.op = op, .dtype = DType::fp32, .columns = 64}));
  }
  CHECK_FALSE(backend->can_measure(TransferShape{.bytes = 64}));
  CHECK_FALSE(backend->can_measure(CollectiveShape{.bytes = 64}));
  CHECK_FALSE(backend->can_measure(
      AttentionShape{.kernel = "", .dtype = DType::fp32, .heads = 1, .seq_len = 8, .head_dim = 8}));
  const AttentionShape attention{.kernel = "",
                                 .dtype = DType::fp32,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .seq_len = 8,
                                 .head_dim = 8,
                                 .value_head_dim = 8};
  CHECK(backend->can_measure(attention));
  AttentionShape other = attention;
  other.kernel = kGpuAttention;
  CHECK_FALSE(backend->can_measure(other));
  other = attention;
  other.dtype = DType::bf16;
  CHECK_FALSE(backend->can_measure(other));
  CHECK_FALSE(backend->can_measure(LaunchShape{.path = LaunchPath::graph}));
}
