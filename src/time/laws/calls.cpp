#include "time/laws/calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"
#include "time/laws/nearest_fit.hpp"
#include "time/laws/stream_calls.hpp"

namespace memest {
namespace {

std::int64_t value_of(const Expr& size, const Bindings& sizes) {
  return narrow_to_int64(size.evaluate(sizes));
}

/// FLOPs of the forward; if an op adds a bias to another's product and has the backward of both,
/// half of the backward's.
double product_flops(const OpWork& work) {
  return work.forward.flops > 0 ? work.forward.flops : work.backward.flops / 2;
}

/// k of a product with a weight, which a result that ranks share out has no part in: an output may
/// have fewer rows than the product (Megatron's row-parallel products with sequence parallelism).
std::int64_t summed_channels(const OpWork& work, const Block& block, const Bindings& sizes,
                             std::int64_t n) {
  const std::vector<TensorId>& inputs = work.op->inputs;
  if (work.op->kind == OpKind::linear && inputs.size() > 1) {
    return value_of(block.tensors[inputs[1]].elements(), sizes) / n;
  }
  const Tensor& result = block.tensors[work.op->outputs.front()];
  const auto elements = static_cast<double>(value_of(result.elements(), sizes));
  return static_cast<std::int64_t>(std::llround(product_flops(work) / (2 * elements)));
}

/// Transformer Engine's default recipe, DelayedScaling: a scale from earlier steps' largest values.
constexpr OperandScaling kFp8Scaling = OperandScaling::fixed;

bool has_weight(const Op& op, const Block& block) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&block](TensorId id) { return block.tensors[id].role == Role::parameter; });
}

/// Whether a recipe's fp8 runs it: products with weights of the layers, not those of the head, of
/// attention, or of a type of their own (a router in fp32). Transformer Engine replaces the linear
/// layers that blocks hold.
bool runs_in_fp8(const Op& op, const Block& block, const Recipe& recipe) {
  return recipe.fp8_weight_copies > 0 && block.checkpointable && op.compute == recipe.compute &&
         has_weight(op, block);
}

/// A product of Transformer Engine's, whose casts are kernels of known traffic.
bool is_cast_beside(const Op& op) { return op.casts.scaling != OperandScaling::none; }

/// [m, k] · [k, n], `batch` times, as the forward has it; of an addition of a bias, of the product.
MatmulShape forward_product(const OpWork& work, const Block& block, const Bindings& sizes,
                            const Recipe& recipe) {
  const Tensor& result = block.tensors[work.op->outputs.front()];
  const std::size_t rank = result.shape.size();
  const bool is_batched = work.op->kind == OpKind::batched_matmul && rank > 2;
  MatmulShape product{.operand = work.op->compute, .result = result.dtype};
  if (runs_in_fp8(*work.op, block, recipe)) {
    product.operand = DType::fp8;
    product.scaling = kFp8Scaling;
    product.cast_included = true;
  }
  if (work.op->compute == DType::fp8) product.scaling = OperandScaling::per_tensor;
  if (is_cast_beside(*work.op)) product.scaling = work.op->casts.scaling;
  product.n = rank == 0 ? 1 : value_of(result.shape[rank - 1], sizes);
  product.k = summed_channels(work, block, sizes, product.n);
  const double columns = 2 * static_cast<double>(product.n) * static_cast<double>(product.k);
  const std::int64_t rows = std::llround(product_flops(work) / columns);
  product.m = is_batched ? value_of(result.shape[rank - 2], sizes) : rows;
  product.batch = rows / product.m;
  return product;
}

bool trains_its_weight(const Op& op, const Block& block) {
  return std::any_of(op.gradients.begin(), op.gradients.end(), [&block](const auto& gradient) {
    return block.tensors[gradient.input].role == Role::parameter;
  });
}

/// dX[m, k] = dY[m, n] · W[n, k] and dW[k, n] = Xᵀ[k, m] · dY[m, n], as many as the FLOPs are of.
void add_backward_products(OpWork& work, const MatmulShape& forward, bool trains_weight) {
  // Two as a rule; one where the weight is frozen, or where the input needs no gradient.
  const auto products = std::lround(work.backward.flops / product_flops(work));
  MatmulShape data = forward;
  data.pass = MatmulPass::data_gradient;
  std::swap(data.n, data.k);
  MatmulShape weight = forward;
  weight.pass = MatmulPass::weight_gradient;
  std::swap(weight.m, weight.k);
  // The forward has cast its input in both layouts, the data's gradient that of the output.
  weight.cast_included = false;
  // Megatron's wgrad GEMM in fp32: main_grad is read, added to and written.
  if (work.op->adds_to_buffer) {
    weight.result = DType::fp32;
    weight.accumulates = true;
  }
  if (products >= 2) work.backward_calls = {data, weight};
  // A product that is made again before it is gone back through.
  const auto wanted = static_cast<std::int64_t>(work.op->gradients.size());
  if (work.op->multiplies_again && products > wanted) {
    work.backward_calls = {forward, data};
    if (wanted > 1) work.backward_calls.push_back(weight);
  }
  if (products == 1) work.backward_calls = {trains_weight ? weight : data};
}

