// liger_kernel 0.8.5, ops/fused_linear_cross_entropy.py: output head, loss and both gradients.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/liger/liger.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// In how many parts the tokens go through the output head: so many that a part's logits are about
/// as large as the hidden states (fused_linear_cross_entropy_forward).
struct Chunks {
  std::int64_t tokens = 0;  ///< of each but the last
  std::int64_t count = 0;
  std::int64_t last = 0;
};

constexpr std::int64_t parts_of(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

Chunks chunks_of(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const std::int64_t tokens = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  const std::int64_t parts = parts_of(decoder.vocab_size, decoder.embedding_size);
  const auto power =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(parts_of(tokens, parts))));
  Chunks chunks;
  chunks.tokens = std::min(power, tokens);
  chunks.count = parts_of(tokens, chunks.tokens);
  chunks.last = tokens - (chunks.count - 1) * chunks.tokens;
  return chunks;
}

/// The output head, the loss and their gradients, part by part of the tokens.
class FusedLoss {
 public:
  FusedLoss(BlockBuilder& block, const DecoderContext& context, TensorId hidden)
      : block_(block),
        dims_(context.dims),
        chunks_(chunks_of(context)),
        hidden_(hidden),
        compute_(context.policy.autocast ? context.policy.compute : context.policy.weights),
        casts_(context.policy.autocast && context.policy.compute != context.policy.weights) {
    const bool tied = context.decoder.tied_embeddings;
    const Shape shape = {dims_.v, dims_.embedding};
    weight_ = tied ? block.tied_parameter({kName, "weight"}, shape)
                   : block.parameter({kName, "weight"}, shape);
    trains_ = block.needs_gradient(weight_);
  }

  TensorId write(TensorId targets) {
    Frame function(block_);
    of_hidden_ = function.local(zeros("gradient of the hidden states", block_.tensor(hidden_).shape,
                                      block_.dtype_of(hidden_)));
    std::vector<TensorId> inputs = {hidden_};
    if (trains_) inputs.push_back(weight_gradient());
    const TensorId losses = function.local(zeros("losses", dims_.rows(), DType::fp32));
    function.local(count_targets(targets));
    inputs.push_back(losses);
    if (casts_) {
      write_cast_products();
    } else {
      write_products();
    }
    return summed(inputs);
  }

 private:
  static constexpr std::string_view kName = "lm_head";

  TensorId zeros(std::string_view name, Shape shape, DType dtype) {
    return compute(block_, OpKind::copy, {}, {{kName, name}, std::move(shape), dtype});
  }

  /// Made with the forward and handed to the weight by the backward: of one node with the loss, as
  /// an operation of its own.
  TensorId weight_gradient() {
    // With accum_dtype=None the accumulator has the weight's type: 128256·4096·2 B = 1.05 GB in
    // bf16, from the loss's forward on.
    of_weight_ =
        zeros("gradient of the weight", block_.tensor(weight_).shape, block_.dtype_of(weight_));
    const TensorId kept = block_.alias({kName, "kept gradient"}, of_weight_, {Expr(1)});
    Op op;
    op.kind = OpKind::view;
    op.name = kName;
    op.inputs = {weight_};
    op.outputs = {kept};
    op.saved = {of_weight_};
    // Adopted by the first accumulation, and a tied table's look-up adds to it in place.
    op.gradients = {{weight_, InputGradient::kKept, Reach::directly}};
    block_.emit(std::move(op));
    return kept;
  }

  /// Targets that are not ignored: torch.sum of booleans sums them as integers of 64 bits.
  TensorId count_targets(TensorId targets) {
    const Shape tokens = dims_.rows();
    const auto make = [&](std::string_view name, TensorId from, Shape shape, DType dtype) {
      return compute(block_, OpKind::reduce, {from}, {{kName, name}, std::move(shape), dtype});
    };
    const TensorId mask = make("target mask", targets, tokens, DType::boolean);
    const TensorId count = make("targets counted", mask, {Expr(1)}, DType::int64);
    Op op;
    op.kind = OpKind::reduce;
    op.name = kName;
    op.inputs = {mask, count};
    op.outputs = {block_.make({kName, "target mask in int64"}, tokens, DType::int64)};
    op.forward_launches = {sum_of(op.outputs.front())};
    block_.emit(std::move(op));
    return mask;
  }

  KernelLaunch sum_of(TensorId x) const {
    KernelLaunch sum;
    sum.reduced = block_.tensor(x).elements();
    sum.dtype = block_.dtype_of(x);
    return sum;
  }

  Expr whole_flops() const { return Expr(2) * dims_.b * dims_.s * dims_.v * dims_.embedding; }

  Op product(const std::vector<TensorId>& inputs, TensorId output) const {
    Op op;
    op.kind = OpKind::linear;
    op.name = kName;
    op.compute = compute_;
    op.inputs = inputs;
    op.outputs = {output};
    op.workspace = Workspace::cublas;
    op.kernels = chunks_.count;
    return op;
  }

