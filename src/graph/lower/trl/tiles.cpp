// trl 1.16, kernels/chunked_logprob.py: ChunkedLogProbFunction.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/trl/trl.hpp"
#include "memest/graph/final_norm.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::string_view kTiledHead = "lm_head";
// TOKEN_CHUNK_SIZE, and utils.py's _CHUNKED_LOGPROB_CHUNK_SIZE.
constexpr std::int64_t kTileTokens = 4096;
constexpr std::int64_t kTileWidth = 32768;
// Chunks of a size make the same events: those behind so many are left out.
constexpr std::int64_t kWrittenChunks = 4;

/// The sizes of the chunks of a dimension, each with the place of its copy: two of one size may be
/// there at once.
struct Chunk {
  bool last = false;  ///< of another size than the others
  bool odd = false;
};
std::vector<Chunk> chunks_of(std::int64_t all, std::int64_t each) {
  std::vector<Chunk> chunks;
  const std::int64_t whole = all / each;
  for (std::int64_t i = 0; i < std::min(whole, kWrittenChunks); ++i) {
    chunks.push_back({false, i % 2 == 1});
  }
  if (all % each > 0) chunks.push_back({true, false});
  return chunks;
}

constexpr std::int64_t count_of(std::int64_t all, std::int64_t each) {
  return (all + each - 1) / each;
}

/// Allocations and frees of a pass, by the names of its tensors: a forward's scratch, or tensors
/// like them of a backward.
class Pass {
 public:
  void make(TensorId id) { add(StepKind::allocate, id); }
  void drop(TensorId id) { add(StepKind::free, id); }
  /// In place of `held`, which goes when `id` is there.
  void replace(std::optional<TensorId>& held, TensorId id) {
    make(id);
    if (held) drop(*held);
    held = id;
  }
  void multiply() { steps_.push_back({StepKind::product, 0}); }

  [[nodiscard]] const std::vector<TensorId>& made() const { return made_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] std::size_t steps_to_product() const {
    const auto is_product = [](const Step& step) { return step.kind == StepKind::product; };
    return static_cast<std::size_t>(std::ranges::find_if(steps_, is_product) - steps_.begin());
  }
  [[nodiscard]] std::uint8_t place_of(TensorId id) const {
    return static_cast<std::uint8_t>(std::ranges::find(made_, id) - made_.begin());
  }

 private:
  void add(StepKind kind, TensorId id) {
    if (std::ranges::find(made_, id) == made_.end()) made_.push_back(id);
    steps_.push_back({kind, place_of(id)});
  }

  std::vector<TensorId> made_;
  std::vector<Step> steps_;
};

class Tiles {
 public:
  Tiles(BlockBuilder& block, const DecoderContext& context, const TileRows& given)
      : block_(block),
        context_(context),
        rows_(given.rows),
        targets_(given.targets),
        compute_(context.policy.autocast ? context.policy.compute : context.policy.weights),
        casts_rows_(compute_ != block.dtype_of(given.rows)),
        casts_weight_(compute_ != block.dtype_of(given.weight)),
        tokens_(checked_multiply(context.policy.micro_batch, context.policy.targets())),
        vocab_(context.decoder.vocab_size),
        count_(block.tensor(given.rows).shape.front()),
        weight_(given.weight) {
    buffer_ = scratch(block, {kTiledHead, "tile of logits"},
                      {Expr(std::min(tokens_, kTileTokens)), Expr(kTileWidth)}, compute_);
    make_casts();
  }

  TargetScores write(AskedNumbers asked) {
    const Expr& v = context_.dims.v;
    const TensorId logits = block_.alias({kTiledHead, "all logits"}, rows_, {count_, v});
    block_.tensor(logits).dtype = compute_;
    const TensorId log_z = block_.make({kTiledHead, "log_z"}, {count_}, DType::fp32);
    TargetScores scores{block_.make({kTiledHead, "log_probs"}, {count_}, DType::fp32), {}};
    const auto answer = [&](std::string_view name, DType dtype) {
      scores.others.push_back(block_.make({kTiledHead, name}, {count_}, dtype));
    };
    if (asked.entropy_and_top1) answer("entropy", DType::fp32);
    if (asked.mean_logits) answer("mean_logits", DType::fp32);
    if (asked.entropy_and_top1) answer("is_top1", DType::boolean);
    Op op;
    op.kind = OpKind::linear;
    op.name = kTiledHead;
    op.compute = compute_;
    op.inputs = {rows_, weight_, targets_};
    op.outputs = {logits, log_z, scores.log_probs};
    op.saved = {rows_, targets_, log_z};
    const bool gathered = block_.tensor(weight_).role != Role::parameter;
    if (gathered) op.saved.insert(op.saved.begin() + 1, weight_);
    op.outputs.insert(op.outputs.end(), scores.others.begin(), scores.others.end());
    if (asked.entropy_and_top1) op.saved.push_back(scores.others.front());
    op.saves_behind = true;
    op.multiplies_again = true;
    op.workspace = Workspace::cublas;
    op.kernels = count_of(tokens_, kTileTokens) * count_of(vocab_, kTileWidth);
    write_forward(op, asked);
    write_backward(op);
    const Expr flops = Expr(2) * count_ * v * context_.dims.embedding;
    const auto gradients = static_cast<std::int64_t>(op.gradients.size());
    block_.emit(std::move(op), {flops, Expr(gradients + 1) * flops});
    block_.set_needs_gradient(log_z, false);
    for (const TensorId id : scores.others) block_.set_needs_gradient(id, false);
    scores.log_probs = passed_tiles(scores.log_probs, block_.tensor(logits).bytes());
    return scores;
  }

