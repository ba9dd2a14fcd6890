#include <optional>
#include <utility>

#include "graph/lower/liger/liger.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

NormWriting writing_of(const DecoderContext& context, NormKind kind) {
  const NormWriting habit =
      kind == NormKind::rmsnorm ? context.habits.rms_norm : context.habits.layer_norm;
  const bool chosen = context.policy.implementation.norm == NormKernel::fused;
  return chosen && habit != NormWriting::textbook ? NormWriting::fused : habit;
}

/// One normalization being written, its parts named after it.
class NormWriter {
 public:
  /// `on_shards`: of the sequence, whose gradients of the gain are partial sums.
  NormWriter(BlockBuilder& block, const NormPart& part, TensorId x, bool on_shards)
      : block_(block), part_(part), x_(x), given_(block.dtype_of(x)), on_shards_(on_shards) {}

  TensorId write(NormWriting writing) {
    switch (writing) {
      case NormWriting::textbook:
        return kernel(x_, affine(), Statistics::none);
      case NormWriting::fused:
        // Autocast runs layer_norm in fp32 and leaves rms_norm alone.
        // autocast_mode.h: AT_FORALL_FP32 names layer_norm and native_layer_norm, no list names
        // rms_norm.
        return block_.precision().autocast && !is_rms() ? autocast_kernel()
                                                        : kernel(x_, affine(), Statistics::kept);
      // OlmoLayerNorm: F.layer_norm(x.to(float32), shape, None, None).to(orig_dtype).
      case NormWriting::fp32:
        return cast(block_, at("out"), kernel(in_fp32(x_), affine(), Statistics::kept), given_);
      case NormWriting::one_plus_fused:
        // NemotronLayerNorm1P: _cast_if_autocast_enabled(x, weight + 1.0, bias), then F.layer_norm
        // with autocast off.
        return one_plus_fused();
      case NormWriting::python_layer:
        // CohereLayerNorm, which has no fused kernel.
        return python_layer();
      case NormWriting::cast_then_gain:
        // LlamaRMSNorm: self.weight * hidden_states.to(input_dtype): the product keeps 16-bit rows.
        return cast_then_gain();
      case NormWriting::gain_then_cast:
        // Olmo2RMSNorm: (self.weight * hidden_states).to(input_dtype): the product keeps fp32 rows,
        // twice as large.
        return gain_then_cast();
      case NormWriting::wide_gain:
        // litgpt's RMSNorm: (x_normed * weight.float()).to(dtype).
        return wide_gain();
      case NormWriting::one_plus_gain:
        // GemmaRMSNorm: output · (1.0 + weight.float()), then type_as(x).
        return one_plus_gain();
      case NormWriting::called_in_fp32:
        // torchtune's RMSNorm: F.rms_norm(x.float(), weight=scale).to(x.dtype).
        return called_in_fp32();
    }
    return x_;
  }

 private:
  enum class Statistics { none, kept };

  [[nodiscard]] bool is_rms() const { return part_.kind.kind == NormKind::rmsnorm; }
  [[nodiscard]] bool has_gain() const { return part_.kind.gain != NormGain::none; }
  [[nodiscard]] Place at(std::string_view name) const { return {part_.name, name}; }

  TensorId in_fp32(TensorId x) { return cast(block_, at("in fp32"), x, DType::fp32); }
  struct Affine {
    std::optional<TensorId> gain;
    std::optional<TensorId> bias;
  };
  Affine affine() {
    Affine result;
    if (!has_gain()) return result;
    result.gain = block_.parameter(at("weight"), part_.gain);
    block_.tensor(*result.gain).gradient_is_relaid = on_shards_;
    if (part_.kind.bias) result.bias = block_.parameter(at("bias"), part_.gain);
    return result;
  }

  /// Runs the kernel with all arguments in fp32, cast from the last to the first.
  TensorId autocast_kernel() {
    Affine wide = affine();
    if (wide.bias) wide.bias = cast(block_, at("bias in fp32"), *wide.bias, DType::fp32);
    if (wide.gain) wide.gain = cast(block_, at("weight in fp32"), *wide.gain, DType::fp32);
    return kernel(in_fp32(x_), wide, Statistics::kept);
  }

  TensorId kernel(TensorId x, const Affine& affine, Statistics statistics) {
    return memest::normalize(block_,
                             {part_.name, is_rms(), affine.gain, affine.bias,
                              statistics == Statistics::kept, part_.transposed},
                             x);
  }

  /// x·rsqrt(mean(x²) + ε).
  TensorId over_rms(TensorId x, Frame& frame, bool names_variance) {
    const TensorId variance = mean_of_rows(block_, at("variance"), power(block_, at("square"), x));
    if (names_variance) frame.local(variance);
    const TensorId root = reciprocal_root(block_, at("reciprocal rms"),
                                          add_number(block_, at("variance + epsilon"), variance));
    return multiply(block_, at("normalized in fp32"), x, root);
  }

  TensorId times_gain(TensorId x) {
    if (!has_gain()) return x;
    const TensorId scaled =
        multiply(block_, at("scaled"), block_.parameter(at("weight"), part_.gain), x);
    if (!part_.kind.bias) return scaled;
    return add(block_, at("out"), scaled, block_.parameter(at("bias"), part_.gain));
  }

  /// The argument, the variance and the normalized rows are locals of the function.
  TensorId normalized_in_fp32(Frame& frame) {
    frame.local(x_);
    return frame.local(over_rms(in_fp32(x_), frame, true));
  }

  TensorId cast_then_gain() {
    Frame frame(block_);
    const TensorId normalized = normalized_in_fp32(frame);
    return times_gain(cast(block_, at("normalized"), normalized, given_));
  }

