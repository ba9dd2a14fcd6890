#include "graph/lower/flash_attn/flash_attn.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention_core.hpp"
#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/ops/indexing.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// Where documents begin, and the last ends, as TRL's collator sends it: one tensor for the queries
/// and one for the keys.
constexpr std::array<std::string_view, 2> kDocumentStarts = {"document starts of queries",
                                                             "document starts of keys"};

struct Documents {
  std::vector<TensorId> starts;  ///< of queries and of keys, or one tensor for both
  std::vector<TensorId> length;  ///< the greatest, where it is a tensor
};

/// As each layer finds them in the position ids where the batch does not say it
/// (prepare_fa_kwargs_from_position_ids). `caller` names the starts and the greatest length.
Documents documents_from_positions(BlockBuilder& block, const DecoderContext& context,
                                   Frame& caller) {
  constexpr std::string_view kName = "document_starts";
  const Expr s = context.dims.s;
  const Expr count = context.dims.documents;
  const auto numbers = [&](OpKind kind, std::vector<TensorId> read, std::string_view name,
                           Expr size) {
    return compute(block, kind, std::move(read), {{kName, name}, {std::move(size)}, DType::int32});
  };
  Frame function(block);
  const TensorId ids = block.shared("position ids", {s}, DType::int64);
  const TensorId first =
      compute(block, OpKind::reduce, {ids}, {{kName, "first position"}, {Expr(1)}, DType::int64});
  const TensorId begins =
      compute(block, OpKind::mask, {ids, first}, {{kName, "begins"}, {s}, DType::boolean});
  const TensorId places = function.local(places_of_flags(block, {kName, "places"}, begins, count));
  const TensorId narrow = numbers(OpKind::cast, {places}, "narrow places", count);
  const TensorId end = numbers(OpKind::copy, {}, "end", Expr(1));
  const TensorId starts =
      caller.local(numbers(OpKind::concatenate, {narrow, end}, "starts", count + Expr(1)));
  const TensorId lengths = numbers(OpKind::add, {starts}, "lengths", count);
  const TensorId greatest =
      caller.local(numbers(OpKind::reduce, {lengths}, "greatest length", Expr(1)));
  return {{starts}, {greatest}};
}

/// `x` with one token behind the other: a copy of heads that lie by themselves, and of a part of a
/// wider tensor (_prepare_from_posids: query.contiguous().view(-1, a, d)).
Heads by_tokens(BlockBuilder& block, std::string_view name, Heads x, std::int64_t heads) {
  const Tensor& tensor = block.tensor(x.id);
  const bool is_part = block.tensor(tensor.storage).elements() != tensor.elements();
  if (!is_part && (!x.packed || heads == 1)) return x;
  return {core_copy(block, {name}, x.id, {tensor.shape, block.dtype_of(x.id)})};
}

Documents documents_of(BlockBuilder& block, const DecoderContext& context, AttentionInputs& inputs,
                       Frame& caller) {
  if (!context.joins_sequences()) return {};
  if (!row_of(context.policy.implementation.loop).sends_documents) {
    const SoftmaxAttention& spec = context.attention;
    inputs.q = by_tokens(block, "q_by_tokens", inputs.q, spec.heads);
    inputs.k = by_tokens(block, "k_by_tokens", inputs.k, spec.kv_heads);
    inputs.v = by_tokens(block, "v_by_tokens", inputs.v, spec.kv_heads);
    return documents_from_positions(block, context, caller);
  }
  Documents documents;
  for (const std::string_view name : kDocumentStarts) {
    documents.starts.push_back(
        block.shared(name, {context.dims.documents + Expr(1)}, DType::int32));
  }
  return documents;
}

/// Whether position ids begin anew within the sequence, which every layer asks
/// (_is_packed_sequence). One sequence's answer is a tensor, which `caller` names.
void find_packed_in_layer(BlockBuilder& block, const DecoderContext& context, Frame& caller) {
  if (context.habits.hides_positions) return;
  constexpr std::string_view kName = "packed_sequences";
  const Expr s = context.dims.s;
  const auto make = [&](OpKind kind, std::vector<TensorId> read, std::string_view name,
                        Shape shape) {
    return compute(block, kind, std::move(read), {{kName, name}, std::move(shape), DType::int64});
  };
  Frame function(block);
  const TensorId ids = block.shared("position ids", {s}, DType::int64);
  const TensorId counts = make(OpKind::copy, {}, "counted", {s});
  const TensorId first = make(OpKind::reduce, {ids}, "first", {Expr(1)});
  const TensorId wanted =
      function.local(make(OpKind::add, {counts, first}, "as one sequence", {s}));
  // `batch_size == 1 and ...` reads no further.
  if (context.policy.micro_batch > 1) return;
  const TensorId gaps = make(OpKind::add, {wanted, ids}, "gaps", {s});
  const TensorId sizes = make(OpKind::activation, {gaps}, "sizes of gaps", {s});
  const TensorId sum = make(OpKind::reduce, {sizes}, "sum", {Expr(1)});
  caller.local(compute(block, OpKind::mask, {sum}, {{kName, "any"}, {Expr(1)}, DType::boolean}));
}

