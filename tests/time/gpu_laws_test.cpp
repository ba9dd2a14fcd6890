#include "memest/time/gpu_laws.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <utility>

#include "memest/time/kernel_law.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using Catch::Approx;

GpuSpec round_gpu() {
  GpuSpec gpu = test::round_gpu();
  gpu.multiprocessors.emplace().value = 100;
  return gpu;
}

StreamFit stream(StreamOp op, double share, KernelPass pass = KernelPass::forward) {
  StreamFit fit;
  fit.kind = {.op = op, .pass = pass, .dtype = DType::fp32};
  fit.law = {.bandwidth_share = share, .launch = 0, .l2_gain = 1, .l2_reach = 1};
  return fit;
}

std::shared_ptr<const GpuProfile> profile_of(std::vector<StreamFit> streams, std::string gpu = "") {
  GpuProfile profile;
  profile.gpu = std::move(gpu);
  profile.streams = std::move(streams);
  return std::make_shared<const GpuProfile>(std::move(profile));
}

/// What of the bandwidth a gigabyte reaches.
double share_of(const CallPrice& price) { return 1e9 / price.expected / 1e12; }

StreamShape gigabyte(StreamOp op, KernelPass pass = KernelPass::forward) {
  return {.op = op, .pass = pass, .dtype = DType::bf16, .bytes = 1'000'000'000};
}

}  // namespace

TEST_CASE("An operation takes the law of the nearest kind in its GPU's profile") {
  GpuSpec gpu = round_gpu();
  gpu.profile = profile_of({stream(StreamOp::layernorm, 0.5), stream(StreamOp::add, 0.7)});
  const GpuLaws laws(gpu);
  CHECK(share_of(laws.price(gigabyte(StreamOp::layernorm))) == Approx(0.5));
  CHECK(share_of(laws.price(gigabyte(StreamOp::softmax))) == Approx(0.5));
  CHECK(share_of(laws.price(gigabyte(StreamOp::dropout))) == Approx(0.7));
  // What passes over its data once does so in both passes; a reduction's backward is another
  // kernel.
  CHECK(share_of(laws.price(gigabyte(StreamOp::dropout, KernelPass::backward))) == Approx(0.7));
  const CallPrice backward = laws.price(gigabyte(StreamOp::layernorm, KernelPass::backward));
  CHECK(share_of(backward) == Approx(0.35));
  CHECK(backward.origin == LawOrigin{Provenance::datasheet, ""});
}

TEST_CASE("A GPU's own law goes before a sibling's, and that before the datasheet's") {
  GpuSpec gpu = round_gpu();
  gpu.profile = profile_of({stream(StreamOp::add, 0.7)}, "round");
  gpu.siblings = {{.profile = profile_of(
                       {stream(StreamOp::add, 0.2), stream(StreamOp::softmax, 0.6)}, "square")}};
  const GpuLaws laws(gpu);
  const CallPrice own = laws.price(gigabyte(StreamOp::add));
  CHECK(share_of(own) == Approx(0.7));
  CHECK(own.origin == LawOrigin{Provenance::public_, ""});
  const CallPrice borrowed = laws.price(gigabyte(StreamOp::softmax));
  CHECK(share_of(borrowed) == Approx(0.6));
  CHECK(text_of(borrowed.origin) == "public (from square)");
  CHECK(borrowed.fast < borrowed.expected);
  CHECK(borrowed.slow > borrowed.expected);
  CHECK(own.slow == own.fast);
}

TEST_CASE("A kernel takes at least a launch, which a profile may have measured") {
  GpuSpec gpu = round_gpu();
  const StreamShape small{.op = StreamOp::add, .bytes = 16};
  CHECK(GpuLaws(gpu).price(small).expected == Approx(2.5e-6));
  CHECK(GpuLaws(gpu).price(small).bound == Bound::launch);
  GpuProfile profile;
  profile.launches = {{LaunchPath::stream, {4e-6}, {}, Provenance::measured}};
  gpu.profile = std::make_shared<const GpuProfile>(profile);
  CHECK(GpuLaws(gpu).price(small).expected == Approx(4e-6));
}

TEST_CASE("Without a profile a product takes the longer of compute and traffic") {
  const GpuSpec gpu = round_gpu();
  const MatmulShape large{.m = 4096, .n = 4096, .k = 4096};
  const CallPrice compute = GpuLaws(gpu).price(large);
  CHECK(compute.expected == Approx(flops_of(large) / (0.76 * 1e14)));
  CHECK(compute.bound == Bound::compute);
  const MatmulShape flat{.m = 32, .n = 8192, .k = 8192};
  const CallPrice traffic = GpuLaws(gpu).price(flat);
  CHECK(traffic.expected == Approx(bytes_of(flat) / (0.86 * 1e12)));
  CHECK(traffic.bound == Bound::memory);
}

