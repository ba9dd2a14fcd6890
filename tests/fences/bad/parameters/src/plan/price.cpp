#include "memest/plan/price.hpp"

namespace memest {
namespace {

constexpr int kTable[] = {1, 2, 3, 4, 5, 6};

// f(a, b, c, d, e) in a comment, and "f(a, b, c, d, e)" in a text, are no functions.
template <class T, class U>
double sum_of(const T& left, const U& right, int first,
              int last, double start) {
  return start + left(right, first, last, kTable[0], kTable[1]);
}

}  // namespace

Prices::Prices(const std::map<int, double>& rates, int first, int last, bool whole, double factor)
    : gpus_{first, last}, first_(whole ? first : last) {
  const auto add = [&](int gpu, bool spot, bool cheapest) {
    if (spot && cheapest) gpus_.push_back(gpu);
  };
  add(first, true, false);
  const auto scaled = [factor](int one, int two,
                               int three, int four,
                               int five) -> double { return factor * (one + two + three + four + five); };
  gpus_[0](scaled(1, 2, 3, 4, 5), rates);
}

double Prices::at(int gpu, bool spot, const bool cheapest) const {
  return spot && cheapest ? sum_of(gpu, gpu, gpu, gpu, 0.0) : 0;
}

}  // namespace memest
