#include "plan/layouts/space.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/cost_split.hpp"
#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/spec/recompute/layer_parts.hpp"

namespace memest {
namespace {

/// No device holds a larger one of any model worth training.
constexpr std::int64_t kLargestMicroBatch = std::int64_t{1} << 20;

std::vector<BatchChoice> divisors_of(std::int64_t sequences) {
  std::vector<BatchChoice> choices;
  std::vector<BatchChoice> above_root;
  // Divisors in pairs up to the root: 10^6 sequences cost 1,000 divisions.
  for (std::int64_t divisor = 1; divisor <= sequences / divisor; ++divisor) {
    if (sequences % divisor != 0) continue;
    const std::int64_t other = sequences / divisor;
    choices.push_back({divisor, other});
    if (other != divisor) above_root.push_back({other, divisor});
  }
  choices.insert(choices.end(), above_root.rbegin(), above_root.rend());
  return choices;
}

/// Tokens of a sequence that a rank has at least; fewer are tried where the file writes them. With
/// fewer a ring waits for its messages: with an eighth of the heads for keys, 4·s·k·d bytes a step
/// at 50 GB/s between nodes take as long as 2·s²·a·d FLOPs at half of an H100's 990 TFLOP/s at s =
/// 2,500, and the next power of two is taken.
constexpr std::int64_t kLeastTokensOfRank = 4096;

/// Stages a rank of torchtitan's interleaved pipelines; more are tried where the file writes them.
constexpr std::int64_t kDealtStages = 2;

/// The dimensions of its model that the job's framework divides.
ModelSplits splits_of(const Job& job) {
  const Implementation& implementation = job.training->implementation;
  ModelSplits splits = row_of(implementation.framework).splits;
  splits.context = divides_sequences(implementation);
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const bool tied = decoder != nullptr && decoder->tied_embeddings;
  splits.pipeline = splits.pipeline && (splits.ties_over_stages || !tied);
  return splits;
}

/// The divisors of `whole`, ascending, up to `most`.
std::vector<std::int64_t> divisors_up_to(std::int64_t whole, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= std::min(whole, most); ++divisor) {
    if (whole % divisor == 0) divisors.push_back(divisor);
  }
  return divisors;
}

std::int64_t experts_of(const DecoderSpec* decoder) {
  const MixtureOfExperts* mixture = decoder == nullptr ? nullptr : decoder->experts();
  return mixture == nullptr ? 1 : mixture->experts;
}

class LayoutSpace {
 public:
  LayoutSpace(const Job& job, std::int64_t gpus)
      : job_(job),
        written_(job.parallelism),
        gpus_(gpus),
        splits_(splits_of(job)),
        decoder_(std::get_if<DecoderSpec>(&job.model.architecture)),
        experts_(experts_of(decoder_)),
        overlaps_(row_of(job.training->implementation.framework).overlaps && !job.given.overlap) {}

  std::vector<Parallelism> choices() {
    Parallelism layout = written_;
    const std::int64_t node = std::min(gpus_, job_.hardware.gpus_per_node);
    for (const std::int64_t tensor :
         axis(splits_.tensor, written(job_.given.tensor, written_.tensor),
              divisors_up_to(gpus_, node))) {
      layout.tensor = tensor;
      // Sequence parallelism divides the norms' activations at no more traffic: an all-reduce is an
      // all-gather and a reduce-scatter.
      if (!job_.given.sequence) layout.sequence = tensor > 1;
      if (gpus_ % tensor == 0) add_contexts(layout);
    }
    return std::move(choices_);
  }

 private:
  static std::optional<std::int64_t> written(bool given, std::int64_t ranks) {
    return given ? std::optional(ranks) : std::nullopt;
  }

  /// The written value, or all, or 1 alone where the framework does not split so.
  static std::vector<std::int64_t> axis(bool splits, std::optional<std::int64_t> written,
                                        std::vector<std::int64_t> all) {
    if (written) return {*written};
    if (!splits) return {1};
    return all;
  }

  /// A ring of c ranks gives each two chunks of the sequence, one from either end.
  void add_contexts(Parallelism layout) {
    const std::int64_t left = gpus_ / layout.tensor;
    std::vector<std::int64_t> all = divisors_up_to(left, left);
    std::erase_if(all, [&](std::int64_t context) {
      const std::int64_t tokens = job_.training->seq_len / context;
      return context > 1 &&
             (tokens < kLeastTokensOfRank || job_.training->seq_len % (2 * context) != 0);
    });
    for (const std::int64_t context :
         axis(splits_.context, written(job_.given.context, written_.context), all)) {
      layout.context = context;
      if (left % context == 0) add_pipelines(layout, left / context);
    }
  }

  void add_pipelines(Parallelism layout, std::int64_t left) {
    const std::int64_t layers = decoder_ == nullptr ? 1 : decoder_->layers();
    for (const std::int64_t pipeline :
         axis(splits_.pipeline, written(job_.given.pipeline, written_.pipeline),
              divisors_up_to(left, layers))) {
      if (left % pipeline != 0) continue;
      layout.pipeline = pipeline;
      layout.data = left / pipeline;
      if (cut_ends(layout, layers)) add_stages(layout, layers);
      add_counted_ends(layout, layers);
    }
  }