TEST_CASE("Collectives over NVLink take the profile's law of the nearest number of GPUs") {
  GpuSpec gpu = round_gpu();
  GpuProfile profile;
  profile.collectives = {{{CollectiveOp::all_reduce, 2}, {.bandwidth = 1e9, .ramp_bytes = 0}, {}},
                         {{CollectiveOp::all_reduce, 8}, {.bandwidth = 5e9, .ramp_bytes = 0}, {}}};
  gpu.profile = std::make_shared<const GpuProfile>(profile);
  const CollectiveShape shape{.op = CollectiveOp::all_reduce, .gpus = 6, .bytes = 1 << 30};
  const CallPrice price = GpuLaws(gpu).price(shape);
  CHECK(price.expected == Approx(seconds_of(profile.collectives[1].law, shape)));
  CHECK(price.bound == Bound::link);
  // Through the host another node's measurements say nothing.
  gpu.link_bandwidth.reset();
  gpu.pcie_generation.emplace().value = 4;
  CHECK(GpuLaws(gpu).price(shape).origin.provenance == Provenance::datasheet);
}

TEST_CASE("Products of unaligned rows take what was measured of them on Hopper, and no more") {
  GpuSpec gpu = round_gpu();
  gpu.target = kHopper;
  const auto price = [&gpu](std::int64_t columns) {
    return GpuLaws(gpu).price(MatmulShape{.m = 8192, .n = columns, .k = 768}).expected;
  };
  const MatmulShape odd{.m = 8192, .n = 50257, .k = 768};
  CHECK(price(50257) == Approx(flops_of(odd) / (0.10 * 1e14)));
  CHECK(price(50304) < price(50257) / 5);
  CHECK(price(30522) < price(50257));  // 4 bytes at a time, faster than 2
  CHECK(price(30520) < price(30522) / 2);
  gpu.target = kAmpere;  // nobody measured it there
  CHECK(price(50257) == Approx(price(50304)).epsilon(0.01));
}

TEST_CASE("Where a step is little but products, these lose more to the limit of power") {
  GpuSpec gpu = round_gpu();
  CHECK(GpuLaws(gpu).load_of_products(0) == 1);  // nobody measured how it depends on the step
  gpu.slug = "h200-sxm-141gb";
  GpuProfile profile;
  profile.matmuls.emplace_back().law.product = {.power_loss = 0.2, .sustained_load = 1};
  gpu.profile = std::make_shared<const GpuProfile>(profile);
  const GpuLaws laws(gpu);
  CHECK(laws.load_of_products(0.4) == 0);
  CHECK(laws.load_of_products(0.75) == Approx(0.5));
  CHECK(laws.load_of_products(1) == 1);
  const MatmulShape product{.m = 4096, .n = 4096, .k = 4096};
  const double cool = laws.price(product, 0).expected;
  CHECK(laws.price(product, 0.5).expected == Approx(1.1 * cool));
  CHECK(laws.price(product).expected == Approx(1.2 * cool));
}

TEST_CASE("A kernel that goes element by element takes its own law, or a copy's where none is") {
  GpuSpec gpu = round_gpu();
  gpu.profile = profile_of({stream(StreamOp::copy, 0.8)});
  CHECK(share_of(GpuLaws(gpu).price(gigabyte(StreamOp::by_element))) == Approx(0.8));
  gpu.profile = profile_of({stream(StreamOp::copy, 0.8), stream(StreamOp::by_element, 0.3)});
  CHECK(share_of(GpuLaws(gpu).price(gigabyte(StreamOp::by_element))) == Approx(0.3));
  CHECK(share_of(GpuLaws(gpu).price(gigabyte(StreamOp::scale))) == Approx(0.8));
}

TEST_CASE("Flash attention on Hopper is FlashAttention 2, whatever faster kernel was measured") {
  GpuSpec gpu = round_gpu();
  gpu.target = kHopper;
  GpuProfile profile;
  profile.attentions = {{{.kernel = "fa3"}, {}, {}}};
  gpu.profile = std::make_shared<const GpuProfile>(profile);
  AttentionShape shape;
  shape.heads = shape.kv_heads = 32;
  shape.seq_len = 16384;
  shape.head_dim = shape.value_head_dim = 128;
  const CallPrice chosen_by_torch = GpuLaws(gpu).price(shape);
  shape.kernel = "flash-2";
  const CallPrice flash = GpuLaws(gpu).price(shape);
  CHECK(chosen_by_torch.origin.provenance == Provenance::public_);
  CHECK(flash.origin.provenance == Provenance::datasheet);
  CHECK(flash.expected > chosen_by_torch.expected);
}

}  // namespace memest