 private:
  struct Casts {
    TensorId whole = 0;
    TensorId odd = 0;
    TensorId last = 0;
  };

  Casts casts_of(std::array<std::string_view, 3> names, std::int64_t all, std::int64_t each) {
    const auto make = [&](std::string_view name, std::int64_t of) {
      return scratch(block_, {kTiledHead, name}, {Expr(of), context_.dims.embedding}, compute_);
    };
    return {make(names[0], each), make(names[1], each), make(names[2], all % each)};
  }
  void make_casts() {
    if (casts_rows_) {
      hidden_ = casts_of({"cast rows", "other cast rows", "last cast rows"}, tokens_, kTileTokens);
    }
    if (casts_weight_) {
      part_ = casts_of({"cast part", "other cast part", "last cast part"}, vocab_, kTileWidth);
    }
  }
  static TensorId cast_of(const Casts& casts, Chunk chunk) {
    return chunk.last ? casts.last : chunk.odd ? casts.odd : casts.whole;
  }

  /// `weight[start:end].to(dtype).t()` is gone behind its product in the forward, and has a name in
  /// the backward, as the rows have in both.
  std::optional<TensorId> run_tiles(Pass& pass, bool named, std::optional<TensorId>& part) const {
    std::optional<TensorId> rows;
    for (const Chunk of_tokens : chunks_of(tokens_, kTileTokens)) {
      if (casts_rows_) pass.replace(rows, cast_of(hidden_, of_tokens));
      for (const Chunk of_vocab : chunks_of(vocab_, kTileWidth)) {
        const TensorId cast = cast_of(part_, of_vocab);
        if (casts_weight_ && named) pass.replace(part, cast);
        if (casts_weight_ && !named) pass.make(cast);
        pass.multiply();
        if (casts_weight_ && !named) pass.drop(cast);
      }
    }
    return rows;
  }

  TensorId vector(std::string_view name, DType dtype = DType::fp32) {
    return scratch(block_, {kTiledHead, name}, {count_}, dtype);
  }

  /// Behind the tiles: log_z, log-probabilities, and what was asked for beside.
  void write_answers(Pass& pass, const Op& op, AskedNumbers asked) {
    const TensorId logarithm = vector("logarithm");
    pass.make(logarithm);
    pass.make(op.outputs[1]);
    pass.drop(logarithm);
    pass.make(op.outputs[2]);
    std::size_t next = 3;
    if (asked.entropy_and_top1) {
      const TensorId ratio = vector("ratio");
      pass.make(ratio);
      pass.make(op.outputs[next++]);
      pass.drop(ratio);
    }
    if (asked.mean_logits) pass.make(op.outputs[next++]);
    if (!asked.entropy_and_top1) return;
    const TensorId highest = vector("highest", DType::boolean);
    const TensorId first = vector("first of the highest", DType::boolean);
    for (const TensorId id : {highest, first, op.outputs[next]}) pass.make(id);
    for (const TensorId id : {highest, first}) pass.drop(id);
  }

  void write_forward(Op& op, AskedNumbers asked) {
    constexpr std::array<std::string_view, 7> kStatistics = {
        "running maximum",   "sum of exponentials", "weighted sum",       "sum of squares",
        "sum of the scores", "before the target",   "score of the target"};
    Pass pass;
    std::vector<TensorId> statistics;
    for (const std::string_view name : kStatistics) {
      statistics.push_back(vector(name));
      pass.make(statistics.back());
    }
    pass.make(buffer_);
    std::optional<TensorId> part;
    const std::optional<TensorId> rows = run_tiles(pass, false, part);
    write_answers(pass, op, asked);
    for (const TensorId id : statistics) pass.drop(id);
    if (rows) pass.drop(*rows);
    pass.drop(buffer_);
    settle_forward(pass, op);
  }