  TensorId alias(std::string_view name, TensorId of, Shape shape) {
    const TensorId id = block_.alias({kName, name}, of, std::move(shape));
    block_.tensor(id).role = Role::activation;  // of the weight too: it counts once
    block_.set_needs_gradient(id, false);
    return id;
  }

  void emit_forward(Op op) {
    const std::vector<TensorId> outputs = op.outputs;
    const bool multiplies = op.kind == OpKind::linear;
    block_.emit(std::move(op), {multiplies ? whole_flops() : Expr(), {}});
    for (const TensorId id : outputs) block_.set_needs_gradient(id, false);
  }

  /// liger_cross_entropy_kernel reads the logits for the sum of their exponentials and again for
  /// the gradient, which it writes in their place.
  void cross_entropy(TensorId logits) {
    const TensorId all = alias("all logits", logits, {dims_.b, dims_.s, dims_.v});
    Op op;
    op.kind = OpKind::cross_entropy;
    op.name = kName;
    op.inputs = {all, all};
    op.outputs = {alias("gradients of all logits", logits, {dims_.b, dims_.s, dims_.v})};
    emit_forward(std::move(op));
  }

  /// A part of the hidden states, as a product reads it: nothing is made.
  TensorId part_of_hidden() {
    return alias("part of the hidden states", of_hidden_, {Expr(chunks_.tokens), dims_.embedding});
  }

  Op product_of_hidden_gradient(TensorId logits, TensorId weight) {
    const Shape shape = block_.tensor(of_hidden_).shape;
    return product({logits, weight}, alias("products with the weight", of_hidden_, shape));
  }

  Op product_of_weight_gradient(TensorId logits) {
    const Shape shape = block_.tensor(weight_).shape;
    return product({logits, part_of_hidden()},
                   alias("products with the hidden states", of_weight_, shape));
  }

  /// Without a cast the products write where they are wanted; in fp32 that of the weight makes a
  /// matrix to be added.
  void write_products() {
    const TensorId logits =
        block_.make({kName, "logits"}, {Expr(chunks_.tokens), dims_.v}, compute_);
    emit_forward(product({hidden_, weight_}, logits));
    cross_entropy(logits);
    emit_forward(product_of_hidden_gradient(logits, weight_));
    if (!trains_) return;
    Op op = product_of_weight_gradient(logits);
    if (compute_ != DType::fp32) return emit_forward(std::move(op));
    const TensorId made = scratch(block_, {kName, "part of the weight's gradient"},
                                  block_.tensor(weight_).shape, DType::fp32);
    op.forward_scratch = {made};
    for (std::int64_t i = 0; i < chunks_.count; ++i) {
      op.forward_steps.push_back({StepKind::allocate, 0});
      op.forward_steps.push_back({StepKind::free, 0});
    }
    emit_forward(std::move(op));
    add_parts(made);
  }

  void add_parts(TensorId made) {
    const Shape every = {Expr(chunks_.count), dims_.v, dims_.embedding};
    Op op;
    op.kind = OpKind::add;
    op.name = kName;
    op.inputs = {alias("sum so far", of_weight_, every), alias("parts to add", made, every)};
    op.outputs = {alias("sum", of_weight_, every)};
    emit_forward(std::move(op));
  }

  /// Tensors that autocast makes for a part of so many tokens.
  struct CastPart {
    TensorId weight = 0;
    TensorId hidden = 0;
    TensorId logits = 0;
    TensorId frozen_weight = 0;  ///< for the second product
    TensorId product = 0;
    TensorId hidden_recast = 0;
  };

  /// Autocast casts the weight, seen transposed, and the hidden states for every part's logits;
  /// only the second product's weight is a leaf, whose copy it keeps.
  void write_cast_products() {
    const TensorId weight =
        scratch(block_, {kName, "cast weight, transposed"}, block_.tensor(weight_).shape, compute_);
    const CastPart first = cast_part(chunks_.tokens, weight);
    const TensorId logits =
        block_.make({kName, "logits"}, {Expr(chunks_.tokens), dims_.v}, compute_);
    Op op = product({hidden_, weight_}, logits);
    op.forward_scratch = {first.weight, first.hidden};
    emit_forward(std::move(op));
    cross_entropy(logits);
    cast_weights(weight);
    const TensorId cast = trains_ ? cast_kept() : weight_;
    op = product_of_hidden_gradient(logits, cast);
    Course course(op);
    add_gradients(course, first);
    emit_forward(std::move(op));
    op = trains_ ? product_of_weight_gradient(first.logits) : Op();
    op.name = kName;
    if (!trains_) op.kind = OpKind::view;
    Course rest(op);
    for (std::int64_t i = 1; i + 1 < chunks_.count; ++i) add_part(rest, first);
    if (chunks_.count > 1) {
      add_part(rest, chunks_.last == chunks_.tokens ? first : cast_part(chunks_.last, weight));
    }
    if (trains_ || chunks_.count > 1) emit_forward(std::move(op));
  }