/// FlashAttnFunc, or of joined sequences FlashAttnVarlenFunc, and its backward.
class FlashAttnFunction {
 public:
  FlashAttnFunction(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call)
      : block_(block), context_(context), call_(call), dims_(context.dims) {}

  TensorId write(const AttentionInputs& inputs, Documents documents) {
    op_.kind = OpKind::attention;
    op_.name = "attention";
    op_.compute = call_.dtype;
    op_.part_of.attention_core = true;
    op_.causal = true;
    op_.flash_2 = true;
    op_.saves_behind = true;
    op_.documents = joins() ? context_.policy.joined->documents : 1;
    const std::int64_t length = document_length();
    if (call_.window < length) op_.window = call_.window;
    op_.inputs = {inputs.q.id, inputs.k.id, inputs.v.id};
    const TensorId out = block_.make({"attention"}, block_.tensor(inputs.q.id).shape, call_.dtype);
    write_outputs(out);
    const std::vector<TensorId>& starts = documents.starts;
    op_.inputs.insert(op_.inputs.end(), starts.begin(), starts.end());
    op_.saved.insert(op_.saved.end(), starts.begin(), starts.end());
    op_.named_by_node = std::move(documents.length);  // ctx.max_seqlen_q
    name_transposed(inputs, out);
    write_backward();
    const Expr scores = score_flops(dims_) * seen(length);
    const Expr values = value_flops(dims_) * seen(length);
    // Backward: the scores again, then gradients of values, scores, queries and keys.
    block_.emit(std::move(op_), {scores + values, Expr(3) * scores + Expr(2) * values});
    return out;
  }

 private:
  [[nodiscard]] bool joins() const { return context_.joins_sequences(); }
  [[nodiscard]] std::int64_t document_length() const {
    const LoweringPolicy& policy = context_.policy;
    return joins() ? policy.seq_len / (policy.joined->sequences * policy.joined->documents)
                   : policy.seq_len;
  }

  /// The part of all tokens' scores that documents of `length` have: of a causal window of w
  /// within one w·(2·length − w).
  [[nodiscard]] Expr seen(std::int64_t length) const {
    const Expr of_documents = joins() ? Expr(1) / dims_.documents : Expr(1);
    if (op_.window == 0) return of_documents;
    const Expr w(op_.window);
    return w * Expr(2 * length - op_.window) / Expr(checked_multiply(length, length)) *
           of_documents;
  }

  TensorId make(std::string_view name, Shape shape, DType dtype) {
    return block_.make({"attention", name}, std::move(shape), dtype);
  }

  // mha_fwd and mha_varlen_fwd (flash_api.cpp): log-sum-exp, partial results where keys are split,
  // which those of several documents are not, and the generator's state, with dropout or without.
  void write_outputs(TensorId out) {
    const TensorId sums = make("log-sum-exp", {dims_.b, dims_.a, dims_.s}, DType::fp32);
    op_.outputs = {out, sums};
    if (call_.dropout <= 0 && !joins()) append_splits();
    const TensorId state = make("generator's state", {Expr(2)}, DType::int64);
    op_.outputs.push_back(state);
    op_.saved = op_.inputs;
    op_.saved.insert(op_.saved.end(), {out, sums, state});
  }

  void append_splits() {
    const std::int64_t splits = flash_splits(context_);
    if (splits == 1) return;
    const Shape rows = {Expr(splits), dims_.b, dims_.a, dims_.s};
    Shape partial = rows;
    partial.push_back(accumulated_width(dims_, context_.attention.head_dim));
    op_.outputs.push_back(make("partial log-sum-exp", rows, DType::fp32));
    op_.outputs.push_back(make("partial outputs", std::move(partial), DType::fp32));
  }

  /// The function saves [b, s, a, d], of which heads that lie by themselves are a view.
  void name_transposed(const AttentionInputs& inputs, TensorId out) {
    const SoftmaxAttention& spec = context_.attention;
    const auto add = [&](TensorId id, bool by_heads, std::int64_t heads) {
      if (by_heads && heads > 1 && context_.policy.seq_len > 1) op_.transposed.push_back(id);
    };
    add(inputs.q.id, inputs.q.packed, spec.heads);
    add(inputs.k.id, inputs.k.packed, spec.kv_heads);
    add(inputs.v.id, inputs.v.packed, spec.kv_heads);
    add(out, inputs.q.packed, spec.heads);
  }