  /// Layers that do not divide may do so with the ends of the model, and then leave stages to
  /// interleave: 126 of them on 16 ranks are 128, 8 a rank. One stage a rank is as cut_ends() says.
  void add_counted_ends(Parallelism layout, std::int64_t layers) {
    if (!splits_.own_ends || job_.given.stage_layers || layers % layout.pipeline == 0) return;
    layout.first_stage_layers = layout.last_stage_layers = 0;
    for (const bool embedding : {true, false}) {
      layout.account_for_embedding = embedding;
      layout.account_for_loss = true;
      if (layers_of_chunks(layout, layers) > 1) return add_stages(layout, layers);
    }
  }

  /// Layers that do not divide leave the ends of the pipeline fewer, which have the embedding and
  /// the head for it: the last the least. False: the stages cannot be filled.
  bool cut_ends(Parallelism& layout, std::int64_t layers) const {
    layout.first_stage_layers = written_.first_stage_layers;
    layout.last_stage_layers = written_.last_stage_layers;
    if (job_.given.stage_layers && layout.pipeline > 1) return layers_of_chunks(layout, layers) > 0;
    layout.first_stage_layers = layout.last_stage_layers = 0;
    layout.account_for_embedding = layout.account_for_loss = false;
    layout.stage_layers.clear();
    if (splits_.deals_by_cost && layout.pipeline > 1) {
      layout.stage_layers = stages_by_cost(*decoder_, layout);
      return !layout.stage_layers.empty();
    }
    if (layers % layout.pipeline == 0 || splits_.deals) return true;
    if (!splits_.own_ends) return false;
    // As Megatron's --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers
    // write them: 61 layers on 4 stages are 15, 16, 16, 14.
    const std::int64_t of_stage = layers / layout.pipeline + 1;
    const std::int64_t missing = of_stage * layout.pipeline - layers;
    layout.first_stage_layers = missing > 1 || layout.pipeline == 2 ? of_stage - missing / 2 : 0;
    layout.last_stage_layers = of_stage - (missing + 1) / 2;
    return layout.last_stage_layers > 0;
  }

  /// Returns what a rank's chunks divide evenly: the layers of every rank, with the ends of the
  /// model that count as one; of a list its stages. 0: the layers do not divide over the ranks.
  static std::int64_t layers_of_chunks(const Parallelism& layout, std::int64_t layers) {
    const auto over = [](std::int64_t whole, std::int64_t ranks) {
      return whole % ranks == 0 ? whole / ranks : 0;
    };
    if (!layout.stage_layers.empty()) {
      return over(static_cast<std::int64_t>(layout.stage_layers.size()), layout.pipeline);
    }
    const std::int64_t first = layout.first_stage_layers;
    const std::int64_t last = layout.last_stage_layers;
    if (first + last == 0) {
      return over(
          layers + (layout.account_for_embedding ? 1 : 0) + (layout.account_for_loss ? 1 : 0),
          layout.pipeline);
    }
    const std::int64_t rest = layout.pipeline - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
    const std::int64_t left = layers - first - last;
    if (rest == 0) return left == 0 ? std::gcd(first, last) : 0;
    return left > 0 ? std::gcd(std::gcd(first, last), over(left, rest)) : 0;
  }

  /// Every stage has a layer, beside an end of the model that counts as one.
  [[nodiscard]] bool fills_stages(std::int64_t stages) const {
    const std::int64_t ends = job_.end_layers();
    const std::int64_t layers = decoder_ == nullptr ? 1 : decoder_->layers();
    // torchtitan counts the embedding and the head as layers when it deals them out
    // (first_stage_less_layers, last_stage_less_layers).
    return stages == 1 || (layers + 2 * ends) / stages > ends;
  }

  void add_stages(Parallelism layout, std::int64_t layers) {
    const std::int64_t of_rank = layers_of_chunks(layout, layers);
    const std::int64_t dealt = splits_.deals ? kDealtStages : of_rank;
    const bool listed = !layout.stage_layers.empty();
    const bool counted = layout.account_for_loss && !job_.given.stage_layers;
    for (const std::int64_t stages :
         axis(splits_.pipeline, written(job_.given.schedule, written_.virtual_stages),
              divisors_up_to(dealt, layout.pipeline > 1 ? dealt : 1))) {
      if (layout.pipeline == 1 && stages > 1) continue;
      if (listed && stages != of_rank) continue;
      if (counted && stages == 1) continue;
      if (splits_.deals ? !fills_stages(layout.pipeline * stages) : of_rank % stages != 0) continue;
      layout.virtual_stages = stages;
      if (!job_.given.schedule) {
        layout.schedule = stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
      }
      add_experts(layout);
    }
  }

  /// Experts that tensor ranks cut, as Megatron does by itself, and whole ones.
  void add_experts(Parallelism layout) {
    if (written_.expert_tensor || experts_ == 1 || layout.tensor == 1) {
      return add_expert_ranks(layout);
    }
    layout.expert_tensor.reset();
    add_expert_ranks(layout);
    layout.expert_tensor = 1;
    add_expert_ranks(layout);
  }

