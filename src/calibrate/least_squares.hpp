// Fits a few bounded parameters to many measurements, so that outliers pull little.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace memest {

/// A parameter under way: where the function that is fitted reads it, and its range.
struct Knob {
  double* value = nullptr;
  double low = 0;
  double high = 1;
};

/// Turns the knobs, from where they stand, until the residuals of `rows` are small: the minimum of
/// Σ 2·(√(1 + (r/scale)²) − 1), quadratic below `scale` and linear above. `residual(row)` reads the
/// knobs' values. Levenberg and Marquardt's method, with the ranges kept by a logistic map.
void fit_knobs(const std::vector<Knob>& knobs, std::size_t rows,
               const std::function<double(std::size_t)>& residual, double scale);

}  // namespace memest