  // dq, dk, dv = torch.empty_like(q), ... before the kernel is called.
  void write_backward() {
    BackwardWriter backward(op_);
    std::array<BackwardWriter::Made, 3> gradients{};
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = backward.make(op_.inputs[i], call_.dtype);
    }
    FusedCore core{dims_, context_.attention.head_dim, call_.dtype, call_.grouped};
    // mha_varlen_bwd: documents accumulate 128 rows apart.
    if (joins()) core.rows = dims_.s + Expr(128) * dims_.documents;
    flash_backward(block_, core, backward);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      backward.give(op_.inputs[i], gradients[i], Reach::through_view);
    }
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const AttentionCall& call_;
  const Dimensions& dims_;
  Op op_;
};

}  // namespace

// flash_api.cpp, mha_fwd: 16 bits, Ampere and newer, heads of 256 channels at most.
std::optional<Unavailable> package_refusal(const DecoderContext& context,
                                           const AttentionCall& call) {
  constexpr std::int64_t kWidest = 256;
  const LoweringPolicy& policy = context.policy;
  const std::int64_t head_dim = context.attention.head_dim;
  struct Asked {
    bool asked;
    const char* sentence;
  };
  const std::array<Asked, 12> asked = {
      Asked{!context.program.has.flash_attn,
            "the flash-attn package is available in the implementations transformers and megatron"},
      Asked{context.habits.eager_only || call.mask_by_head,
            "transformers does not run this model's attention by the flash-attn package"},
      Asked{!is_half(call.dtype), "the flash-attn package takes 16-bit types only"},
      Asked{policy.capability < kAmpere,
            "the flash-attn package takes GPUs of the Ampere generation and newer"},
      Asked{head_dim > kWidest, "the flash-attn package takes heads of 256 channels at most"},
      Asked{head_dim % 8 != 0 || call.value_dim,
            "heads that are padded for the flash-attn package are not available yet"},
      Asked{context.vision != nullptr,
            "images beside the flash-attn package are not available yet"},
      Asked{policy.joined && context.habits.hides_positions,
            "this model's attention is not told where documents begin: 'padding_free' is not "
            "available"},
      Asked{policy.joined && context.habits.positions_from_mask,
            "joined sequences of a model that counts positions along a mask are not available yet"},
      Asked{policy.joined && context.virtual_tokens() > 0,
            "prompts of an adapter before joined sequences are not available"},
      Asked{policy.context > 1, "context parallelism of the flash-attn package is not available"},
      Asked{policy.unpacks_by_rows(),
            "saved tensors in page-locked memory are not followed through the flash-attn package; "
            "leave 'pin_memory' out"}};
  const auto* first = std::ranges::find_if(asked, &Asked::asked);
  if (first == asked.end()) return std::nullopt;
  return Unavailable{first->sentence};
}

// query.to(target_dtype), then key and value.
AttentionInputs cast_for_package(BlockBuilder& block, const DecoderContext& context,
                                 const AttentionInputs& inputs) {
  const Heads q = cast_heads(block, context, "q_operand", inputs.q);
  const Heads k = cast_heads(block, context, "k_operand", inputs.k);
  return {q, k, cast_heads(block, context, "v_operand", inputs.v)};
}

TensorId package_attention(BlockBuilder& block, const DecoderContext& context,
                           const AttentionCall& call, AttentionInputs inputs) {
  const Dimensions& dims = context.dims;
  TensorId out = 0;
  {
    Frame function(block);
    const AttentionInputs given = inputs;
    inputs = cast_for_package(block, context, given);
    if (inputs.q.id != given.q.id) function.local(inputs.q.id);
    if (inputs.k.id != given.k.id) function.local(inputs.k.id);
    if (inputs.v.id != given.v.id) function.local(inputs.v.id);
    find_packed_in_layer(block, context, function);
    Documents documents = documents_of(block, context, inputs, function);
    out = FlashAttnFunction(block, context, call).write(inputs, std::move(documents));
  }
  // attn_output.reshape(*input_shape, -1).contiguous(): the output lies as the queries do
  // (empty_like).
  const Shape joined = {dims.b, dims.s, dims.a * dims.d};
  if (inputs.q.packed && context.attention.heads > 1) {
    return copy(block, {"join_heads"}, out, joined);
  }
  return view(block, {"attention", "joined"}, out, joined);
}

}  // namespace memest