  void add_expert_ranks(Parallelism layout) {
    const std::int64_t replicas = layout.expert_ranks();
    std::vector<std::int64_t> all = divisors_up_to(replicas, experts_);
    std::erase_if(all, [&](std::int64_t expert) {
      // Whole experts of tensor ranks are shared among them.
      return experts_ % expert != 0 || (layout.whole_experts() && expert == 1);
    });
    for (const std::int64_t expert :
         axis(splits_.expert, written(job_.given.expert, written_.expert), all)) {
      if (replicas % expert != 0) continue;
      layout.expert = expert;
      add_shards(layout);
    }
  }

  void add_shards(Parallelism layout) {
    for (const Sharing& sharing : sharing_choices(job_, layout)) {
      share(layout, sharing);
      if (layout.expert > 1 && sharing.in_units() &&
          (!expert_ranks_divide_shards(layout) || !expert_columns_divide(job_.model, layout))) {
        continue;
      }
      if (overlaps_) {
        layout.overlap_grad_reduce = layout.shard_ranks() > 1;
        layout.overlap_param_gather = sharing.divides_optimizer();
      }
      choices_.push_back(layout);
    }
  }

  const Job& job_;
  const Parallelism& written_;
  std::int64_t gpus_;
  ModelSplits splits_;
  const DecoderSpec* decoder_;
  std::int64_t experts_;  ///< of a layer; 1 without
  /// Takes no memory (the buckets are slices of the same buffers) and only saves time.
  bool overlaps_;
  std::vector<Parallelism> choices_;
};

std::vector<BatchChoice> batches_of(const Job& job, std::int64_t data) {
  const TrainingSpec& training = *job.training;
  if (job.given.global_batch) {
    const std::int64_t global_batch = job.global_batch();
    if (global_batch % data != 0) return {};
    const std::int64_t share = global_batch / data;
    // micro-batch · micro-steps is the rank's share of the global batch, so both are divisors of
    // it.
    if (!job.given.micro_batch) return divisors_of(share);
    if (share % training.micro_batch != 0) return {};
    return {{training.micro_batch, share / training.micro_batch}};
  }
  if (job.given.micro_batch) return {{training.micro_batch, training.gradient_accumulation}};
  std::vector<BatchChoice> choices;
  for (std::int64_t batch = 1; batch <= kLargestMicroBatch; batch *= 2) {
    choices.push_back({batch, training.gradient_accumulation});
  }
  return choices;
}

}  // namespace

std::vector<BatchChoice> batch_choices(const Job& job, const Parallelism& layout) {
  std::vector<BatchChoice> choices = batches_of(job, layout.data);
  if (row_of(job.training->implementation.loop).prefers) {
    std::erase_if(choices, [](const BatchChoice& batch) { return batch.micro_batch % 2 != 0; });
  }
  if (job.given.context || job.given.micro_batch) return choices;
  std::erase_if(choices, [&layout](const BatchChoice& batch) {
    return std::gcd(batch.micro_batch, layout.context) > 1;
  });
  return choices;
}

std::vector<Recompute> recompute_choices(const Job& job) {
  if (job.given.recompute) return {job.training->recompute};
  if (job.training->implementation.compile == CompileScope::whole) return {NoRecompute{}};
  // Layers recomputed whole are captured in a full iteration alone
  // (reader/frameworks/cuda_graphs.cpp).
  if (job.training->implementation.cuda_graph.of_layers()) {
    return {NoRecompute{}, SelectiveRecompute{}};
  }
  // The reader refuses others beside images (src/reader/multimodal/images.cpp) and adapters other
  // than LoRA (src/reader/adapters/adapter.cpp).
  const auto& adapter = job.model.adapter;
  const bool other_adapter = adapter && adapter->kind != AdapterKind::lora;
  if (job.model.vision || other_adapter) return {NoRecompute{}, FullRecompute{}};
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  // The reader refuses selective recompute beside them elsewhere (read_training.cpp).
  const bool listed = framework.checkpoints == CheckpointRule::layers;
  if (job.training->float8 && !listed) return {NoRecompute{}, FullRecompute{}};
  // A re-entrant checkpoint has a layer whole; not every list of layers has a selective one
  // (lower/programs/plain.cpp).
  const bool whole = framework.checkpoints == CheckpointRule::reentrant ||
                     !framework.recomputes_parts ||
                     row_of(job.training->implementation.loop).takes_tiles;
  if (whole || framework.keeps_contractions) return {NoRecompute{}, FullRecompute{}};
  if (const auto remade = remade_parts_of(job)) {
    return {NoRecompute{}, *remade, SelectiveRecompute{}, FullRecompute{}};
  }
  return {NoRecompute{}, SelectiveRecompute{}, FullRecompute{}};
}

std::vector<Parallelism> layout_choices(const Job& job, std::int64_t gpus) {
  return LayoutSpace(job, gpus).choices();
}

}  // namespace memest