/// The weight is read in its own type and written in fp8, once for each copy that is kept: in
/// every forward, for only a scheduler of micro-batches could tell that it is the same.
StreamShape cast_of_weight(const MatmulShape& product, const Recipe& recipe) {
  const std::int64_t elements =
      checked_multiply(checked_multiply(product.n, product.k), product.batch);
  const auto element_bytes =
      static_cast<std::int64_t>(size_of(recipe.weights)) + recipe.fp8_weight_copies;
  return {.op = StreamOp::cast, .bytes = checked_multiply(elements, element_bytes)};
}

void put_first(std::vector<KernelShape>& calls, const std::vector<KernelShape>& others) {
  calls.insert(calls.begin(), others.begin(), others.end());
}

/// A product whose operands are cast op by op around it (torchao's in eager PyTorch): what that
/// makes is written and read once.
void add_casts(OpWork& work) {
  const auto casts = [](const PassWork& pass) {
    StreamShape shape{.op = StreamOp::cast};
    shape.bytes = std::llround(pass.bytes);
    return std::vector<KernelShape>{shape};
  };
  put_first(work.forward_calls, casts(work.forward));
  if (!work.backward_calls.empty()) put_first(work.backward_calls, casts(work.backward));
}

/// Transformer Engine's kernels cast operands, by traffic of a rule of its own.
void add_operand_casts(OpWork& work, const Bindings& sizes) {
  const auto cast = [&](const Expr& bytes) {
    StreamShape shape{.op = StreamOp::cast};
    shape.bytes = bytes.bytes(sizes).value();
    return std::vector<KernelShape>{shape};
  };
  const OperandCasts& casts = work.op->casts;
  if (!casts.forward.is_zero()) put_first(work.forward_calls, cast(casts.forward));
  if (!work.backward_calls.empty()) put_first(work.backward_calls, cast(casts.backward));
}

/// The weight of a product, where it is kept as codes; null elsewhere.
const Tensor* codes_of(const Op& op, const Block& block) {
  const auto is_coded = [&block](TensorId id) { return block.tensors[id].bits > 0; };
  const auto found = std::ranges::find_if(op.inputs, is_coded);
  return found == op.inputs.end() ? nullptr : &block.tensors[*found];
}

/// LLM.int8(): no law of int8 products is measured. The forward's takes what one of 16-bit operands
/// does, whose peak rate is no higher, beside what quantising its input and scaling its result
/// writes and reads.
void run_in_int8(OpWork& work, const Bindings& sizes) {
  for (KernelShape& call : work.forward_calls) {
    auto* const product = std::get_if<MatmulShape>(&call);
    if (product == nullptr) continue;
    if (!is_half(product->operand)) product->operand = DType::fp16;
    product->result = product->operand;
  }
  StreamShape shape{.op = StreamOp::cast};
  shape.bytes = std::llround(work.forward.bytes - work.op->forward.bytes.bytes(sizes).as_double());
  put_first(work.forward_calls, {shape});
}

/// Before each product the weight is made from its codes, which are read, as everything on the way
/// is written and read; the weight itself the product reads. Where a kernel multiplies by the codes
/// themselves, it is bound by reading them if it has few rows (bitsandbytes' kernel without tensor
/// cores), and takes no longer than the product of a whole weight if it has more.
void add_dequantization(OpWork& work, const Tensor& codes, const Bindings& sizes) {
  const Op& op = *work.op;
  const double weight = static_cast<double>(value_of(codes.elements(), sizes)) *
                        static_cast<double>(size_of(op.compute));
  const double read = codes.bytes().bytes(sizes).as_double();
  const auto made = [&](const PassWork& pass, const Expr& own) {
    StreamShape shape{.op = StreamOp::cast};
    shape.bytes = std::llround(read + pass.bytes - own.bytes(sizes).as_double() - weight);
    return std::vector<KernelShape>{shape};
  };
  constexpr double kRowsWithoutTensorCores = 8;
  const double rows =
      work.forward.flops / (2 * static_cast<double>(value_of(codes.elements(), sizes)));
  if (codes.dtype == DType::int8) {
    run_in_int8(work, sizes);
  } else if (!op.forward_scratch.empty()) {
    put_first(work.forward_calls, made(work.forward, op.forward.bytes));
  } else if (rows < kRowsWithoutTensorCores) {
    add_stream(work.forward_calls, {.op = StreamOp::copy, .dtype = op.compute}, work.forward.bytes);
  }
  if (!work.backward_calls.empty()) {
    put_first(work.backward_calls, made(work.backward, op.backward.bytes));
  }
}

