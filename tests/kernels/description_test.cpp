#include "kernels/description.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/check_shape.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rotary.hpp"
#include "kernels/rotation.hpp"
#include "memest/kernels/traffic.hpp"

using namespace memest;
using namespace memest::kernels;

namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kColumns = 7;
constexpr std::int64_t kElements = kRows * kColumns;

std::int64_t bytes(StreamOp op, DType dtype, KernelPass pass = KernelPass::forward) {
  const auto traffic =
      stream_traffic({.op = op, .pass = pass, .dtype = dtype, .rows = kRows, .columns = kColumns});
  REQUIRE(traffic);
  return traffic->value();
}

}  // namespace

TEST_CASE("the operands of each kernel add up to the closed form of its header") {
  constexpr auto backward = KernelPass::backward;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const std::int64_t w = size_of(dtype);
    const std::int64_t n = kElements;
    const std::int64_t h = kColumns;
    CHECK(bytes(StreamOp::read, dtype) == n * w + 4);
    CHECK(bytes(StreamOp::write, dtype) == n * w);
    CHECK(bytes(StreamOp::copy, dtype) == 2 * n * w);
    CHECK(bytes(StreamOp::scale, dtype) == 2 * n * w);
    CHECK(bytes(StreamOp::add, dtype) == 3 * n * w);
    CHECK(bytes(StreamOp::triad, dtype) == 3 * n * w);
    CHECK(bytes(StreamOp::cast, dtype) == 6 * n);
    CHECK(bytes(StreamOp::gelu, dtype) == 2 * n * w);
    CHECK(bytes(StreamOp::gelu, dtype, backward) == 3 * n * w);
    CHECK(bytes(StreamOp::silu_mul, dtype) == 3 * n * w);
    CHECK(bytes(StreamOp::silu_mul, dtype, backward) == 5 * n * w);
    CHECK(bytes(StreamOp::dropout, dtype) == n * (2 * w + 1));
    CHECK(bytes(StreamOp::dropout, dtype, backward) == n * (2 * w + 1));
    CHECK(bytes(StreamOp::softmax, dtype) == 2 * n * w);
    CHECK(bytes(StreamOp::softmax, dtype, backward) == 3 * n * w);
    CHECK(bytes(StreamOp::layernorm, dtype) == (2 * n + 2 * h) * w + 8 * kRows);
    CHECK(bytes(StreamOp::layernorm, dtype, backward) == (3 * n + 3 * h) * w + 8 * kRows);
    CHECK(bytes(StreamOp::rmsnorm, dtype) == (2 * n + h) * w + 4 * kRows);
    CHECK(bytes(StreamOp::rmsnorm, dtype, backward) == (3 * n + 2 * h) * w + 4 * kRows);
    CHECK(bytes(StreamOp::cross_entropy, dtype) == n * w + 16 * kRows);
    CHECK(bytes(StreamOp::cross_entropy, dtype, backward) == 2 * n * w + 12 * kRows);
    CHECK(bytes(StreamOp::embedding, dtype) == 2 * n * w + 8 * kRows);
    CHECK(bytes(StreamOp::embedding, dtype, backward) == n * (w + 8) + 8 * kRows);
    CHECK(bytes(StreamOp::rotary, dtype) == (2 * n + 2 * (h / 2)) * w);
    CHECK(bytes(StreamOp::rotary, dtype, backward) == (2 * n + 2 * (h / 2)) * w);
    CHECK(bytes(StreamOp::adamw, dtype) == 28 * n);
  }
  CHECK(bytes(StreamOp::cast, DType::fp8) == 3 * kElements);
}

TEST_CASE("an op without a kernel in a pass has no traffic") {
  CHECK_FALSE(stream_traffic({.op = StreamOp::copy, .pass = KernelPass::backward}));
  CHECK_FALSE(stream_traffic({.op = StreamOp::adamw, .pass = KernelPass::backward}));
}