  CastPart cast_part(std::int64_t tokens, TensorId weight) {
    const bool last = tokens != chunks_.tokens;
    const auto make = [&](std::string_view name, std::string_view of_last, const Expr& width) {
      return scratch(block_, {kName, last ? of_last : name}, {Expr(tokens), width}, compute_);
    };
    CastPart part;
    part.weight = weight;
    part.hidden = make("cast hidden states", "last cast hidden states", dims_.embedding);
    part.logits = make("part's logits", "last logits", dims_.v);
    part.product = make("part's product", "last product", dims_.embedding);
    part.hidden_recast =
        make("hidden states cast again", "last hidden states cast again", dims_.embedding);
    return part;
  }

  /// Scratch that comes and goes within an operation, by name.
  class Course {
   public:
    explicit Course(Op& op) : op_(op) {}
    void make(TensorId id) { add(StepKind::allocate, id); }
    void drop(TensorId id) { add(StepKind::free, id); }
    void pass(TensorId id) {
      make(id);
      drop(id);
    }

   private:
    void add(StepKind kind, TensorId id) {
      const auto known = std::ranges::find(op_.forward_scratch, id);
      const auto index = static_cast<std::uint8_t>(known - op_.forward_scratch.begin());
      if (known == op_.forward_scratch.end()) op_.forward_scratch.push_back(id);
      op_.forward_steps.push_back({kind, index});
    }
    Op& op_;
  };

  void add_gradients(Course& course, const CastPart& part) const {
    if (!trains_) course.make(part.weight);
    course.make(part.product);
    if (!trains_) course.drop(part.weight);
    course.drop(part.product);
    if (trains_) course.pass(part.hidden_recast);
  }

  void add_part(Course& course, const CastPart& part) const {
    for (const TensorId id : {part.weight, part.hidden, part.logits}) course.make(id);
    for (const TensorId id : {part.hidden, part.weight}) course.drop(id);
    add_gradients(course, part);
    course.drop(part.logits);
  }

  /// The traffic of the weight's casts, one for every part.
  void cast_weights(TensorId cast) {
    const Shape every = {Expr(chunks_.count), dims_.v, dims_.embedding};
    Op op;
    op.kind = OpKind::cast;
    op.name = kName;
    op.inputs = {alias("weight of every part", weight_, every)};
    op.outputs = {alias("cast weight of every part", cast, every)};
    emit_forward(std::move(op));
  }

  TensorId cast_kept() {
    const TensorId cast = block_.make({kName, "cast weight"}, block_.tensor(weight_).shape,
                                      compute_, Role::cast_parameter);
    Op op;
    op.kind = OpKind::cast;
    op.name = kName;
    op.inputs = {weight_};
    op.outputs = {cast};
    emit_forward(std::move(op));
    block_.hold_to_end(cast);  // autocast's cache holds it
    return cast;
  }

  /// The backward asks whether the loss's gradient is 1 (torch.equal) and answers what is there;
  /// else both gradients are multiplied in place.
  TensorId summed(const std::vector<TensorId>& inputs) {
    const TensorId loss = block_.make({kName, "loss"}, {Expr(1)}, DType::fp32);
    const TensorId flag = scratch(block_, {kName, "equal"}, {Expr(1)}, DType::boolean);
    Op op;
    op.kind = OpKind::reduce;
    op.name = kName;
    op.inputs = inputs;
    op.outputs = {loss};
    op.saved = {of_hidden_};
    op.forward_launches = {sum_of(inputs.back())};
    BackwardWriter backward(op);
    const auto one = backward.make(loss, DType::fp32);
    const auto equal = backward.make(flag, DType::boolean);
    backward.drop(backward.make(flag, DType::boolean));
    backward.drop(equal);
    backward.drop(one);
    backward.give_kept(hidden_);
    if (trains_) backward.hand_on(inputs[1]);
    block_.emit(std::move(op));
    return loss;
  }

  BlockBuilder& block_;
  const Dimensions& dims_;
  Chunks chunks_;
  TensorId hidden_;
  DType compute_;
  bool casts_;  ///< autocast: weights and hidden states are wider
  bool trains_ = false;
  TensorId weight_ = 0;
  TensorId of_hidden_ = 0;
  TensorId of_weight_ = 0;
};

}  // namespace

TensorId liger_loss(BlockBuilder& block, const DecoderContext& context, TensorId hidden,
                    TensorId targets) {
  return FusedLoss(block, context, hidden).write(targets);
}

}  // namespace memest
