#include "memest/time/links.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/time/kernel_law.hpp"
#include "time/laws/token_exchanges.hpp"

namespace memest {
namespace {

/// Reached of a network card's rating by large messages: 46 to 48 of 50 GB/s (NVIDIA/nccl-tests,
/// issue 290, of NDR). The slow end is a network that other jobs share or that is routed badly.
constexpr double kNetworkFast = 0.96;
constexpr double kNetworkExpected = 0.92;
constexpr double kNetworkSlow = 0.70;
/// The slow end where nobody said which network it is: half of the usual one.
constexpr double kUsualSlow = 0.46;

/// One network card a GPU of the compute capabilities from `first` to `last`.
struct NetworkRow {
  ComputeCapability first;
  ComputeCapability last;
  double bits_per_second;
  std::string_view source;
};
constexpr std::array kUsualNetworks = {
    NetworkRow{kAmpere, kAmpere, 200e9, "DGX A100: eight ConnectX-6 of 200 Gbit/s"},
    NetworkRow{kHopper, {9, 9}, 400e9, "DGX H100: eight ConnectX-7 of 400 Gbit/s"},
    NetworkRow{kBlackwell, {10, 9}, 400e9, "DGX B200: eight ConnectX-7 of 400 Gbit/s"},
};

CollectiveOp collective_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::all_reduce:
      return CollectiveOp::all_reduce;
    case MessageKind::reduce_scatter:
      return CollectiveOp::reduce_scatter;
    case MessageKind::all_to_all:
    case MessageKind::dispatch:
    case MessageKind::combine:
      return CollectiveOp::all_to_all;
    case MessageKind::all_gather:
    case MessageKind::send:  // half of an exchange between two
      return CollectiveOp::all_gather;
  }
  unreachable("every kind of message is a collective");
}

/// Times bytes, what one GPU's link carries.
double carried(MessageKind kind, std::int64_t ranks) {
  // nccl-tests, doc/PERFORMANCE.md: bus bandwidth is the bytes times 2(n - 1)/n of an all-reduce,
  // (n - 1)/n of the others, over the time.
  if (kind == MessageKind::send) return 1;
  return ring_factor({.op = collective_of(kind), .gpus = ranks});
}

CallPrice longer(const CallPrice& left, const CallPrice& right) {
  CallPrice result = left.expected >= right.expected ? left : right;
  result.fast = std::max(left.fast, right.fast);
  result.slow = std::max(left.slow, right.slow);
  return result;
}

std::int64_t ranks_of(RankGroup group, const Parallelism& parallelism) {
  switch (group) {
    case RankGroup::tensor:
      return parallelism.tensor;
    case RankGroup::context:
      return parallelism.context;
    case RankGroup::expert:
      return parallelism.expert;
    case RankGroup::data:
      return parallelism.context * parallelism.data;
    case RankGroup::pipeline:
      return parallelism.pipeline;
  }
  unreachable("every group has its ranks");
}

/// Ranks between two neighbours of a group.
std::int64_t stride_of(RankGroup group, const Parallelism& parallelism) {
  switch (group) {
    case RankGroup::tensor:
      return 1;
    case RankGroup::expert:
      return parallelism.whole_experts() ? 1 : parallelism.tensor;
    case RankGroup::context:
    case RankGroup::data:
      return parallelism.tensor;
    case RankGroup::pipeline:
      return parallelism.tensor * parallelism.context * parallelism.data;
  }
  unreachable("every group has its stride");
}

GroupPlace placed(std::int64_t ranks, std::int64_t stride, std::int64_t linked_gpus) {
  // Neighbours of a group lie a stride apart: with tensor parallelism of 8 on nodes of 8 GPUs,
  // every data-parallel neighbour is on another node.
  return {.ranks = ranks,
          .in_node = std::clamp<std::int64_t>(linked_gpus / stride, 1, ranks),
          .stride = stride};
}

/// A ring goes round all ranks, those of a node one after another, and leaves the node through the
/// cards of all of them; a tree joins the nodes alone, up and down.
struct NetworkCourse {
  double carried = 0;  ///< times bytes, through all cards of the group in a node
  double hops = 0;     ///< between nodes, one after another
};
NetworkCourse ring_course(MessageKind kind, const GroupPlace& place) {
  const auto nodes = static_cast<double>(place.nodes());
  // An all-reduce goes round twice: once to sum, once to hand the sums on. Hops within a node cost
  // no network latency.
  const double rounds = kind == MessageKind::all_reduce ? 2 : 1;
  return {carried(kind, place.ranks), rounds * (nodes - 1)};
}
NetworkCourse tree_course(const GroupPlace& place) {
  // All bytes go up to the root and down again: twice the bytes, but 2 log2(n) hops in place of a
  // ring's 2(n - 1). Among 64 nodes that is 12 against 126.
  return {2, 2 * std::ceil(std::log2(static_cast<double>(place.nodes())))};
}
/// Every rank sends what the other nodes' ranks get.
NetworkCourse exchange_course(const GroupPlace& place) {
  const auto ranks = static_cast<double>(place.ranks);
  const auto in_node = static_cast<double>(place.in_node);
  // 16 ranks on 2 nodes: each sends 8/16 of its bytes out of the node, and all 8 of a node share
  // its cards, which carry 4 times the bytes of one rank.
  return {(ranks - in_node) / ranks * in_node, 1};
}

