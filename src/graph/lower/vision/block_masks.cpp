// The masks of a decoder in which the tokens of an image see one another.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/positions.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/vision/vision.hpp"

namespace memest {
namespace {

class BlockMasks {
 public:
  BlockMasks(BlockBuilder& block, const DecoderContext& context)
      : block_(block), context_(context), dims_(context.dims) {}

  /// get_block_sequence_ids_for_mask: the number of the image that a token is of, -1 for text.
  TensorId number_images() {
    constexpr std::string_view kName = "image_blocks";
    const Shape rows = dims_.rows();
    const TensorId types = block_.shared(kTokenTypes, rows, DType::int64);
    Frame function(block_);
    const auto flags = [&](std::vector<TensorId> of, std::string_view name, Shape shape) {
      return compute(block_, OpKind::mask, of, {{kName, name}, std::move(shape), DType::boolean});
    };
    const TensorId image = function.local(flags({types}, "is image", rows));
    const TensorId before = function.local(flags({image}, "padded", {dims_.b, dims_.s + Expr(1)}));
    const TensorId inverted = flags({before}, "is none before", rows);
    const TensorId start = function.local(flags({image, inverted}, "starts", rows));
    const TensorId numbers =
        compute(block_, OpKind::cast, {start}, {{kName, "as numbers"}, rows, DType::int32});
    const TensorId sums = running_sum(block_, context_, kName, numbers);
    const TensorId groups = function.local(
        compute(block_, OpKind::add, {sums}, {{kName, "from zero"}, rows, DType::int64}));
    const TensorId none =
        compute(block_, OpKind::copy, {}, {{kName, "none"}, {Expr(1)}, DType::int64});
    return compute(block_, OpKind::mask, {image, groups, none},
                   {{kName, "ids"}, rows, DType::int64});
  }

  /// Causal or in one image; of a sliding layer, and within the window.
  void write(std::string_view name, TensorId ids, bool sliding) {
    TensorId mask = 0;
    {
      Frame function(block_);
      local(function, name, "batch index", {dims_.b});
      local(function, name, "head index", {Expr(1)});
      const TensorId queries = function.local(counted(block_, name, {dims_.s}));
      const TensorId keys = function.local(counted(block_, name, {dims_.s}));
      mask = sliding ? in_window(name, ids, queries, keys) : allowed(name, ids, {queries, keys, 1});
    }
    block_.outlive(mask, name);
  }

 private:
  struct Indices {
    TensorId queries = 0;
    TensorId keys = 0;
    Expr begun;  ///< elements with which the intersection begins
  };

  void local(Frame& function, std::string_view op, std::string_view name, Shape shape) {
    function.local(compute(block_, OpKind::copy, {}, {{op, name}, std::move(shape), DType::int64}));
  }
  TensorId flags(std::string_view op, std::string_view name, const std::vector<TensorId>& of,
                 Shape shape) {
    return compute(block_, OpKind::mask, of, {{op, name}, std::move(shape), DType::boolean});
  }
  [[nodiscard]] Shape square() const { return {dims_.s, dims_.s}; }
  [[nodiscard]] Shape squares() const { return {dims_.b, Expr(1), dims_.s, dims_.s}; }

  /// block_sequence_ids[batch_idx, idx]
  TensorId taken(std::string_view op, std::string_view name, TensorId ids, bool of_queries) {
    const Shape rows = dims_.rows();
    std::vector<TensorId> indices = {ids};
    indices.push_back(
        compute(block_, OpKind::copy, {},
                {{op, of_queries ? "query sequences" : "key sequences"}, rows, DType::int64}));
    const bool several = context_.policy.micro_batch > 1;
    if (several)
      indices.push_back(
          compute(block_, OpKind::copy, {},
                  {{op, of_queries ? "query tokens" : "key tokens"}, rows, DType::int64}));
    return compute(block_, OpKind::copy, indices, {{op, name}, rows, DType::int64});
  }

  /// or_masks(causal_mask_function, blockwise_overlay)
  TensorId allowed(std::string_view op, TensorId ids, const Indices& indices) {
    TensorId causal = 0;
    {
      Frame function(block_);
      const TensorId none = function.local(flags(op, "none", {}, {indices.begun}));
      const TensorId past = flags(op, "past", {indices.queries, indices.keys}, square());
      causal = flags(op, "causal", {none, past}, square());
    }
    TensorId together = 0;
    {
      Frame function(block_);
      const TensorId of_queries = function.local(taken(op, "query images", ids, true));
      const TensorId of_keys = function.local(taken(op, "key images", ids, false));
      const TensorId same = flags(op, "same image", {of_queries, of_keys}, squares());
      const TensorId image = flags(op, "in an image", {of_queries}, dims_.rows());
      together = flags(op, "together", {same, image}, squares());
    }
    return flags(op, "allowed", {causal, together}, squares());
  }

  /// and_masks(or_masks(...), sliding_window_overlay)
  TensorId in_window(std::string_view op, TensorId ids, TensorId queries, TensorId keys) {
    TensorId either = 0;
    {
      Frame function(block_);
      const TensorId all = function.local(flags(op, "all", {}, {dims_.s}));
      const TensorId any = allowed(op, ids, {queries, keys, dims_.s});
      either = flags(op, "allowed so far", {all, any}, squares());
    }
    const TensorId shifted =
        compute(block_, OpKind::add, {queries}, {{op, "window starts"}, {dims_.s}, DType::int64});
    const TensorId within = flags(op, "within the window", {keys, shifted}, square());
    return flags(op, "boolean", {either, within}, squares());
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
};

}  // namespace

void write_block_masks(BlockBuilder& block, const DecoderContext& context) {
  BlockMasks masks(block, context);
  const TensorId ids = masks.number_images();
  block.outlive(ids, kImageBlocks);
  masks.write("causal mask", ids, false);
  masks.write("sliding mask", ids, true);
}

}  // namespace memest
