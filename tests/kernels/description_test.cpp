#include "kernels/description.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check_shape.hpp"
#include "kernels/matmul.hpp"
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
    CHECK(bytes(StreamOp::adamw, dtype) == 28 * n);
  }
  CHECK(bytes(StreamOp::cast, DType::fp8) == 3 * kElements);
}

TEST_CASE("an op without a kernel in a pass has no traffic") {
  CHECK_FALSE(stream_traffic({.op = StreamOp::copy, .pass = KernelPass::backward}));
  CHECK_FALSE(stream_traffic({.op = StreamOp::rotary}));
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
  CHECK(matmul.m == 136);
  CHECK(matmul.n == 8);
  CHECK(matmul.batch == 2);
}