double seconds_of(const NetworkCourse& course, const Network& network, double bandwidth,
                  double bytes) {
  return course.carried * bytes / bandwidth + course.hops * network.latency.value();
}

}  // namespace

GroupPlace group_place_of(RankGroup group, const Parallelism& parallelism,
                          std::int64_t linked_gpus) {
  return placed(ranks_of(group, parallelism), stride_of(group, parallelism), linked_gpus);
}

GroupPlace place_of_expert_replicas(const Parallelism& parallelism, std::int64_t linked_gpus) {
  const std::int64_t experts = parallelism.expert;
  return placed(std::max<std::int64_t>(1, parallelism.expert_data_ranks()),
                stride_of(RankGroup::expert, parallelism) * experts, linked_gpus);
}

std::optional<Network> usual_network(const GpuSpec& gpu) {
  const std::optional<ComputeCapability> capability = gpu.compute_capability();
  for (const NetworkRow& row : kUsualNetworks) {
    if (capability < row.first || capability > row.last) continue;
    return Network{.bandwidth = BytesPerSecond(row.bits_per_second / 8), .source = row.source};
  }
  return std::nullopt;
}

Links::Links(const GpuLaws& laws, const Hardware& hardware)
    : laws_(&laws),
      network_(hardware.network ? hardware.network : usual_network(hardware.gpu)),
      token_links_{.capability = hardware.gpu.compute_capability(),
                   .bandwidth = hardware.gpu.link_bandwidth
                                    ? hardware.gpu.link_bandwidth->value.value() / 2
                                    : 0} {}

CallPrice Links::price(MessageKind kind, const GroupPlace& place, double bytes) const {
  if (place.ranks <= 1 || bytes == 0) return {};
  if (place.nodes() == 1) return price_in_node(kind, place, bytes);
  const CallPrice network = price_of_network(kind, place, bytes);
  if (place.in_node == 1 || kind == MessageKind::send) return network;
  // Within the node the same ring carries as much as between the nodes.
  const double same = bytes * carried(kind, place.ranks) / carried(kind, place.in_node);
  return longer(network, price_in_node(kind, {place.in_node, place.in_node, place.stride}, same));
}

CallPrice Links::price_of_tokens(const TokenExchange& exchange, const GroupPlace& place,
                                 double bytes) const {
  if (place.ranks <= 1 || bytes == 0) return {};
  // A token is on each of its ranks once; from another node it comes by way of one rank there.
  const double received = bytes * ranks_reached(exchange.routing, place.ranks);
  const auto known = price_of_token_links(token_links_, exchange.kind, place.in_node, received);
  // An all-to-all of NCCL's over as many bytes stands for kernels that nobody has published.
  const CallPrice in_node =
      known ? *known : price_in_node(MessageKind::all_to_all, place, received);
  if (place.nodes() == 1) return in_node;
  const double sent = bytes * ranks_reached(exchange.routing, place.nodes());
  expect(network_.has_value(), "ranks of several nodes have a network");
  return longer(price_of_token_network(*network_, exchange.kind, place.nodes(), sent), in_node);
}

CallPrice Links::price_in_node(MessageKind kind, const GroupPlace& place, double bytes) const {
  const CollectiveOp op = collective_of(kind);
  if (laws_->through_host() && place.stride > 1) {
    // The groups between send at the same time through the same host: a ring over all of them.
    const std::int64_t span = place.in_node * place.stride;
    const double all = bytes * carried(kind, place.in_node) * static_cast<double>(place.stride);
    const double ring = ring_factor({.op = op, .gpus = span});
    return laws_->price(CollectiveShape{.op = op, .gpus = span, .bytes = std::llround(all / ring)});
  }
  // A send to one neighbour is half of an all-gather between two: twice the bytes, times the ring's
  // 1/2.
  const bool sends = kind == MessageKind::send;
  return laws_->price(CollectiveShape{.op = op,
                                      .gpus = sends ? 2 : place.in_node,
                                      .bytes = std::llround(sends ? 2 * bytes : bytes)});
}

CallPrice Links::price_of_network(MessageKind kind, const GroupPlace& place, double bytes) const {
  expect(network_.has_value(), "ranks of several nodes have a network");
  const Network& network = *network_;
  const bool sends = kind == MessageKind::send;
  // One card a GPU: a message between two ranks uses one, a ring's channels all cards of the node.
  const double cards = sends ? 1 : static_cast<double>(place.in_node);
  const auto seconds = [&](double reached) {
    const double bandwidth = cards * network.bandwidth.value() * reached;
    if (kind == MessageKind::all_to_all) {
      return seconds_of(exchange_course(place), network, bandwidth, bytes);
    }
    const NetworkCourse ring = sends ? NetworkCourse{1, 1} : ring_course(kind, place);
    const double by_ring = seconds_of(ring, network, bandwidth, bytes);
    // NCCL's tree is for all-reduce alone; its tuner takes what its own model finds faster.
    if (kind != MessageKind::all_reduce) return by_ring;
    return std::min(by_ring, seconds_of(tree_course(place), network, bandwidth, bytes));
  };
  const bool said = network.source.empty();
  return {.fast = seconds(kNetworkFast),
          .expected = seconds(kNetworkExpected),
          .slow = seconds(said ? kNetworkSlow : kUsualSlow),
          .bound = Bound::link,
          .origin = {.provenance = network.provenance, .sibling = {}}};
}

}  // namespace memest
