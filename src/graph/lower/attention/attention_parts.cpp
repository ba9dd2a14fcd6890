// Attention of a packed sequence, a call for each of its parts (transformers 5.17,
// models/qwen2_vl/modeling_qwen2_vl.py, VisionAttention.forward without flash-attn's own package).
#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/numbers.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

class PartsWriter {
 public:
  PartsWriter(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind)
      : block_(block), context_(context), kind_(kind), parts_(*context.parts) {}

  TensorId write(const AttentionInputs& inputs, Frame& function) {
    write_lengths(function);
    const std::vector<TensorId> q = cut("q_parts", inputs.q.id);
    const std::vector<TensorId> k = cut("k_parts", inputs.k.id);
    const std::vector<TensorId> v = cut("v_parts", inputs.v.id);
    std::vector<TensorId> mixed;
    TensorId last = v.back();
    for (std::size_t i = 0; i < parts_.lengths.size(); ++i) {
      const std::size_t first_op = block_.ops().size();
      const TensorId one = attend(parts_.lengths[i], {{q[i]}, {k[i]}, {v[i]}});
      const Numbers numbers = Numbers::of_length(parts_.lengths[i]);
      for (TensorId id = last + 1; id <= one; ++id) numbers.put(block_.tensor(id));
      for (std::size_t op = first_op; op < block_.ops().size(); ++op) numbers.put(block_.ops()[op]);
      mixed.push_back(function.local(one));
      last = one;
    }
    const Dimensions& dims = context_.dims;
    Shape joined = dims.rows();
    joined.push_back(dims.a * dims.value);
    return concatenate(block_, {"attention", "parts joined"}, {std::move(mixed)},
                       std::move(joined));
  }

 private:
  /// cu_seqlens[1:] - cu_seqlens[:-1]
  void write_lengths(Frame& function) {
    const Expr count(static_cast<std::int64_t>(parts_.lengths.size()));
    const TensorId bounds = block_.shared(parts_.bounds, {count + Expr(1)}, DType::int32);
    function.local(
        compute(block_, OpKind::add, {bounds}, {{"attention", "lengths"}, {count}, DType::int32}));
  }

  std::vector<TensorId> cut(std::string_view name, TensorId x) {
    std::vector<SplitPart> parts;
    for (const std::int64_t length : parts_.lengths) {
      parts.push_back({{name, "part"}, {Expr(1), Expr(length), context_.dims.a, context_.dims.d}});
    }
    return split(block_, name, x, parts);
  }

  TensorId attend(std::int64_t length, const AttentionInputs& inputs) {
    LoweringPolicy policy = context_.policy;
    policy.micro_batch = 1;
    policy.seq_len = length;
    Dimensions dims = context_.dims;
    dims.packed = false;
    dims.b = Expr(1);
    dims.s = dims.stream_s = dims.keys = Expr(length);
    const DecoderContext part{context_.decoder, policy, context_.program,
                              context_.habits,  dims,   context_.names};
    return mixed_values(block_, part, attention_call(part, kind_), inputs);
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const LayerKind& kind_;
  const AttentionParts& parts_;
};

}  // namespace

TensorId attention_by_parts(BlockBuilder& block, const RotaryCall& call,
                            const AttentionInputs& inputs) {
  return PartsWriter(block, call.context, call.kind).write(inputs, call.attention);
}

}  // namespace memest
