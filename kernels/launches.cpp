#include "kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/adamw.hpp"
#include "kernels/cast.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/dropout.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gelu.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/norm_partials.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/rotary.hpp"
#include "kernels/silu_mul.hpp"
#include "kernels/softmax.hpp"
#include "kernels/stream.hpp"

namespace memest::kernels {
namespace {

struct Row {
  StreamOp op;
  KernelPass pass;
  Launcher launch;
};

constexpr auto kForward = KernelPass::forward;
constexpr auto kBackward = KernelPass::backward;

constexpr std::array kRows = {
    Row{StreamOp::read, kForward, launch_read},
    Row{StreamOp::write, kForward, launch_write},
    Row{StreamOp::copy, kForward, launch_copy},
    Row{StreamOp::scale, kForward, launch_scale},
    Row{StreamOp::add, kForward, launch_add},
    Row{StreamOp::triad, kForward, launch_triad},
    Row{StreamOp::cast, kForward, launch_cast},
    Row{StreamOp::gelu, kForward, launch_gelu},
    Row{StreamOp::gelu, kBackward, launch_gelu_backward},
    Row{StreamOp::silu_mul, kForward, launch_silu_mul},
    Row{StreamOp::silu_mul, kBackward, launch_silu_mul_backward},
    Row{StreamOp::dropout, kForward, launch_dropout},
    Row{StreamOp::dropout, kBackward, launch_dropout_backward},
    Row{StreamOp::softmax, kForward, launch_softmax},
    Row{StreamOp::softmax, kBackward, launch_softmax_backward},
    Row{StreamOp::layernorm, kForward, launch_layernorm},
    Row{StreamOp::layernorm, kBackward, launch_layernorm_backward},
    Row{StreamOp::rmsnorm, kForward, launch_rmsnorm},
    Row{StreamOp::rmsnorm, kBackward, launch_rmsnorm_backward},
    Row{StreamOp::cross_entropy, kForward, launch_cross_entropy},
    Row{StreamOp::cross_entropy, kBackward, launch_cross_entropy_backward},
    Row{StreamOp::embedding, kForward, launch_embedding},
    Row{StreamOp::embedding, kBackward, launch_embedding_backward},
    Row{StreamOp::rotary, kForward, launch_rotary},
    Row{StreamOp::rotary, kBackward, launch_rotary_backward},
    Row{StreamOp::adamw, kForward, launch_adamw}};

bool has_type(const StreamShape& shape) {
  return shape.dtype == DType::fp32 || shape.dtype == DType::bf16 ||
         (shape.op == StreamOp::cast && shape.dtype == DType::fp8);
}

bool is_row_op(StreamOp op) {
  switch (op) {
    case StreamOp::softmax:
    case StreamOp::layernorm:
    case StreamOp::rmsnorm:
    case StreamOp::cross_entropy:
    case StreamOp::embedding:
      return true;
    case StreamOp::read:
    case StreamOp::write:
    case StreamOp::copy:
    case StreamOp::scale:
    case StreamOp::add:
    case StreamOp::triad:
    case StreamOp::by_element:  // no kernel of memest's own is
    case StreamOp::cast:
    case StreamOp::gelu:
    case StreamOp::silu_mul:
    case StreamOp::dropout:
    case StreamOp::rotary:
    case StreamOp::adamw:
      return false;
  }
  return false;
}

/// Row kernels count columns in 32 bits; the backward of norms holds its row.
bool has_too_long_rows(const StreamShape& shape) {
  if (shape.columns > std::numeric_limits<std::int32_t>::max() && is_row_op(shape.op)) return true;
  // A backward of norms reads its row twice, so it keeps it on chip.
  const bool is_norm = shape.op == StreamOp::layernorm || shape.op == StreamOp::rmsnorm;
  return is_norm && shape.pass == kBackward &&
         shape.columns * size_of(shape.dtype) > kLongestNormRow;
}

}  // namespace

Launcher find_launcher(const StreamShape& shape) {
  if (!has_type(shape) || has_too_long_rows(shape)) return nullptr;
  const auto* const found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return row.op == shape.op && row.pass == shape.pass;
  });
  return found == kRows.end() ? nullptr : found->launch;
}

}  // namespace memest::kernels