  /// Outputs count behind the scratch.
  static void settle_forward(const Pass& pass, Op& op) {
    std::vector<std::uint8_t> places;
    const auto output = [&op](TensorId id) { return std::ranges::find(op.outputs, id); };
    for (const TensorId id : pass.made()) {
      if (output(id) == op.outputs.end()) op.forward_scratch.push_back(id);
    }
    for (const TensorId id : pass.made()) {
      const auto at = std::ranges::find(op.forward_scratch, id) - op.forward_scratch.begin();
      // The first output is no storage of its own.
      const auto behind = output(id) == op.outputs.end() ? 0 : output(id) - op.outputs.begin() - 1;
      places.push_back(static_cast<std::uint8_t>(at + behind));
    }
    for (Step step : pass.steps()) {
      if (step.kind != StepKind::product) step.tensor = places[step.tensor];
      op.forward_steps.push_back(step);
    }
  }

  /// Both gradients are summed in fp32 (_addmm_fp32), and end in their tensor's type.
  void write_backward(Op& op) {
    Pass pass;
    const bool wants_rows = block_.needs_gradient(rows_);
    const bool trains = block_.needs_gradient(weight_);
    const TensorId of_rows = scratch(block_, {kTiledHead, "sum of the rows' gradient"},
                                     block_.tensor(rows_).shape, DType::fp32);
    const TensorId of_weight = scratch(block_, {kTiledHead, "sum of the weight's gradient"},
                                       block_.tensor(weight_).shape, DType::fp32);
    if (wants_rows) pass.make(of_rows);
    if (trains) pass.make(of_weight);
    pass.make(buffer_);
    std::optional<TensorId> part;
    const std::optional<TensorId> rows = run_tiles(pass, true, part);
    const bool narrow_rows = wants_rows && block_.dtype_of(rows_) != DType::fp32;
    const bool narrow_weight = trains && block_.dtype_of(weight_) != DType::fp32;
    if (narrow_rows) pass.make(rows_);
    if (narrow_weight) pass.make(weight_);
    if (narrow_rows) pass.drop(of_rows);
    if (narrow_weight) pass.drop(of_weight);
    if (rows) pass.drop(*rows);
    if (part) pass.drop(*part);
    pass.drop(buffer_);
    for (const TensorId id : pass.made()) {
      op.backward_tensors.push_back({id, block_.dtype_of(id)});
    }
    op.backward_steps = pass.steps();
    op.first_product = pass.steps_to_product();
    BackwardWriter backward(op);
    if (wants_rows) backward.give(rows_, pass.place_of(narrow_rows ? rows_ : of_rows));
    if (trains) backward.give(weight_, pass.place_of(narrow_weight ? weight_ : of_weight));
  }

  /// Beside the products a tile is written and read for its statistics, and in the backward
  /// overwritten by its gradient and read for each product.
  TensorId passed_tiles(TensorId log_probs, const Expr& bytes) {
    const TensorId out =
        block_.alias({kTiledHead, "log_probs of tiles"}, log_probs, block_.tensor(log_probs).shape);
    Op op;
    op.kind = OpKind::cross_entropy;
    op.name = kTiledHead;
    op.inputs = {log_probs};
    op.outputs = {out};
    BackwardWriter(op).hand_on(log_probs);
    block_.emit(std::move(op));
    Op& last = block_.ops().back();
    last.forward.bytes += bytes;
    last.backward.bytes += Expr(2) * bytes;
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  TensorId rows_;
  TensorId targets_;
  DType compute_;
  bool casts_rows_;  ///< autocast: they are wider
  bool casts_weight_;
  std::int64_t tokens_;
  std::int64_t vocab_;
  Expr count_;
  TensorId weight_;
  TensorId buffer_ = 0;
  Casts hidden_;
  Casts part_;
};

}  // namespace

// DTensor.full_tensor() of rows in equal shares, the last ones padded.
TensorId head_weight(BlockBuilder& block, const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  const Shape shape = {dims.v, dims.embedding};
  const LoweringPolicy& policy = context.policy;
  if (context.decoder.tied_embeddings) return block.tied_parameter({kTiledHead, "weight"}, shape);
  const TensorId weight = block.parameter({kTiledHead, "weight"}, shape);
  const bool own_unit = finds_norm_beside_peft(context.names.final_norm);
  if (!policy.units_around_peft || own_unit) return weight;
  const std::int64_t ranks = policy.reporting;
  const Expr rows(checked_multiply(count_of(context.decoder.vocab_size, ranks), ranks));
  const DType stored = policy.stored.value_or(policy.weights);
  const TensorId whole = compute(block, OpKind::copy, {},
                                 {{"gathered_head", "weight"}, {rows, dims.embedding}, stored});
  block.set_needs_gradient(whole, false);
  return whole;
}

TargetScores scores_of_tiles(BlockBuilder& block, const DecoderContext& context,
                             const TileRows& rows, AskedNumbers asked) {
  return Tiles(block, context, rows).write(asked);
}

}  // namespace memest
