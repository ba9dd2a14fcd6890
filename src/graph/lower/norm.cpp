#include <utility>

#include "decoder_context.hpp"
#include "operations.hpp"

namespace memest {
namespace {

NormWriting writing_of(const DecoderContext& context, NormKind kind) {
  const Implementation& implementation = context.policy.implementation;
  if (context.textbook()) return NormWriting::textbook;
  if (!context.transformers() || implementation.norm == NormKernel::fused) {
    return NormWriting::fused;
  }
  return kind == NormKind::rmsnorm ? context.habits.rms_norm : context.habits.layer_norm;
}

/// One normalization being written: `x` as the kernel reads it, and its op.
class NormWriter {
 public:
  NormWriter(BlockBuilder& block, const NormPart& part, TensorId x)
      : block_(block), part_(part), x_(x), rows_(block.tensor(x).shape) {
    rows_.back() = Expr(1);
    op_.kind = part.kind.kind == NormKind::rmsnorm ? OpKind::rmsnorm : OpKind::layernorm;
    op_.name = part.name;
  }

  TensorId write(NormWriting writing) {
    const DType given = block_.dtype_of(x_);
    switch (writing) {
      case NormWriting::textbook:
        keep_input(x_);
        return finish(given);
      case NormWriting::fused:
        // Autocast runs layer_norm in fp32 and leaves rms_norm alone.
        keep_input(block_.precision().autocast && op_.kind == OpKind::layernorm ? upcast() : x_);
        keep_statistics();
        return finish(block_.dtype_of(op_.inputs[0]));
      case NormWriting::fp32:
        keep_input(upcast());
        keep_statistics();
        return cast(block_, {part_.name}, finish(DType::fp32), given);
      case NormWriting::python_layer:
        write_python_layer();
        return cast(block_, {part_.name}, finish(DType::fp32), given);
      case NormWriting::cast_then_gain:
        keep_input(upcast());
        keep_row("reciprocal rms");
        scratch_like_input("normalized in fp32");
        if (has_gain()) keep_like_input("normalized", given);
        return finish(promoted(given, block_.precision().weights));
      case NormWriting::one_plus_fused:
        keep_input(to_compute(block_, part_.name, x_));
        keep("1 + gain", part_.gain, block_.dtype_of(op_.inputs[0]));
        if (part_.kind.bias && block_.precision().autocast) {
          keep("cast bias", part_.gain, block_.precision().compute);
        }
        keep_statistics();
        return finish(block_.dtype_of(op_.inputs[0]));
      case NormWriting::gain_then_cast:
      case NormWriting::one_plus_gain:
        keep_input(upcast());
        keep_row("reciprocal rms");
        if (writing == NormWriting::one_plus_gain) keep("1 + gain", part_.gain, DType::fp32);
        if (has_gain()) keep_like_input("normalized", DType::fp32);
        return cast(block_, {part_.name}, finish(DType::fp32), given);
    }
    return x_;
  }

 private:
  bool has_gain() const { return part_.kind.gain != NormGain::none; }

  TensorId upcast() { return cast(block_, {part_.name, "in fp32"}, x_, DType::fp32); }

  void keep_input(TensorId input) {
    op_.inputs.push_back(input);
    op_.saved.push_back(input);
  }

  void keep(std::string_view name, Shape shape, DType dtype) {
    const TensorId id = block_.make({part_.name, name}, std::move(shape), dtype);
    op_.outputs.push_back(id);
    op_.saved.push_back(id);
  }

  void keep_row(std::string_view name) { keep(name, rows_, DType::fp32); }

  void keep_like_input(std::string_view name, DType dtype) {
    keep(name, block_.tensor(x_).shape, dtype);
  }

  void scratch_like_input(std::string_view name) {
    op_.forward_scratch.push_back(
        scratch(block_, {part_.name, name}, block_.tensor(x_).shape, DType::fp32));
  }

  void keep_statistics() {
    if (op_.kind == OpKind::layernorm) keep_row("mean");
    keep_row("reciprocal deviation");
  }

  /// (x - mean) twice, for the variance and for the product, and the normalized rows for the gain.
  void write_python_layer() {
    op_.inputs.push_back(upcast());
    keep_like_input("centered for the variance", DType::fp32);
    keep_row("reciprocal deviation");
    keep_like_input("centered", DType::fp32);
    if (!has_gain()) return;
    keep_like_input("normalized", DType::fp32);
    if (block_.precision().weights != DType::fp32) keep("gain in fp32", part_.gain, DType::fp32);
  }

  TensorId finish(DType dtype) {
    if (has_gain()) {
      op_.inputs.push_back(block_.parameter({part_.name, "weight"}, part_.gain));
      op_.saved.push_back(op_.inputs.back());
      if (part_.kind.bias) op_.inputs.push_back(block_.parameter({part_.name, "bias"}, part_.gain));
    }
    const TensorId out = block_.make({part_.name}, block_.tensor(x_).shape, dtype);
    op_.outputs.insert(op_.outputs.begin(), out);
    block_.emit(std::move(op_));
    return out;
  }

  BlockBuilder& block_;
  const NormPart& part_;
  TensorId x_;
  Shape rows_;
  Op op_;
};

}  // namespace

TensorId norm(BlockBuilder& block, const DecoderContext& context, const NormPart& part,
              TensorId x) {
  return NormWriter(block, part, x).write(writing_of(context, part.kind.kind));
}

}  // namespace memest
