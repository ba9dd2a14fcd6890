// What a sweep promises: it fits the device and its time, it covers kinds evenly from its beginning
// on, and it spreads sizes.
#include "memest/calibrate/sweep.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "lawful_backend.hpp"
#include "memest/kernels/traffic.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {
namespace {

/// What comes before the sizes in a shape's text, and for products before the pass: the kind that
/// gets a law of its own.
std::string kind_word(const KernelShape& shape) {
  constexpr std::array kWords = {2, 4, 3, 2, 1, 3};  // by alternative of KernelShape
  const std::string text = text_of(shape);
  std::size_t end = 0;
  for (int word = 0; word < kWords.at(shape.index()); ++word) end = text.find(' ', end + 1);
  return text.substr(0, end);
}

std::map<std::string, int> counts_of(const Sweep& sweep, std::size_t steps) {
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i < steps; ++i) ++counts[kind_word(sweep.steps[i].shape)];
  return counts;
}

TEST_CASE("a sweep takes no longer than it may, and is the same each time", "[calibrate]") {
  const LawfulBackend backend;
  const double seconds = GENERATE(3, 20, 60, 61, 600);
  const Sweep sweep = design_sweep(backend.as_device(), Seconds(seconds));
  CHECK_FALSE(sweep.steps.empty());
  CHECK(sweep.expected() <= Seconds(seconds * kShareForMeasuring));
  const Sweep again = design_sweep(backend.as_device(), Seconds(seconds));
  REQUIRE(again.steps.size() == sweep.steps.size());
  for (std::size_t i = 0; i < sweep.steps.size(); ++i) {
    CHECK(again.steps[i].shape == sweep.steps[i].shape);
  }
}

TEST_CASE("a step can be measured, has its bytes and stands there once", "[calibrate]") {
  const LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kFullBudget);
  std::set<std::pair<KernelShape, Load>> seen;
  for (const SweepStep& step : sweep.steps) {
    INFO(text_of(step.shape));
    CHECK(backend.can_measure(step.shape));
    CHECK(seen.emplace(step.shape, step.load).second);
    CHECK(step.call > Seconds(0));
    CHECK(step.call <= Seconds(0.05));
    if (const auto* stream = std::get_if<StreamShape>(&step.shape)) {
      CHECK(Bytes(stream->bytes) == stream_traffic(*stream).value());
    }
  }
  CHECK(sweep.steps.size() > 400);
}

TEST_CASE("the first third of a minute has every kind, the whole enough of each for a law",
          "[calibrate]") {
  const LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
  const auto early = counts_of(sweep, sweep.steps.size() / 3);
  const auto all = counts_of(sweep, sweep.steps.size());
  CHECK(all.size() > 40);
  for (const auto& [kind, count] : all) {
    INFO(kind);
    CHECK(early.count(kind) == 1);
    CHECK(count >= (kind.starts_with("launch") ? 1 : 3));
  }
  CHECK(all.at("matmul bf16") >= 30);
}

TEST_CASE("matrix products come under both loads, the sustained ones in one block", "[calibrate]") {
  const LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), GENERATE(kQuickBudget, kFullBudget));
  const auto is_sustained = [](const SweepStep& step) { return step.load == Load::sustained; };
  const auto first = std::find_if(sweep.steps.begin(), sweep.steps.end(), is_sustained);
  const auto last = std::find_if_not(first, sweep.steps.end(), is_sustained);
  CHECK(last - first >= 8);
  CHECK(std::none_of(last, sweep.steps.end(), is_sustained));
  for (auto step = first; step != last; ++step) {
    CHECK(std::holds_alternative<MatmulShape>(step->shape));
    CHECK(std::any_of(sweep.steps.begin(), sweep.steps.end(), [&](const SweepStep& other) {
      return other.load == Load::burst && other.shape == step->shape;
    }));
  }
}

TEST_CASE("products are spread over sizes, and not all of them are aligned", "[calibrate]") {
  const LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kFullBudget);
  // Octaves of tokens and of the narrower side: no two neighbours are empty in the range of steps.
  std::map<int, int> tokens;
  std::map<int, int> widths;
  int unaligned = 0;
  int gradients = 0;
  int batched = 0;
  int all = 0;
  for (const SweepStep& step : sweep.steps) {
    const auto* shape = std::get_if<MatmulShape>(&step.shape);
    if (shape == nullptr || shape->operand != DType::bf16) continue;
    ++all;
    ++tokens[static_cast<int>(std::log2(shape->m))];
    ++widths[static_cast<int>(std::log2(std::min(shape->n, shape->k)))];
    unaligned += shape->m % 8 != 0 || shape->n % 8 != 0 || shape->k % 8 != 0 ? 1 : 0;
    gradients += shape->pass != MatmulPass::forward ? 1 : 0;
    batched += shape->batch > 1 ? 1 : 0;
  }
  for (const int octave : {9, 10, 11, 12, 13, 14}) CHECK(tokens[octave] * 40 >= all);
  for (const int octave : {9, 10, 11, 12, 13}) CHECK(widths[octave] * 40 >= all);
  CHECK(unaligned * 20 >= all);
  CHECK(gradients * 4 >= all);
  CHECK(batched * 40 >= all);
}

TEST_CASE("a minute takes one type of streams, ten minutes all", "[calibrate]") {
  const LawfulBackend backend;
  const auto types = [&](Seconds budget) {
    std::set<DType> found;
    for (const SweepStep& step : design_sweep(backend.as_device(), budget).steps) {
      if (const auto* stream = std::get_if<StreamShape>(&step.shape)) found.insert(stream->dtype);
    }
    return found.size();
  };
  CHECK(types(kQuickBudget) == 1);
  CHECK(types(kFullBudget) > 2);
}

TEST_CASE("what lacks free memory is left out and listed", "[calibrate]") {
  LawfulBackend backend;
  CHECK(design_sweep(backend.as_device(), kFullBudget).left_out.empty());
  backend.device.free_memory = Bytes(256 * kMiB);
  const Sweep sweep = design_sweep(backend.as_device(), kFullBudget);
  CHECK_FALSE(sweep.left_out.empty());
  for (const SweepStep& step : sweep.steps) CHECK(backend.can_measure(step.shape));
}

TEST_CASE("a warm-up is for the first of a block", "[calibrate]") {
  const RulerSettings ruler;
  CHECK(warm_up(ruler, false) == ruler.sustained_for);
  CHECK(warm_up(ruler, true) < ruler.sustained_for * 0.2);
}

}  // namespace
}  // namespace memest