  TensorId gain_then_cast() {
    Frame frame(block_);
    const TensorId normalized = normalized_in_fp32(frame);
    return cast(block_, at("out in type"), times_gain(normalized), given_);
  }

  TensorId wide_gain() {
    Frame frame(block_);
    const TensorId x = in_fp32(x_);
    const TensorId square = multiply(block_, at("square"), x, x);
    const TensorId variance = mean_of_rows(block_, at("variance"), square);
    const TensorId root = reciprocal_root(block_, at("reciprocal rms"),
                                          add_number(block_, at("variance + epsilon"), variance));
    TensorId out = multiply(block_, at("normalized in fp32"), x, root);
    for (const TensorId local : {x, variance, out}) frame.local(local);
    if (has_gain()) {
      const TensorId weight = block_.parameter(at("weight"), part_.gain);
      out = multiply(block_, at("scaled"), out,
                     cast(block_, at("gain in fp32"), weight, DType::fp32));
    }
    return cast(block_, at("out in type"), out, given_);
  }

  TensorId one_plus_gain() {
    Frame frame(block_);
    frame.local(x_);
    const TensorId normalized = over_rms(in_fp32(x_), frame, false);
    if (!has_gain()) return cast(block_, at("out in type"), normalized, given_);
    const TensorId weight = block_.parameter(at("weight"), part_.gain);
    const TensorId raised =
        add_number(block_, at("1 + gain"), cast(block_, at("gain in fp32"), weight, DType::fp32));
    TensorId out = multiply(block_, at("scaled"), normalized, raised);
    if (part_.kind.bias)
      out = add(block_, at("out"), out, block_.parameter(at("bias"), part_.gain));
    frame.local(out);
    return cast(block_, at("out in type"), out, given_);
  }

  /// native/layer_norm.cpp, rms_norm: rows and a gain of one type have a kernel, others
  /// rms_norm_composite: rsqrt(pow(x, 2).mean(-1, true).add_(eps)), times x, times the gain.
  TensorId called_in_fp32() {
    if (given_ == DType::fp32) return kernel(x_, affine(), Statistics::kept);
    const TensorId scaled = composed(in_fp32(x_));
    Frame frame(block_);
    frame.local(scaled);
    return cast(block_, at("out in type"), scaled, given_);
  }

  TensorId composed(TensorId x) {
    Frame function(block_);
    const TensorId root = function.local(root_of_mean(x));
    function.local(x);
    TensorId scaled = multiply(block_, at("normalized in fp32"), x, root);
    if (has_gain()) {
      scaled = multiply(block_, at("scaled"), scaled, block_.parameter(at("weight"), part_.gain));
    }
    return scaled;
  }

  /// A C++ expression's parts go at its end, the last one first.
  TensorId root_of_mean(TensorId x) {
    Frame expression(block_);
    const TensorId square = power(block_, at("square"), x);
    const TensorId variance = expression.local(mean_of_rows(block_, at("variance"), square));
    expression.local(square);
    return reciprocal_root(block_, at("reciprocal rms"),
                           add_number_in_place(block_, at("variance + epsilon"), variance));
  }

  TensorId one_plus_fused() {
    Affine given = affine();
    if (!given.gain) return kernel(to_compute(block_, part_.name, x_), given, Statistics::kept);
    given.gain = add_number(block_, at("1 + gain"), *given.gain);
    if (!block_.precision().autocast) return kernel(x_, given, Statistics::kept);
    const DType compute = block_.precision().compute;
    TensorId x = x_;
    {
      Frame casting(block_);
      casting.local(*given.gain);
      x = cast(block_, at("cast input"), x_, compute);
      given.gain = cast(block_, at("cast gain"), *given.gain, compute);
      if (given.bias) given.bias = cast(block_, at("cast bias"), *given.bias, compute);
    }
    return kernel(x, given, Statistics::kept);
  }

  /// (x - mean) twice, for the variance and for the product, and the normalized rows for the gain.
  TensorId python_layer() {
    Frame frame(block_);
    frame.local(x_);
    const TensorId x = in_fp32(x_);
    const TensorId mean = mean_of_rows(block_, at("mean"), x);
    const TensorId spread = subtract(block_, at("centered for the variance"), x, mean);
    const TensorId variance =
        mean_of_rows(block_, at("variance"), power(block_, at("square"), spread));
    const TensorId centered = subtract(block_, at("centered"), x, mean);
    const TensorId root = reciprocal_root(block_, at("reciprocal deviation"),
                                          add_number(block_, at("variance + epsilon"), variance));
    TensorId out = [&] {
      Frame naming(block_);
      naming.local(x);
      return multiply(block_, at("normalized"), centered, root);
    }();
    if (has_gain()) {
      const TensorId weight = block_.parameter(at("weight"), part_.gain);
      out = multiply(block_, at("scaled"), cast(block_, at("gain in fp32"), weight, DType::fp32),
                     out);
      if (part_.kind.bias) {
        out = add(block_, at("out"), out, block_.parameter(at("bias"), part_.gain));
      }
    }
    for (const TensorId local : {out, mean, variance}) frame.local(local);
    return cast(block_, at("out in type"), out, given_);
  }

  BlockBuilder& block_;
  const NormPart& part_;
  TensorId x_;
  DType given_;
  bool on_shards_;
};

}  // namespace

TensorId norm(BlockBuilder& block, const DecoderContext& context, const NormPart& part,
              TensorId x) {
  if (context.liger().rms_norm) return liger_norm(block, context, part, x);
  return NormWriter(block, part, x, context.shards_tensors())
      .write(writing_of(context, part.kind.kind));
}

}  // namespace memest
