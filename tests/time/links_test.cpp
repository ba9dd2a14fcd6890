// Where groups of ranks lie, and what a ring moves.
#include "memest/time/links.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "memest/reader/catalog.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using Catch::Approx;

constexpr double kReached = 0.92;  // of a network card, by large messages

Hardware nodes_of_eight(double bits_per_second) {
  Hardware hardware;
  hardware.gpu = test::round_gpu();
  hardware.network = Network{.bandwidth = BytesPerSecond(bits_per_second / 8),
                             .latency = Seconds(0),
                             .provenance = Provenance::datasheet};
  return hardware;
}

}  // namespace

TEST_CASE("tensor ranks are neighbours, then context, data and pipeline ranks") {
  Parallelism parallelism;
  parallelism.data = parallelism.tensor = parallelism.expert = 4;
  parallelism.pipeline = parallelism.context = 2;
  CHECK(group_place_of(RankGroup::tensor, parallelism, 8) == GroupPlace{4, 4, 1});
  CHECK(group_place_of(RankGroup::context, parallelism, 8) == GroupPlace{2, 2, 4});
  CHECK(group_place_of(RankGroup::expert, parallelism, 8) == GroupPlace{4, 2, 4});
  // Gradients are reduced over context and data ranks: eight, four apart.
  CHECK(group_place_of(RankGroup::data, parallelism, 8) == GroupPlace{8, 2, 4});
  CHECK(group_place_of(RankGroup::pipeline, parallelism, 8) == GroupPlace{2, 1, 32});
  CHECK(group_place_of(RankGroup::pipeline, parallelism, 64) == GroupPlace{2, 2, 32});
  // Experts are replicated over what the expert ranks leave of the eight.
  CHECK(place_of_expert_replicas(parallelism, 8) == GroupPlace{2, 1, 16});
}

TEST_CASE("a ring's all-reduce moves 2(D - 1)/D of the bytes, its halves half of that") {
  const Hardware hardware = nodes_of_eight(200e9);
  const GpuLaws laws(hardware.gpu);
  const Links links(laws, hardware);
  constexpr double kBytes = 1 << 30;
  for (const std::int64_t ranks : {2, 4, 16, 64}) {
    const GroupPlace one_a_node{ranks, 1};
    const auto share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    const double moved = share * kBytes / (25e9 * kReached);
    const auto seconds = [&](MessageKind kind) {
      return links.price(kind, one_a_node, kBytes).expected;
    };
    CHECK(seconds(MessageKind::all_gather) == Approx(moved));
    CHECK(seconds(MessageKind::reduce_scatter) == Approx(moved));
    CHECK(seconds(MessageKind::all_reduce) == Approx(2 * moved));
    CHECK(seconds(MessageKind::all_to_all) == Approx(moved));
  }
  CHECK(links.price(MessageKind::send, {8, 1}, kBytes).expected ==
        Approx(kBytes / (25e9 * kReached)));
  CHECK(links.price(MessageKind::all_reduce, {1, 1}, kBytes).expected == 0);
}

TEST_CASE("all cards of a node carry a ring, until its links within the node are slower") {
  const Hardware hardware = nodes_of_eight(20e9);
  const GpuLaws laws(hardware.gpu);
  const Links links(laws, hardware);
  constexpr double kBytes = 1 << 30;
  const double eight = links.price(MessageKind::all_gather, {64, 8}, kBytes).expected;
  const double one = links.price(MessageKind::all_gather, {64, 1}, kBytes).expected;
  CHECK(one == Approx(8 * eight));
  const Hardware fast = nodes_of_eight(1e15);
  const Links slow_links(laws, fast);
  const double within = slow_links.price(MessageKind::all_gather, {8, 8}, kBytes).expected;
  const double across = slow_links.price(MessageKind::all_gather, {64, 8}, kBytes).expected;
  CHECK(across == Approx(within * (63.0 / 64) / (7.0 / 8)));
}

namespace {

/// Tokens of DeepEP's tests: 4096 of 7168 channels in bf16, 8 experts each of 8 a rank.
constexpr double kTokens = 4096.0 * 7168 * 2;
TokenExchange exchange_of(MessageKind kind, std::int64_t ranks) {
  return {kind, {.experts = 8 * ranks, .top_k = 8}};
}

double seconds_on(const char* gpu, const TokenExchange& exchange, const GroupPlace& place) {
  Hardware hardware = nodes_of_eight(400e9);
  hardware.gpu = find_gpu(gpu).value();
  const GpuLaws laws(hardware.gpu);
  return Links(laws, hardware).price_of_tokens(exchange, place, kTokens).expected;
}

}  // namespace

TEST_CASE("a dispatch takes what DeepEP's kernels take that were published") {
  const auto received = [](std::int64_t ranks) {
    return kTokens * ranks_reached({.experts = 8 * ranks, .top_k = 8}, ranks);
  };
  const TokenExchange out = exchange_of(MessageKind::dispatch, 8);
  const TokenExchange back = exchange_of(MessageKind::combine, 32);
  CHECK(seconds_on("gb200", out, {8, 8}) == Approx(received(8) / 750.15e9));
  CHECK(seconds_on("gb200", back, {32, 32}) == Approx(received(32) / 547.25e9));
  CHECK(seconds_on("h200-sxm-141gb", out, {8, 8}) == Approx(received(8) / 305.72e9));
  // Between nodes a token goes once to each of them: 16 ranks of 2.
  const TokenExchange far = exchange_of(MessageKind::dispatch, 16);
  CHECK(seconds_on("h100-sxm-80gb", far, {16, 8}) ==
        Approx(kTokens * ranks_reached(far.routing, 2) / 71.71e9));
  CHECK(seconds_on("gb200", out, {1, 1}) == 0);
}

