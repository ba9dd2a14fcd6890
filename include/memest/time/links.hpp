// Times of messages between ranks: how a group's ranks lie over the nodes, and through which
// links they go. Rules and sources: docs/calibration.md.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/graph/message.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/network.hpp"
#include "memest/time/gpu_laws.hpp"

namespace memest {

/// A group of ranks: so many, of which so many share a node, with other groups' ranks between them.
struct GroupPlace {
  std::int64_t ranks = 1;
  std::int64_t in_node = 1;
  std::int64_t stride = 1;  ///< from one to the next

  /// Nodes that the group reaches.
  [[nodiscard]] std::int64_t nodes() const { return (ranks + in_node - 1) / in_node; }

  friend auto operator<=>(const GroupPlace&, const GroupPlace&) = default;
};

/// Ranks lie in Megatron's order: tensor innermost, then context, data (whose ranks expert ones
/// are), pipeline outermost. The context ranks reduce gradients and shard states with the
/// data-parallel ones, so the group `data` holds both.
GroupPlace group_place_of(RankGroup group, const Parallelism& parallelism,
                          std::int64_t linked_gpus);
/// The ranks that share the same experts' weights: of `data` those beside the expert ones.
GroupPlace place_of_expert_replicas(const Parallelism& parallelism, std::int64_t linked_gpus);

/// The usual one for nodes of such GPUs; none where no kind of node is usual.
std::optional<Network> usual_network(const GpuSpec& gpu);

/// The links that DeepEP's kernels run on.
struct TokenLinks {
  std::optional<ComputeCapability> capability;
  double bandwidth = 0;  ///< bytes a second within the node, one direction; 0: not known
};

/// An exchange carries tokens to the ranks of their experts (`dispatch`), or sums back (`combine`).
struct TokenExchange {
  MessageKind kind = MessageKind::dispatch;
  TokenRouting routing;
};

class Links {
 public:
  /// `laws` outlives this. `hardware.network` where it is written, else the usual one.
  Links(const GpuLaws& laws, const Hardware& hardware);

  [[nodiscard]] const GpuLaws& laws() const { return *laws_; }
  [[nodiscard]] bool know_network() const { return network_.has_value(); }

  /// Seconds of one message of `bytes` (see Message) alone; zero in a group of one rank. Where the
  /// group reaches several nodes there is a network.
  [[nodiscard]] CallPrice price(MessageKind kind, const GroupPlace& place, double bytes) const;

  /// Seconds of an exchange of one rank's tokens, of `bytes`; as above otherwise.
  [[nodiscard]] CallPrice price_of_tokens(const TokenExchange& exchange, const GroupPlace& place,
                                          double bytes) const;

 private:
  [[nodiscard]] CallPrice price_in_node(MessageKind kind, const GroupPlace& place,
                                        double bytes) const;
  [[nodiscard]] CallPrice price_of_network(MessageKind kind, const GroupPlace& place,
                                           double bytes) const;

  const GpuLaws* laws_;
  std::optional<Network> network_;
  TokenLinks token_links_;
};

}  // namespace memest
