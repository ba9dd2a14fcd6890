#include "front.hpp"

#include <algorithm>
#include <tuple>

namespace memest {
namespace {

bool is_no_worse(const Weighed& left, const Weighed& right) {
  return left.dollars_per_token <= right.dollars_per_token &&
         left.seconds_per_token <= right.seconds_per_token && left.gpus <= right.gpus &&
         left.memory <= right.memory;
}

}  // namespace

std::vector<Weighed> pareto_front(std::vector<Weighed> all) {
  // Whoever dominates another stands before it in this order.
  std::stable_sort(all.begin(), all.end(), [](const Weighed& left, const Weighed& right) {
    return std::tie(left.dollars_per_token, left.seconds_per_token, left.gpus, left.memory) <
           std::tie(right.dollars_per_token, right.seconds_per_token, right.gpus, right.memory);
  });
  std::vector<Weighed> front;
  for (const Weighed& candidate : all) {
    const bool dominated = std::any_of(front.begin(), front.end(), [&](const Weighed& other) {
      return is_no_worse(other, candidate);
    });
    if (!dominated) front.push_back(candidate);
  }
  return front;
}

}  // namespace memest