TEST_CASE("a token is sent to a rank once: an all-to-all sends a row for each of its experts") {
  const TokenExchange exchange = exchange_of(MessageKind::dispatch, 8);
  Hardware hardware = nodes_of_eight(400e9);
  hardware.gpu = find_gpu("a100-sxm-80gb").value();  // for which no kernel is published
  const GpuLaws laws(hardware.gpu);
  const Links links(laws, hardware);
  const double copies = ranks_reached(exchange.routing, 8);
  CHECK(copies < 8);
  CHECK(links.price_of_tokens(exchange, {8, 8}, kTokens).expected ==
        Approx(links.price(MessageKind::all_to_all, {8, 8}, copies * kTokens).expected));
}

TEST_CASE("through the host, groups that lie between one another share it; a switch they do not") {
  Hardware hardware;
  hardware.gpu = test::round_gpu();
  const GpuLaws switched(hardware.gpu);
  const auto seconds = [&](const GpuLaws& laws, const GroupPlace& place) {
    return Links(laws, hardware).price(MessageKind::all_gather, place, 1e9).expected;
  };
  CHECK(seconds(switched, {2, 2, 4}) == seconds(switched, {2, 2, 1}));
  Hardware host = hardware;
  host.gpu.link_bandwidth.reset();
  host.gpu.pcie_generation = Fact<std::int64_t>{.value = 4, .source = {}, .note = {}};
  const GpuLaws through_host(host.gpu);
  // Four pairs send half of the bytes each, where a ring of eight sends seven eighths.
  CHECK(seconds(through_host, {2, 2, 4}) ==
        Approx(seconds(through_host, {8, 8, 1}) * 4 * (1.0 / 2) / (7.0 / 8)));
}

TEST_CASE("a small all-reduce over many nodes goes by the tree") {
  Hardware hardware = nodes_of_eight(200e9);
  hardware.network->latency = Seconds(5e-6);
  const GpuLaws laws(hardware.gpu);
  const Links links(laws, hardware);
  const double small = links.price(MessageKind::all_reduce, {64, 1}, 8).expected;
  CHECK(small == Approx(2 * 6 * 5e-6).epsilon(0.01));  // up and down 64 nodes
  const double gathered = links.price(MessageKind::all_gather, {64, 1}, 8).expected;
  CHECK(gathered == Approx(63 * 5e-6).epsilon(0.01));
}

TEST_CASE("a link that joins nodes stands for the network within its domain") {
  Hardware hardware;
  hardware.gpu = find_gpu("gb200").value();
  CHECK(hardware.linked_gpus() == 72);
  const Parallelism replicas{.data = 64};
  CHECK(group_place_of(RankGroup::data, replicas, hardware.linked_gpus()).nodes() == 1);
  hardware.link_domain = 36;
  CHECK(group_place_of(RankGroup::data, replicas, hardware.linked_gpus()).nodes() == 2);
  hardware.link_domain.reset();
  hardware.gpu.link_bandwidth.reset();  // `link: pcie`
  CHECK(hardware.linked_gpus() == hardware.gpus_per_node);
  hardware.gpu = find_gpu("h100-sxm-80gb").value();
  hardware.gpus_per_node = 4;
  CHECK(hardware.linked_gpus() == 4);
}

TEST_CASE("a network that nobody described is the usual one, with a wider interval") {
  Hardware hardware = nodes_of_eight(200e9);
  const GpuLaws laws(hardware.gpu);
  const CallPrice said = Links(laws, hardware).price(MessageKind::all_gather, {16, 1}, 1e9);
  hardware.network->latency = Seconds(5e-6);
  const CallPrice late = Links(laws, hardware).price(MessageKind::all_gather, {16, 1}, 1e9);
  hardware.network.reset();
  const CallPrice usual = Links(laws, hardware).price(MessageKind::all_gather, {16, 1}, 1e9);
  CHECK(usual.expected == late.expected);  // 200 Gbit/s a GPU with 8.0
  CHECK(usual.slow > 1.4 * said.slow);
  CHECK(usual.origin.provenance == Provenance::estimated);
  CHECK(said.origin.provenance == Provenance::datasheet);
  GpuSpec gpu = test::round_gpu();
  gpu.target = kHopper;
  CHECK(usual_network(gpu)->bandwidth.value() == 50e9);
  gpu.target = kAda;
  CHECK_FALSE(usual_network(gpu).has_value());
}

// stas00/ml-engineering, network/benchmarks/README.md (facts; text CC-BY-SA-4.0): all_reduce over
// 4 nodes of 8 GPUs. The table does not name its network; 94 GB/s are what four cards of 200 Gbit/s
// a node reach.
TEST_CASE("published all-reduces over four nodes") {
  Hardware hardware = nodes_of_eight(100e9);
  hardware.network->latency = Seconds(5e-6);
  hardware.gpu.link_bandwidth->value = BytesPerSecond(600e9);  // not what binds
  const GpuLaws laws(hardware.gpu);
  const Links links(laws, hardware);
  const auto bus_bandwidth = [&](double bytes) {
    const double seconds = links.price(MessageKind::all_reduce, {32, 8}, bytes).expected;
    return 2 * (31.0 / 32) * bytes / seconds / 1e9;
  };
  CHECK(bus_bandwidth(1024.0 * (1 << 20)) == Approx(94.15).epsilon(0.05));
  CHECK(bus_bandwidth(16384.0 * (1 << 20)) == Approx(91.69).epsilon(0.05));
  CHECK(bus_bandwidth(64.0 * (1 << 20)) == Approx(84.90).epsilon(0.10));
}

}  // namespace memest
