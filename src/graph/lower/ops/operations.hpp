// The operations that every family is written in, each with its autograd rule (what PyTorch's
// derivatives.yaml saves and makes) and autocast's casts. A function emits its ops and answers the
// output.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"
#include "graph/lower/ops/habits.hpp"
#include "memest/spec/decoder.hpp"

namespace memest {

/// `x` in `dtype`: itself, or a copy.
TensorId cast(BlockBuilder& block, Place place, TensorId x, DType dtype);
/// `x` as a contraction takes it: under autocast in the compute type, a copy for every consumer.
TensorId to_compute(BlockBuilder& block, std::string_view op, TensorId x);
/// A parameter as a contraction reads it: under autocast a copy in the compute type that autocast
/// keeps for the whole forward where it is `cached`.
TensorId parameter_in_compute(BlockBuilder& block, Place place, TensorId parameter,
                              bool cached = true);

/// A matrix product with a parameter of [out, in].
struct Projection2d {
  std::string_view name;
  Expr in;
  Expr out;
  bool bias = false;
  bool tied = false;  ///< the weight belongs to another block
  BiasCall bias_call = BiasCall::last_argument;
  Shape scattered_to = {};  ///< rows of the output where it is scattered after the product
  bool whole = false;       ///< trained in full though all else is frozen
  /// The output's gradient is one number seen everywhere, which a product reads through a copy.
  bool gradient_is_number = false;
};
/// The rows that a product multiplies: `x` of `shape` + [in], whose result is of `shape` + [out].
/// `shape` may be more than x's own where x is gathered first.
struct Rows {
  Shape shape;
  TensorId x = 0;
};
TensorId linear(BlockBuilder& block, const Projection2d& shape, const Rows& rows);

/// The parameters of a product: what it multiplies by and adds.
struct Factors {
  TensorId weight = 0;
  std::optional<TensorId> bias = {};
};
/// As above, with parameters that are there.
TensorId product_with(BlockBuilder& block, const Projection2d& shape, const Factors& factors,
                      const Rows& rows);

/// Element by element; the narrower operand is broadcast and its gradient summed.
TensorId add(BlockBuilder& block, Place place, TensorId left, TensorId right);
TensorId subtract(BlockBuilder& block, Place place, TensorId left, TensorId right);
TensorId multiply(BlockBuilder& block, Place place, TensorId left, TensorId right);
/// `x` and a Python number: nothing is kept.
TensorId scale(BlockBuilder& block, Place place, TensorId x);
TensorId add_number(BlockBuilder& block, Place place, TensorId x);
TensorId add_number_in_place(BlockBuilder& block, Place place, TensorId x);
/// `x` to the power of a number: keeps x.
TensorId power(BlockBuilder& block, Place place, TensorId x);
/// 1/√x: keeps its result.
TensorId reciprocal_root(BlockBuilder& block, Place place, TensorId x);
/// The mean over the last dimension, which stays with size 1.
TensorId mean_of_rows(BlockBuilder& block, Place place, TensorId x);
/// All elements as one number, in the type of `x`.
TensorId sum_of_all(BlockBuilder& block, Place place, TensorId x);
/// An element-wise function whose backward is one kernel.
enum class Keeps { nothing, input, result };
TensorId function(BlockBuilder& block, Place place, Keeps keeps, TensorId x);

/// Another shape of the same storage.
TensorId view(BlockBuilder& block, Place place, TensorId x, Shape shape);
/// Gives the same tensor a node of its own, which hands the sum of its gradients on.
TensorId same(BlockBuilder& block, Place place, TensorId x);
/// As view(), where the gradient cannot be seen in the old shape and is copied.
TensorId view_copied_back(BlockBuilder& block, Place place, TensorId x, Shape shape);
/// A part of `x`: its gradient is a zero tensor of the whole, filled in part.
TensorId slice(BlockBuilder& block, Place place, TensorId x, Shape shape);
/// Parts of `x` along a dimension; their gradients are joined by one copy.
struct SplitPart {
  Place place;
  Shape shape;
};
std::vector<TensorId> split(BlockBuilder& block, std::string_view name, TensorId x,
                            const std::vector<SplitPart>& parts);
/// Tensors that are joined along a dimension, and with them an empty one of type `empty`.
struct Joint {
  std::vector<TensorId> parts;
  std::optional<DType> empty = {};
  Reach reach = Reach::through_view;  ///< directly: parts of the joint that lie as they did
};
/// The parts joined; their gradients are views.
TensorId concatenate(BlockBuilder& block, Place place, const Joint& joint, Shape shape);
/// `x` written out in another shape or order.
TensorId copy(BlockBuilder& block, Place place, TensorId x, Shape shape);

/// A copy in which each of `outer` rows of `inner` elements stands `times` times.
struct Repeats {
  Shape shape;  ///< of the copy
  Expr outer;
  Expr times;
  Expr inner;
};
/// `x` written out so; the gradients of its repeats are summed.
TensorId repeated_copy(BlockBuilder& block, std::string_view name, TensorId x,
                       const Repeats& repeats);

/// The tensor that a computation without gradient makes.
struct Made {
  Place place;
  Shape shape;
  DType dtype = DType::fp32;
};
/// A computation of `kind` without gradient: ids, masks, tables.
TensorId compute(BlockBuilder& block, OpKind kind, const std::vector<TensorId>& inputs,
                 const Made& made);

/// cap·tanh(x/cap): the hyperbolic tangent is kept.
TensorId softcap(BlockBuilder& block, std::string_view name, TensorId x);
/// `x` with each element zeroed with `probability`; `x` itself for 0.
TensorId dropout(BlockBuilder& block, std::string_view name, double probability, TensorId x);

/// How the activation functions of several kernels are written.
enum class ActivationWriting {
  one_kernel,
  python  ///< gelu_new, gelu_fast and quick_gelu op by op
};
struct ActivationPart {
  std::string_view name;
  ActivationFunction function = ActivationFunction::gelu;
  ActivationWriting writing = ActivationWriting::one_kernel;
};
TensorId activation(BlockBuilder& block, const ActivationPart& part, TensorId x);

/// layer_norm or rms_norm as one kernel.
struct NormKernelPart {
  std::string_view name;
  bool rms = false;
  std::optional<TensorId> gain = {};
  std::optional<TensorId> bias = {};
  bool keeps_statistics = true;
  bool transposed = false;  ///< x lies in another order and is copied first
};
TensorId normalize(BlockBuilder& block, const NormKernelPart& part, TensorId x);

/// Softmax over the last dimension in `dtype`, unless the kernel itself widens: keeps its result.
TensorId softmax(BlockBuilder& block, std::string_view name, TensorId x, DType dtype);

/// Over the last dimension, or the channels of images: keeps its result.
TensorId log_softmax(BlockBuilder& block, std::string_view name, TensorId scores);
/// The mean of the negative logarithms at `targets`: keeps both, and the weight.
TensorId negative_likelihood(BlockBuilder& block, TensorId log_probabilities, TensorId targets);
/// As above, a number for each of the `rows`.
TensorId negative_likelihoods(BlockBuilder& block, TensorId log_probabilities, TensorId targets);

/// A table look-up: keeps the indices.
struct LookUp {
  TensorId indices = 0;
  TensorId table = 0;
  std::int64_t count = 0;  ///< of indices
  std::int64_t table_rows = 0;
  bool gradient_is_transposed = false;  ///< it lies in another order and is copied first
  bool indices_repeat = false;          ///< one row seen as many: both passes write it out
};
TensorId look_up(BlockBuilder& block, std::string_view name, const LookUp& part);
/// The backward of a look-up, which makes a gradient of the table like `gradient`.
void write_table_gradient(BlockBuilder& block, const LookUp& part, TensorId gradient, Op& op);

/// A tensor that lives within one pass of one op.
TensorId scratch(BlockBuilder& block, Place place, Shape shape, DType dtype);

/// The wider of two floating types, as PyTorch promotes.
DType promoted(DType left, DType right);

/// The sum of a tensor of shape `whole` to the shape `part`, aligned at the last dimension.
KernelLaunch sum_between(const Shape& whole, const Shape& part, DType dtype);

/// The gradient `made` of `input`, which has the shape and type of the op's output, as the engine
/// hands it on: summed where the input was broadcast, cast where it is of another type.
void give_settled(BlockBuilder& block, BackwardWriter& backward, TensorId input,
                  BackwardWriter::Made made);

}  // namespace memest