void add_products(OpWork& work, const Block& block, const Bindings& sizes, const Recipe& recipe) {
  if (product_flops(work) == 0) return;
  MatmulShape forward = forward_product(work, block, sizes, recipe);
  // One after another on equal parts of the rows.
  const std::int64_t kernels = work.op->kernels;
  forward.m = (forward.m + kernels - 1) / kernels;
  if (work.forward.flops > 0) {
    work.forward_calls.assign(static_cast<std::size_t>(kernels), forward);
    if (forward.cast_included) {
      work.forward_calls.insert(work.forward_calls.begin(), cast_of_weight(forward, recipe));
    }
  }
  add_backward_products(work, forward, trains_its_weight(*work.op, block));
  if (is_cast_beside(*work.op)) {
    add_operand_casts(work, sizes);
  } else if (work.op->compute == DType::fp8) {
    add_casts(work);
  }
  if (const Tensor* codes = codes_of(*work.op, block)) add_dequantization(work, *codes, sizes);
}

/// A ring whose merging is many kernels of the framework: what it makes on the way is written and
/// read once.
void add_written_sums(OpWork& work, const Bindings& sizes) {
  const Op& op = *work.op;
  const auto sums = [&](const PassWork& pass, const Expr& kernel) {
    StreamShape shape{.op = StreamOp::add, .dtype = DType::fp32};
    const double kernels_own = kernel.bytes(sizes).as_double();
    shape.bytes = std::llround((pass.bytes - kernels_own) / static_cast<double>(op.kernels));
    return std::vector<KernelShape>(static_cast<std::size_t>(op.kernels), shape);
  };
  put_first(work.forward_calls, sums(work.forward, op.forward.bytes));
  if (work.backward_calls.empty()) return;
  put_first(work.backward_calls, sums(work.backward, op.backward.bytes));
}

/// A ring adds every step's output to the sum in fp32, and its gradients to theirs as they are
/// (Transformer Engine 2.11, context_parallel.py: flash_attn_fwd_out_correction; dq, dkv).
void add_ring_sums(OpWork& work, const Block& block, const Bindings& sizes) {
  const Op& op = *work.op;
  if (op.kernels == 1) return;
  if (!op.forward_steps.empty()) return add_written_sums(work, sizes);
  const auto sum = [&](const std::vector<TensorId>& tensors, std::int64_t element_bytes) {
    StreamShape shape{.op = StreamOp::add, .dtype = op.compute};
    for (const TensorId id : tensors) {
      const std::int64_t elements = value_of(block.tensors[id].elements(), sizes);
      shape.bytes = checked_add(shape.bytes, checked_multiply(elements, element_bytes));
    }
    return std::vector<KernelShape>(static_cast<std::size_t>(op.kernels), shape);
  };
  const auto size = static_cast<std::int64_t>(size_of(op.compute));
  const auto wide = static_cast<std::int64_t>(size_of(DType::fp32));
  // Before the kernels: messages run beside the last calls.
  put_first(work.forward_calls, sum({op.outputs.front()}, size + 2 * wide));
  if (!work.backward_calls.empty()) put_first(work.backward_calls, sum(op.inputs, 3 * size));
}

