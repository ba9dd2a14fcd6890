#include "time/laws/token_exchanges.hpp"

#include <span>

namespace memest {
namespace {

/// Bytes that a rank has received over the time, as DeepEP's tests count: the copies of its own
/// tokens too, of which none crosses a link. In 10⁹ bytes a second.
struct Rate {
  double slow;      ///< with the calls around the kernel
  double expected;  ///< the kernel, on as many multiprocessors as Megatron gives it
  double fast;      ///< the best that was measured
};
struct RateRow {
  std::int64_t parts;  ///< ranks of a domain, or nodes
  Rate dispatch;
  Rate combine;
};
struct RateTable {
  std::span<const RateRow> rows;
  double link;  ///< bytes a second of the link that was measured, one direction
};

/// deepseek-ai/DeepEP, branch hybrid-ep, README: GB200, 4096 tokens of 7168 channels in bf16, 8
/// experts of 8 a rank. "Torch API" and "Kernel Only" on 16 multiprocessors (moe_hybridep_num_sms),
/// "Kernel Only" on 32.
constexpr RateRow kGb200[] = {{8, {550.10, 750.15, 764.03}, {538.44, 684.27, 737.13}},
                              {16, {472.84, 661.93, 706.95}, {474.48, 600.75, 666.26}},
                              {24, {441.89, 637.80, 665.97}, {444.40, 565.53, 639.80}},
                              {32, {485.50, 629.79, 642.23}, {423.19, 547.25, 605.15}},
                              {36, {469.96, 612.85, 632.31}, {418.27, 543.27, 596.99}}};
constexpr RateTable kOfNvlink5 = {kGb200, 900e9};

/// aws-samples/awsome-distributed-training, DeepEP's test_intranode.py on 8 H200 (P5en), as many
/// tokens: the worst, the default and the best chunk on 24 multiprocessors. Nothing is published of
/// Hybrid-EP within such a node.
constexpr RateRow kH200[] = {{8, {292.16, 305.72, 331.77}, {283.55, 319.88, 321.89}}};
constexpr RateTable kOfNvlink4 = {kH200, 450e9};

/// The README as above, of nodes of 8 H100 with a ConnectX-7 each: "Torch API" and "Kernel Only" on
/// 16 multiprocessors, the best of 4, 8 and 16.
constexpr RateRow kConnectX7[] = {{2, {54.47, 71.71, 76.80}, {53.35, 62.95, 68.00}},
                                  {4, {47.36, 57.69, 57.69}, {52.53, 57.46, 57.46}},
                                  {8, {41.24, 49.97, 50.55}, {46.57, 49.77, 51.03}}};
constexpr RateTable kOfCards = {kConnectX7, 50e9};

/// The share of what a rank has that crosses a link, among so many equal parts.
double crossing(std::int64_t parts) { return 1 - 1 / static_cast<double>(parts); }

/// Bytes that a rank has of such an exchange among so many parts.
struct Received {
  MessageKind kind;
  std::int64_t parts;
  double bytes;
};

/// Seconds over a link of `bandwidth`, at the share of it that the nearest row reaches.
CallPrice price_of(const RateTable& table, double bandwidth, const Received& received) {
  const RateRow* row = &table.rows.front();
  for (const RateRow& one : table.rows) {
    if (one.parts <= received.parts) row = &one;
  }
  const Rate& rate = received.kind == MessageKind::dispatch ? row->dispatch : row->combine;
  constexpr double kGiga = 1e9;
  const double carried = received.bytes * crossing(received.parts) / crossing(row->parts);
  const auto seconds = [&](double reached) {
    return carried / (reached * kGiga * bandwidth / table.link);
  };
  return {.fast = seconds(rate.fast),
          .expected = seconds(rate.expected),
          .slow = seconds(rate.slow),
          .bound = Bound::link,
          .origin = {.provenance = Provenance::public_, .sibling = {}}};
}

}  // namespace

std::optional<CallPrice> price_of_token_links(const TokenLinks& links, MessageKind kind,
                                              std::int64_t ranks, double received) {
  if (ranks == 1) return CallPrice{};
  if (!links.capability || *links.capability < kHopper || links.bandwidth == 0) return {};
  const RateTable& table = *links.capability < kBlackwell ? kOfNvlink4 : kOfNvlink5;
  return price_of(table, links.bandwidth, {kind, ranks, received});
}

CallPrice price_of_token_network(const Network& network, MessageKind kind, std::int64_t nodes,
                                 double sent) {
  return price_of(kOfCards, network.bandwidth.value(), {kind, nodes, sent});
}

}  // namespace memest
