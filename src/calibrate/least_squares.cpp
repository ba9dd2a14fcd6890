#include "calibrate/least_squares.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/NonLinearOptimization>
#include <unsupported/Eigen/NumericalDiff>

namespace memest {
namespace {

/// How near to an end of its range a parameter starts at most: the map is flat at the ends.
constexpr double kFromEnd = 0.02;
/// Steps of the numerical derivative, squared: laws take the best of several tiles, and smaller
/// steps would see only one of them.
constexpr double kStepSquared = 1e-6;
constexpr int kMostEvaluations = 2000;
constexpr double kTolerance = 1e-7;

double to_free(const Knob& knob) {
  const double share = (*knob.value - knob.low) / (knob.high - knob.low);
  // A logistic map of each parameter's range onto all numbers: the solver has no bounds and needs
  // none.
  const double inside = std::clamp(share, kFromEnd, 1 - kFromEnd);
  return std::log(inside / (1 - inside));
}

void set_from_free(const Knob& knob, double value) {
  *knob.value = knob.low + (knob.high - knob.low) / (1 + std::exp(-value));
}

/// A residual whose square is the robust loss.
double softened(double residual, double scale) {
  // 2(√(1 + r²) - 1), known as soft L1: square near zero, linear for outliers. The solver squares
  // what it is given, hence the root.
  const double ratio = residual / scale;
  const double loss = 2 * (std::sqrt(1 + ratio * ratio) - 1);
  return std::copysign(scale * std::sqrt(loss), residual);
}

/// The residuals as Eigen asks for them.
class Functor {
 public:
  // The names that Eigen's NumericalDiff and LevenbergMarquardt ask for.
  using Scalar = double;
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;
  static constexpr int InputsAtCompileTime =
      Eigen::Dynamic;  // NOLINT(readability-identifier-naming)
  static constexpr int ValuesAtCompileTime =
      Eigen::Dynamic;  // NOLINT(readability-identifier-naming)

  Functor(const std::vector<Knob>& knobs, std::size_t rows,
          const std::function<double(std::size_t)>& residual, double scale)
      : knobs_(knobs), rows_(rows), residual_(residual), scale_(scale) {}

  [[nodiscard]] int inputs() const { return static_cast<int>(knobs_.size()); }
  [[nodiscard]] int values() const {
    return static_cast<int>(std::max(rows_, knobs_.size()));  // fewer rows than knobs: zeros
  }

  int operator()(const InputType& free, ValueType& residuals) const {
    for (std::size_t i = 0; i < knobs_.size(); ++i) {
      set_from_free(knobs_[i], free[static_cast<Eigen::Index>(i)]);
    }
    residuals.setZero();
    for (std::size_t row = 0; row < rows_; ++row) {
      residuals[static_cast<Eigen::Index>(row)] = softened(residual_(row), scale_);
    }
    return 0;
  }

 private:
  const std::vector<Knob>& knobs_;
  std::size_t rows_;
  const std::function<double(std::size_t)>& residual_;
  double scale_;
};

}  // namespace

void fit_knobs(const std::vector<Knob>& knobs, std::size_t rows,
               const std::function<double(std::size_t)>& residual, double scale) {
  if (knobs.empty() || rows == 0) return;
  const Functor functor(knobs, rows, residual, scale);
  Eigen::VectorXd free(functor.inputs());
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    free[static_cast<Eigen::Index>(i)] = to_free(knobs[i]);
  }
  Eigen::NumericalDiff<Functor> with_derivative(functor, kStepSquared);
  Eigen::LevenbergMarquardt<Eigen::NumericalDiff<Functor>> solver(with_derivative);
  solver.parameters.maxfev = kMostEvaluations;
  solver.parameters.xtol = kTolerance;
  solver.parameters.ftol = kTolerance;
  solver.minimize(free);
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    set_from_free(knobs[i], free[static_cast<Eigen::Index>(i)]);
  }
}

}  // namespace memest
