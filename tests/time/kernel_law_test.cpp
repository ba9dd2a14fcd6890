#include "memest/time/kernel_law.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cstdint>
#include <utility>

namespace memest {
namespace {

using Catch::Matchers::WithinRel;

constexpr Machine kMachine{
    .multiprocessors = 100, .flops_per_second = 100e12, .bytes_per_second = 1e12, .l2_bytes = 40e6};

double matmul(const TileLaw& law, std::int64_t m, std::int64_t n, std::int64_t k,
              Load load = Load::burst) {
  return seconds_of(law, {.m = m, .n = n, .k = k}, kMachine, load);
}

TEST_CASE("a huge product runs at its share of the peak", "[time]") {
  const TileLaw law{.peak_share = 0.8, .tile_loss = 0, .power_loss = 0, .whole_waves = 0};
  const double flops = 2.0 * 65536 * 65536 * 65536;
  CHECK_THAT(matmul(law, 65536, 65536, 65536), WithinRel(flops / (0.8 * 100e12), 0.01));
}

TEST_CASE("a product of one row is bound by reading its weight", "[time]") {
  const TileLaw law{.bandwidth_share = 0.9, .launch = 0.1e-6, .power_loss = 0};
  const double bytes = 2.0 * 65536 * 16384;
  CHECK_THAT(matmul(law, 1, 65536, 16384), WithinRel(bytes / (0.9 * 1e12), 0.1));
}

TEST_CASE("one tile more than a wave costs a whole wave where waves are whole", "[time]") {
  // Down to the smallest tile a wave more is a part more; the largest one's would be a half.
  TileLaw law{.tile_loss = 0, .power_loss = 0, .whole_waves = 1};
  const auto growth = [&law] {
    return matmul(law, 12864, 128, 8192) / matmul(law, 12800, 128, 8192);
  };
  const double whole = growth();
  law.whole_waves = 0;
  const double even = growth();
  CHECK(whole > 1.01);
  CHECK(even < 1.01);
}

TEST_CASE("long calls lose more power than short ones, and under load all lose alike", "[time]") {
  const TileLaw law{.power_loss = 0.2, .power_time = 1e-3};
  const TileLaw without{.power_loss = 0, .power_time = 1e-3};
  const auto loss = [&](std::int64_t m, Load load) {
    return matmul(law, m, 8192, 8192, load) / matmul(without, m, 8192, 8192, load) - 1;
  };
  CHECK(loss(512, Load::burst) < loss(65536, Load::burst));
  CHECK(loss(65536, Load::burst) < 0.2);
  CHECK_THAT(loss(512, Load::sustained), WithinRel(0.2, 1e-9));
}

TEST_CASE("under load a law loses what its samples have shown of the loss", "[time]") {
  const TileLaw law{.power_loss = 0.4, .power_time = 1e-3, .sustained_load = 0.5};
  const TileLaw without{.power_loss = 0};
  CHECK_THAT(matmul(law, 512, 8192, 8192, Load::sustained),
             WithinRel(1.2 * matmul(without, 512, 8192, 8192, Load::burst), 1e-9));
}

TEST_CASE("a scale for the whole operand is cast in two readings and one writing", "[time]") {
  MatmulLaw law;
  const MatmulShape bare{.operand = DType::fp8,
                         .result = DType::bf16,
                         .scaling = OperandScaling::per_tensor,
                         .cast_included = true,
                         .m = 65536,
                         .n = 1024,
                         .k = 8192};
  const double alone = seconds_of(law, bare, kMachine, Load::burst);
  law.cast = StreamLaw{.bandwidth_share = 1, .launch = 0, .l2_gain = 1, .l2_reach = 0.01};
  const double with_cast = seconds_of(law, bare, kMachine, Load::burst);
  CHECK_THAT(with_cast - alone, WithinRel(5.0 * 65536 * 8192 / 1e12, 1e-6));
}

TEST_CASE("rows of a product begin where its widths let them", "[time]") {
  // GPT-2's head: 50,257 columns of logits in each pass.
  MatmulShape head{.m = 8192, .n = 50257, .k = 768};
  CHECK(row_alignment(head) == 2);
  CHECK(row_alignment({.pass = MatmulPass::data_gradient, .m = 8192, .n = 768, .k = 50257}) == 2);
  CHECK(row_alignment({.pass = MatmulPass::weight_gradient, .m = 768, .n = 50257, .k = 8192}) == 2);
  head.n = 30522;  // BERT's
  CHECK(row_alignment(head) == 4);
  head.n = 50304;
  CHECK(row_alignment(head) == 16);
  // How many rows there are does not matter.
  head.m = 8191;
  CHECK(row_alignment(head) == 16);
  head.operand = head.result = DType::fp32;
  head.n = 50257;
  CHECK(row_alignment(head) == 4);
}

TEST_CASE("operands of nvfp4 take half a byte an element, and a byte for every 16", "[time]") {
  MatmulLaw law;
  const MatmulShape bare{.operand = DType::fp4,
                         .result = DType::bf16,
                         .scaling = OperandScaling::block_16,
                         .cast_included = true,
                         .m = 65536,
                         .n = 1024,
                         .k = 8192};
  CHECK(bytes_of(bare) == 0.5625 * (65536.0 * 8192 + 8192.0 * 1024) + 2.0 * 65536 * 1024);
  const double alone = seconds_of(law, bare, kMachine, Load::burst);
  law.cast = StreamLaw{.bandwidth_share = 1, .launch = 0, .l2_gain = 1, .l2_reach = 0.01};
  const double with_cast = seconds_of(law, bare, kMachine, Load::burst);
  CHECK_THAT(with_cast - alone, WithinRel(2.5625 * 65536 * 8192 / 1e12, 1e-6));
}

TEST_CASE("attention's FLOPs: half where causal, five products of ten terms backward", "[time]") {
  const AttentionShape shape{.kernel = "",
                             .causal = false,
                             .batch = 2,
                             .heads = 8,
                             .kv_heads = 2,
                             .seq_len = 1024,
                             .head_dim = 128,
                             .value_head_dim = 128};
  const double forward = 4.0 * 2 * 8 * 1024 * 1024 * 128;
  CHECK(flops_of(shape) == forward);
  AttentionShape other = shape;
  other.causal = true;
  CHECK(flops_of(other) == forward / 2);
  other.pass = KernelPass::backward;
  CHECK(flops_of(other) == forward / 2 * 2.5);
}

TEST_CASE("what fits into the L2 cache streams faster than what does not", "[time]") {
  const StreamLaw law{.bandwidth_share = 1, .launch = 0, .l2_gain = 3, .l2_reach = 1};
  const auto rate = [&law](std::int64_t bytes) {
    return static_cast<double>(bytes) / seconds_of(law, {.bytes = bytes}, kMachine);
  };
  CHECK_THAT(rate(1'000'000), WithinRel(3e12, 0.01));
  CHECK_THAT(rate(4'000'000'000), WithinRel(1e12, 0.01));
}

TEST_CASE("a ring carries 2(n-1)/n of an all_reduce and (n-1)/n of the others", "[time]") {
  CHECK(ring_factor({.op = CollectiveOp::all_reduce, .gpus = 8}) == 2 * 7 / 8.0);
  CHECK(ring_factor({.op = CollectiveOp::all_gather, .gpus = 8}) == 7 / 8.0);
  CHECK(ring_factor({.op = CollectiveOp::reduce_scatter, .gpus = 2}) == 0.5);
}

TEST_CASE("a law measured on one GPU says of its sibling what their datasheets say", "[time]") {
  GpuSpec gpu;
  gpu.peak[DType::bf16].value = FlopsPerSecond(100e12);
  gpu.memory_bandwidth.emplace().value = BytesPerSecond(1e12);
  gpu.multiprocessors.emplace().value = 100;
  GpuProfile profile;
  MatmulFit fit;
  fit.law.product = {.launch = 0, .power_loss = 0};
  fit.law.product.prologue = fit.law.product.epilogue = 0;
  profile.matmuls.push_back(fit);
  const MatmulShape shape{.m = 32768, .n = 8192, .k = 8192};
  const double slow = predict(profile, gpu, shape, Load::burst)->value();
  gpu.peak[DType::bf16].value = FlopsPerSecond(200e12);
  gpu.memory_bandwidth->value = BytesPerSecond(2e12);
  CHECK_THAT(predict(profile, gpu, shape, Load::burst)->value(), WithinRel(slow / 2, 1e-9));
  CHECK_FALSE(predict(profile, gpu, LaunchShape{}, Load::burst));
  gpu.multiprocessors.reset();
  CHECK_FALSE(predict(profile, gpu, shape, Load::burst));
}

}  // namespace
}  // namespace memest