void add_attention(OpWork& work, const Block& block, const Bindings& sizes,
                   AttentionKernel kernel) {
  if (work.forward.flops == 0) return;
  expect(work.op->inputs.size() >= 3, "fused attention reads queries, keys and values");
  const auto tensor = [&](std::size_t i) -> const Tensor& {
    return block.tensors[work.op->inputs[i]];
  };
  // The nearest law is asked of other kernels.
  const bool flash = work.op->flash_2 || kernel == AttentionKernel::flash_2;
  AttentionShape shape{.kernel = flash ? std::string(kFlashAttention2) : "",
                       .dtype = work.op->compute,
                       .causal = work.op->causal};
  shape.batch = sizes.at(Symbol::micro_batch);
  shape.seq_len = checked_multiply(sizes.at(Symbol::seq_len), work.op->parts);
  const auto width = [&](std::size_t i) { return value_of(tensor(i).shape.back(), sizes); };
  const auto heads = [&](std::size_t i, std::int64_t head_dim) {
    return value_of(tensor(i).elements(), sizes) / (shape.batch * shape.seq_len * head_dim);
  };
  shape.head_dim = width(0);
  shape.value_head_dim = width(2);
  // The tensors are a rank's own: with tensor parallelism of 4 the kernel sees a quarter of the
  // heads.
  shape.heads = heads(0, shape.head_dim);
  shape.kv_heads = std::max<std::int64_t>(heads(1, shape.head_dim), 1);
  if (const std::int64_t documents = work.op->documents; documents > 1) {
    shape.batch = checked_multiply(shape.batch, documents);
    shape.seq_len /= documents;
  }
  if (const std::int64_t own = 2 * work.op->window; own > 0 && own < shape.seq_len) {
    // As many scores as causal sequences of twice the window have: of 4096 tokens and a window of
    // 128, 16 of 256.
    shape.batch = checked_multiply(shape.batch, (shape.seq_len + own - 1) / own);
    shape.seq_len = own;
  }
  const auto kernels = static_cast<std::size_t>(work.op->kernels);
  work.forward_calls.assign(kernels, shape);
  if (work.backward.flops > 0) {
    shape.pass = KernelPass::backward;
    work.backward_calls.assign(kernels, shape);
  }
  add_ring_sums(work, block, sizes);
}

/// One query of a sequence over all cached keys: bound by reading keys and values, each once.
bool reads_cache(const Op& op, const Block& block) {
  return std::ranges::any_of(op.inputs, [&block](TensorId id) {
    return block.tensors[id].elements().uses(Symbol::cached_keys);
  });
}

/// A convolution as the product that it lowers to: for each group [pixels, taps] · [taps,
/// channels], with taps of kernel and input channels. One of each channel apart has so few that
/// memory bounds it. The lowered image itself is not written: the kernels gather it (implicit
/// GEMM). Windows that stand side by side have a weight of two dimensions, and one group.
void add_convolution(OpWork& work, const Block& block, const Bindings& sizes,
                     const Implementation& implementation) {
  const auto size = [&](TensorId id, std::size_t axis) {
    return value_of(block.tensors[id].shape[axis], sizes);
  };
  const TensorId image = work.op->inputs[0];
  const TensorId weight = work.op->inputs[1];
  const TensorId out = work.op->outputs.front();
  const std::int64_t rows = size(weight, 0);
  const std::int64_t each = size(weight, 1);
  // ConvTranspose2d's weight is [in, out / groups, ...], Conv2d's [out, in / groups, ...].
  const bool side_by_side = block.tensors[weight].shape.size() == 2;
  // Patches of an image lie as rows of a sequence, [b, patches, out].
  const bool as_rows = block.tensors[out].shape.size() == 3;
  const bool transposed = !as_rows && (size(out, 1) != rows || size(image, 1) % each != 0);
  const std::int64_t groups = side_by_side ? 1 : size(transposed ? out : image, 1) / each;
  if (groups > 1 && each == 1) return add_streams(work, block, sizes, implementation);
  MatmulShape product{.operand = work.op->compute, .result = block.tensors[out].dtype};
  product.n = rows / groups;
  product.k = value_of(block.tensors[weight].elements(), sizes) / rows;
  product.batch = groups;
  const double each_row = 2 * static_cast<double>(product.n) * static_cast<double>(product.k) *
                          static_cast<double>(product.batch);
  product.m = std::llround(product_flops(work) / each_row);
  work.forward_calls = {product};
  add_backward_products(work, product, trains_its_weight(*work.op, block));
}

}  // namespace

void add_calls(OpWork& work, const Block& block, const Bindings& sizes, const ForwardSpec& pass) {
  if (work.op->kind == OpKind::attention && reads_cache(*work.op, block)) {
    add_streams(work, block, sizes, pass.implementation);
  } else if (work.op->kind == OpKind::attention) {
    add_attention(work, block, sizes, pass.implementation.attention);
  } else if (work.op->kind == OpKind::convolution) {
    add_convolution(work, block, sizes, pass.implementation);
  } else if (class_of(work.op->kind) == OpClass::contraction) {
    add_products(work, block, sizes, pass.recipe);
  } else {
    add_streams(work, block, sizes, pass.implementation);
  }
}

}  // namespace memest
