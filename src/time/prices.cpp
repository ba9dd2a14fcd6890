#include "memest/time/prices.hpp"

#include <algorithm>
#include <variant>

namespace memest {
namespace {

void add(CallPrice& total, const CallPrice& price, double times = 1) {
  // The first message names the bound of the sum; calls take the longest one's.
  if (price.expected > 0 && total.expected == 0) {
    total.bound = price.bound;
    total.origin = price.origin;
  }
  total.fast += times * price.fast;
  total.expected += times * price.expected;
  total.slow += times * price.slow;
}

/// The part of a message that is left beside a kernel.
CallPrice beyond(const CallPrice& message, const CallPrice& kernel) {
  CallPrice left = message;
  // Ends of intervals are subtracted end by end: fast kernels meet fast links.
  left.fast = std::max(0.0, message.fast - kernel.fast);
  left.expected = std::max(0.0, message.expected - kernel.expected);
  left.slow = std::max(0.0, message.slow - kernel.slow);
  return left;
}

/// Asynchronous messages run beside the last kernels, one each, the last beside the last.
CallPrice waiting_of(const std::vector<MessageWork>& messages,
                     const std::vector<KernelShape>& calls, const Links& links,
                     const GroupPlaces& places) {
  CallPrice total{.bound = Bound::link, .origin = {}};
  auto beside = static_cast<std::size_t>(std::count_if(
      messages.begin(), messages.end(), [](const auto& message) { return message.asynchronous; }));
  for (const MessageWork& message : messages) {
    const GroupPlace& place = places[static_cast<std::size_t>(message.group)];
    CallPrice price =
        message.routing.top_k > 0
            ? links.price_of_tokens({message.kind, message.routing}, place, message.bytes)
            : links.price(message.kind, place, message.bytes);
    if (message.asynchronous) {
      // Three messages beside four calls run beside the last three; a message too many is waited
      // for whole.
      if (beside <= calls.size()) {
        price = beyond(price, links.laws().price(calls[calls.size() - beside]));
      }
      --beside;
    }
    add(total, price, message.times);
  }
  return total;
}

double weight_gradients(const std::vector<KernelShape>& calls, const GpuLaws& laws, double load) {
  double seconds = 0;
  for (const KernelShape& call : calls) {
    const auto* product = std::get_if<MatmulShape>(&call);
    if (product == nullptr || product->pass != MatmulPass::weight_gradient) continue;
    seconds += laws.price(call, load).expected;
  }
  return seconds;
}

/// Seconds of products, and of all.
struct KernelSeconds {
  double products = 0;
  double all = 0;

  void add(const std::vector<KernelShape>& calls, double times, const GpuLaws& laws) {
    for (const KernelShape& call : calls) {
      const double seconds = times * laws.price(call, 0).expected;
      all += seconds;
      if (std::holds_alternative<MatmulShape>(call)) products += seconds;
    }
  }
};

/// How much of what a step of nothing but products loses to the limit of power this one's lose.
double load_of(const StepWork& work, const GpuLaws& laws) {
  constexpr double kSteady = 1;
  if (laws.load_of_products(0) == kSteady) return kSteady;  // wherever products are, they lose all
  KernelSeconds seconds;
  for (const OpWork& op : work.ops) {
    if (op.op->once) continue;
    seconds.add(op.forward_calls, op.executions + op.recomputations, laws);
    seconds.add(op.backward_calls, op.executions, laws);
  }
  return seconds.all > 0 ? laws.load_of_products(seconds.products / seconds.all) : kSteady;
}

}  // namespace

CallPrice price_of_calls(const std::vector<KernelShape>& calls, const GpuLaws& laws, double load) {
  CallPrice total;
  double longest = -1;
  for (const KernelShape& call : calls) {
    const CallPrice price = laws.price(call, load);
    const Bound bound = total.bound;
    const LawOrigin origin = total.origin;
    add(total, price);
    const bool decides = price.expected > longest;
    total.bound = decides ? price.bound : bound;
    total.origin = decides ? price.origin : origin;
    longest = std::max(longest, price.expected);
  }
  return total;
}

GroupPlaces places_of(const Parallelism& parallelism, std::int64_t linked_gpus) {
  GroupPlaces places;
  for (std::size_t group = 0; group < places.size(); ++group) {
    places[group] = group_place_of(static_cast<RankGroup>(group), parallelism, linked_gpus);
  }
  return places;
}

std::vector<OpPrice> price_ops(const StepWork& work, const GpuLaws& laws) {
  std::vector<OpPrice> prices;
  prices.reserve(work.ops.size());
  const double load = load_of(work, laws);
  for (const OpWork& op : work.ops) {
    prices.push_back({.forward = price_of_calls(op.forward_calls, laws, load),
                      .casts = op.recasts > 0 ? laws.price(op.forward_calls.front()) : CallPrice{},
                      .backward = price_of_calls(op.backward_calls, laws, load),
                      .forward_messages = {},
                      .backward_messages = {},
                      .weights = weight_gradients(op.backward_calls, laws, load)});
  }
  return prices;
}

std::vector<OpPrice> price_ops(const StepWork& work, const Links& links,
                               const GroupPlaces& places) {
  std::vector<OpPrice> prices = price_ops(work, links.laws());
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const OpWork& op = work.ops[i];
    prices[i].forward_messages = waiting_of(op.forward_messages, op.forward_calls, links, places);
    prices[i].backward_messages =
        waiting_of(op.backward_messages, op.backward_calls, links, places);
  }
  return prices;
}

}  // namespace memest
