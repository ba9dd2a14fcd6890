#include "memest/memory/data_ranks.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "memest/memory/timeline.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/allocator/block.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/megatron/megatron_states.hpp"
#include "memory/megatron/megatron_units.hpp"
#include "memory/sharding/flat_units.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {
namespace {

/// How many stand out at most: those at the ends of what is counted, and others evenly between.
constexpr std::int64_t kMostOutstanding = 8;
/// How many are replayed beside them at most. In 335 drawn stages with more than 16 kinds of ranks
/// none that was left out reserved over 0.4 % more than those followed.
constexpr std::int64_t kMostOthers = 16;
/// How many data ranks are looked at, at most.
constexpr std::int64_t kMostLookedAt = 1024;

/// The sizes by which one rank's timeline differs from another's.
struct RankShare {
  std::vector<std::int64_t> pieces;  ///< elements, in the order in which they are stepped
  std::int64_t kept = 0;             ///< elements of whole gradients beside them

  friend auto operator<=>(const RankShare&, const RankShare&) = default;
};

bool is_flat_zero(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const auto* zero = std::get_if<DeepSpeedZero>(&sharding);
  return zero != nullptr && zero->is_flat();
}

/// DeepSpeed's partitions: which gradients come when is as much a rank's own as its pieces are, so
/// the first parameter is among them.
RankShare zero_share(const FlatPartitions& partitions, std::int64_t rank) {
  RankShare share{partitions.pieces(rank), partitions.reaching(rank)};
  share.pieces.push_back(-static_cast<std::int64_t>(partitions.first_of(rank)));
  return share;
}

std::vector<RankShare> shares_of(const Graph& graph, const Job& job, std::int64_t pipeline_rank,
                                 const std::vector<std::int64_t>& ranks) {
  Timeline timeline;
  const ForwardOrder order(graph, std::nullopt);
  name_model(graph, order, graph.parameters, timeline);
  std::vector<RankShare> shares;
  if (shards_by<MegatronBuffer>(job)) {
    const MegatronStates states({job, graph, order, {pipeline_rank, 0}}, timeline);
    for (const std::int64_t rank : ranks) shares.push_back({states.stepped_elements(rank), 0});
    return shares;
  }
  if (shards_by<BucketShards>(job)) {
    Recorder recorder(timeline);
    const MegatronUnits units({job, graph, order, {pipeline_rank, 0}}, recorder);
    for (const std::int64_t rank : ranks) shares.push_back({units.stepped_elements(rank), 0});
    return shares;
  }
  if (shards_by<FlatShards>(job)) {
    Recorder recorder(timeline);
    const FlatUnits units({job, graph, order}, recorder);
    for (const std::int64_t rank : ranks) shares.push_back({units.stepped_elements(rank), 0});
    return shares;
  }
  std::vector<std::int64_t> trained;
  for (const TensorPlace& place : timeline.parameters) {
    if (graph.parameters.parameters[place.row].trainable) trained.push_back(place.elements);
  }
  const FlatPartitions partitions(std::move(trained), job.parallelism.data);
  for (const std::int64_t rank : ranks) shares.push_back(zero_share(partitions, rank));
  return shares;
}

/// Bytes of the segments that fp32 states of the pieces take where nothing is free.
std::int64_t segment_bytes(const RankShare& share) {
  constexpr std::int64_t kStateBytes = 4;
  std::int64_t bytes = 0;
  for (const std::int64_t piece : share.pieces) {
    const std::int64_t state = std::max<std::int64_t>(piece, 0) * kStateBytes;
    // get_allocation_size: from 10 MiB on a segment is the request, rounded up to 2 MiB.
    const std::int64_t pages = (state + kRoundLarge - 1) / kRoundLarge;
    bytes = checked_add(bytes, state < kMinLargeAlloc ? state : pages * kRoundLarge);
  }
  return bytes;
}

std::int64_t largest_piece(const RankShare& share) {
  return share.pieces.empty() ? 0 : *std::max_element(share.pieces.begin(), share.pieces.end());
}

std::int64_t count_of(const RankShare& share) {
  return static_cast<std::int64_t>(share.pieces.size());
}

std::int64_t kept_of(const RankShare& share) { return share.kept; }

/// `most` of those below `count`, or all of them, evenly, the first and the last among them.
std::vector<std::int64_t> evenly(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < std::min(count, most); ++i) {
    chosen.push_back(count <= most ? i : i * (count - 1) / (most - 1));
  }
  return chosen;
}

/// The first, the last, and those with most and least of each figure; then others, evenly, until
/// there are as many as may stand out.
std::vector<std::int64_t> outstanding(const std::vector<RankShare>& shares) {
  std::vector<std::int64_t> front;
  const auto add = [&](std::int64_t i) {
    const bool is_new = std::find(front.begin(), front.end(), i) == front.end();
    if (is_new && std::ssize(front) < kMostOutstanding) front.push_back(i);
  };
  const auto count = static_cast<std::int64_t>(shares.size());
  add(0);
  add(count - 1);
  for (const auto figure : {kept_of, count_of, largest_piece, segment_bytes}) {
    const auto [least, most] = std::minmax_element(
        shares.begin(), shares.end(), [&](const RankShare& left, const RankShare& right) {
          return figure(left) < figure(right);
        });
    add(most - shares.begin());
    add(least - shares.begin());
  }
  for (const std::int64_t i : evenly(count, kMostOutstanding)) add(i);
  return front;
}

}  // namespace

std::int64_t data_ranks_of(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (!job.training) return 1;
  const Sharding sharding = sharding_of(job);
  if (const auto* buffer = std::get_if<MegatronBuffer>(&sharding)) {
    return buffer->divides_optimizer ? parallelism.expert_ranks() : 1;
  }
  if (std::holds_alternative<FlatShards>(sharding)) return parallelism.shard_ranks();
  if (std::holds_alternative<BucketShards>(sharding)) return parallelism.shard_ranks();
  return is_flat_zero(job) ? parallelism.data : 1;
}

std::int64_t data_rank_of_formulas(const Job& job) {
  return shards_by<DeepSpeedZero>(job) ? deepspeed_rank(job) : 0;
}

FollowedRanks followed_data_ranks(const Graph& graph, const Job& job, std::int64_t pipeline_rank) {
  const std::int64_t count = data_ranks_of(job);
  if (count == 1) return {{0}, 1, true};
  const std::vector<std::int64_t> looked_at = evenly(count, kMostLookedAt);
  std::vector<RankShare> shares;
  std::vector<std::int64_t> ranks;
  std::set<RankShare> known;
  std::size_t next = 0;
  for (RankShare& share : shares_of(graph, job, pipeline_rank, looked_at)) {
    const std::int64_t rank = looked_at[next++];
    if (!known.insert(share).second) continue;
    shares.push_back(std::move(share));
    ranks.push_back(rank);
  }
  std::vector<std::int64_t> chosen = outstanding(shares);
  const std::size_t front = chosen.size();
  for (const std::int64_t i : evenly(static_cast<std::int64_t>(shares.size()), kMostOthers)) {
    if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
  }
  FollowedRanks followed{{}, front, chosen.size() == ranks.size() && count <= kMostLookedAt};
  for (const std::int64_t i : chosen) followed.ranks.push_back(ranks[static_cast<std::size_t>(i)]);
  return followed;
}

}  // namespace memest
