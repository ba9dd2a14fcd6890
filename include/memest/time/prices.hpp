// Prices of a step's operations on one GPU type, kernels and messages apart: the same for
// every pipeline, number of replicas and schedule.
#pragma once

#include <array>
#include <vector>

#include "memest/time/links.hpp"
#include "memest/time/work.hpp"

namespace memest {

/// Where each RankGroup's ranks lie.
using GroupPlaces = std::array<GroupPlace, 5>;
GroupPlaces places_of(const Parallelism& parallelism, std::int64_t linked_gpus);

/// Both passes of an operation, one execution of each.
struct OpPrice {
  CallPrice forward;  ///< kernels alone
  CallPrice casts;    ///< of `forward`, the first call where OpWork::recasts counts it
  CallPrice backward;
  CallPrice forward_messages;  ///< the pass's wait for messages, beside its kernels
  CallPrice backward_messages;
  double weights = 0;  ///< of `backward`, expected: the weights' gradients
};

/// The sum of an operation's calls; the longest names its bound and how it is known. `load` as
/// GpuLaws::price takes it.
CallPrice price_of_calls(const std::vector<KernelShape>& calls, const GpuLaws& laws,
                         double load = 1);

/// Prices without messages: one rank alone.
std::vector<OpPrice> price_ops(const StepWork& work, const GpuLaws& laws);
/// Prices with the messages between the ranks that share a layer.
std::vector<OpPrice> price_ops(const StepWork& work, const Links& links, const GroupPlaces& places);

}  // namespace memest