TEST_CASE("a rotary embedding turns pairs by its angles, and its backward turns them back") {
  const StreamShape shape{
      .op = StreamOp::rotary, .dtype = DType::fp64, .rows = kRotaryHeads + 1, .columns = 5};
  std::vector<double> x(static_cast<std::size_t>(shape.rows * shape.columns));
  std::iota(x.begin(), x.end(), 1.0);
  const double angle = 0.3;  // of the second position; the first stays
  std::vector<double> cosines = {1, 1, std::cos(angle), std::cos(2 * angle)};
  std::vector<double> sines = {0, 0, std::sin(angle), std::sin(2 * angle)};
  std::vector<double> turned(x.size());
  std::vector<double> back(x.size());
  find_stream_kernel(StreamOp::rotary, KernelPass::forward)
      ->reference(shape, std::array{x.data(), cosines.data(), sines.data(), turned.data()}.data());
  find_stream_kernel(StreamOp::rotary, KernelPass::backward)
      ->reference(shape,
                  std::array{turned.data(), cosines.data(), sines.data(), back.data()}.data());
  const std::size_t second = x.size() - 5;
  CHECK(std::equal(x.begin(), x.begin() + 5 * kRotaryHeads, turned.begin()));
  for (const std::size_t c : {0, 1}) {
    const std::complex<double> point(x[second + c], x[second + 2 + c]);
    const std::complex<double> expected =
        point * std::polar(1.0, angle * static_cast<double>(c + 1));
    CHECK(std::abs(expected - std::complex(turned[second + c], turned[second + 2 + c])) < 1e-12);
  }
  CHECK(largest_error(back, x) < 1e-12);
}

TEST_CASE("matrix products move their operands once, and an added-to result twice") {
  MatmulShape shape{.result = DType::fp32, .batch = 3, .m = 4, .n = 5, .k = 6};
  CHECK(matmul_flops(shape) == Flops(2 * 3 * 4 * 5 * 6));
  CHECK(matmul_traffic(shape) == Bytes(3 * ((24 + 30) * 2 + 20 * 4)));
  shape.accumulates = true;
  CHECK(matmul_traffic(shape) == Bytes(3 * ((24 + 30) * 2 + 2 * 20 * 4)));
}

TEST_CASE("an error is held against the larger of its reference and their root mean square") {
  const std::vector<double> reference = {3, 0, 0, 0, 0, 0, 0, 0, 0};  // root mean square 1
  std::vector<double> result = reference;
  CHECK(largest_error(result, reference) == 0);
  result[0] = 3.3;
  result[8] = 0.2;
  CHECK(std::abs(largest_error(result, reference) - 0.2) < 1e-12);
  result[4] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isinf(largest_error(result, reference)));
  CHECK(std::isinf(largest_error(std::vector{1.0}, std::vector{0.0})));
}

TEST_CASE("a mean error weighs all differences, and a number that is none fails") {
  const std::vector<double> reference = {3, 0, 0, 0, 0, 0, 0, 0, 0};  // root mean square 1
  std::vector<double> result = reference;
  CHECK(mean_error(result, reference) == 0);
  result[0] = 3.3;  // of nine elements: 0.3 / sqrt(9)
  CHECK(std::abs(mean_error(result, reference) - 0.1) < 1e-12);
  result[4] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isinf(mean_error(result, reference)));
  CHECK(std::isinf(mean_error(std::vector{1.0}, std::vector{0.0})));
  CHECK(mean_error(std::vector{0.0}, std::vector{0.0}) == 0);
}

TEST_CASE("a round of copies passes three times the cache and fits half of the memory") {
  CHECK(copies(Bytes(100), Bytes(1000), Bytes(1'000'000)) == 31);
  CHECK(copies(Bytes(100), Bytes(1000), Bytes(2'000)) == 10);
  CHECK(copies(Bytes(4000), Bytes(1000), Bytes(1'000'000)) == 2);
  CHECK(copies(Bytes(100), Bytes(1000), Bytes(50)) == 1);
  CHECK(copies(Bytes(1), Bytes(1000), Bytes(1'000'000)) == kMostCalls);
}

TEST_CASE("a kernel is checked at its columns, few rows, and never at more than it is timed at") {
  const StreamShape wide = check_shape(StreamShape{.rows = 4096, .columns = 8192});
  CHECK(wide.rows == 37);
  CHECK(wide.columns == 8192);
  const StreamShape flat = check_shape(StreamShape{.rows = 1, .columns = 1 << 28});
  CHECK(flat.rows == 1);
  CHECK(flat.columns < (1 << 21));
  const StreamShape long_row = check_shape(StreamShape{.rows = 8, .columns = 1 << 22});
  CHECK(long_row.rows == 1);
  const MatmulShape matmul = check_shape(MatmulShape{.batch = 9, .m = 4096, .n = 8, .k = 128});
  CHECK(matmul.m == 144);
  CHECK(matmul.m % 16 == 0);  // an fp8 product of many rows has its check
  CHECK(matmul.n == 8);
  CHECK(matmul.batch == 2);
}
