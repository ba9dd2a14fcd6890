#pragma once

#include <functional>
#include <map>
#include <vector>

namespace memest {

class Prices {
 public:
  Prices(const std::map<int, double>& rates, int first, int last, bool whole,
         double factor = 1.0);
  [[nodiscard]] double at(int gpu, bool spot, const bool cheapest) const;
  /// Four: the map's comma is none of its own.
  void add(int gpu, const std::map<int, double>& rates, std::function<double(int, int)> rule,
           bool spot = false);
  bool operator()(int left, int right, int more, int others, int last) const;

 private:
  std::vector<int> gpus_;
  int first_{0};
};

}  // namespace memest
