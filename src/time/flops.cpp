#include "memest/time/flops.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/time/work.hpp"
#include "time/recomputation.hpp"

namespace memest {
namespace {

/// Sizes of a model that the quoted conventions need.
struct ConventionSizes {
  /// Σ over layers of heads · (query-key size + value size) / 2: a·d a layer where both are d.
  std::int64_t attention_width = 0;
  /// Weights that choose experts. Megatron's formula leaves them out.
  std::int64_t routers = 0;
};

std::int64_t doubled_width_of(const Attention& attention) {
  // Scores are products over the query-key size, outputs over the value size; in latent attention
  // the two differ (DeepSeek-V3: 192 and 128).
  if (const auto* softmax = std::get_if<SoftmaxAttention>(&attention)) {
    return checked_multiply(softmax->heads, 2 * softmax->head_dim);
  }
  const auto& latent = std::get<LatentAttention>(attention);
  return checked_multiply(latent.heads,
                          latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim);
}

std::int64_t router_of(const LayerKind& kind, std::int64_t hidden_size) {
  const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
  if (experts == nullptr) return 0;
  // One column an expert, and one for the gate of the shared expert.
  return checked_multiply(hidden_size, experts->experts + (experts->shared_gate ? 1 : 0));
}

ConventionSizes convention_sizes(const ModelSpec& model) {
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr) return {};
  ConventionSizes sizes;
  sizes.attention_width =
      checked_multiply(decoder->layers(), doubled_width_of(decoder->attention)) / 2;
  for (const LayerRun& run : decoder->order) {
    const std::int64_t router = router_of(decoder->kinds[run.kind], decoder->hidden_size);
    sizes.routers = checked_add(sizes.routers, checked_multiply(run.repeat, router));
  }
  return sizes;
}

/// Layers of each of the graph's stages, or of every stage of the job's pipeline.
std::vector<std::int64_t> layers_of_stages(const Graph& graph, const Job& job) {
  std::vector<std::int64_t> layers;
  if (!graph.stages.empty()) {
    for (const auto runs : graph.stage_runs()) layers.push_back(graph.layers(runs));
    return layers;
  }
  const StageSplit split = job.stage_split(graph.layers());
  for (std::int64_t i = 0; i < split.stages(); ++i) layers.push_back(split.stage(i).count);
  return layers;
}

/// FLOPs that kernels compute of those counted.
Flops computed_of(const Op& op, Flops counted) {
  // FlopCounterMode counts every score of a fused attention; its kernels skip tiles above the
  // diagonal.
  const bool half = op.kind == OpKind::attention && op.causal;
  return half ? Flops(counted.value() / 2) : counted;
}

/// Fused attention's backward recomputes the scores, half of a forward beside its two.
Flops required_backward(const Op& op, Flops forward, Flops backward) {
  // sdpa_backward_flop_count has five products to the forward's two: the first recomputes the
  // scores.
  const bool recomputes_scores = op.kind == OpKind::attention && backward > forward * 2;
  return computed_of(op, recomputes_scores ? forward * 2 : backward);
}

/// FLOPs of generate()'s passes behind the forward of its prompts: a sum over the tokens that
/// sequences have by then. FLOPs grow along a line as long as the same operations run.
void count_decoding(const Graph& graph, const InferenceSpec& inference, FlopsEstimate& result) {
  if (graph.decoding.empty()) return;
  Bindings sizes = sizes_of(graph, inference);
  const std::int64_t behind = inference.seq_len + inference.generation->tokens - 1;
  for (std::size_t i = 0; i < graph.decoding.size(); ++i) {
    const std::int64_t first = graph.decoding[i].first;
    const std::int64_t next = i + 1 < graph.decoding.size() ? graph.decoding[i + 1].first : behind;
    const std::int64_t end = std::min(next, behind);
    if (end <= first) continue;
    for (const BlockRun& run : graph.decoding[i].order) {
      for (const Op& op : graph.blocks[run.block].ops) {
        const auto with = [&](std::int64_t tokens) {
          return op.forward.flops.flops(sizes.set(Symbol::cached_keys, tokens)).value();
        };
        const Int128 ends = checked_add(with(first + 1), with(end));
        const Int128 flops = checked_multiply(ends, Int128{end - first}) / 2;
        const Flops all(checked_multiply(flops, Int128{run.repeat}));
        // One query reads all keys: nothing stands above the diagonal.
        result.forward += all;
        result.computed += all;
        result.required += all;
      }
    }
  }
}

/// FLOPs of what runs: forward, and backward with what it recomputes.
void count_passes(const Graph& graph, const Job& job, FlopsEstimate& result) {
  const Bindings sizes = sizes_of(graph, *job.forward());
  std::vector<BlockRun> order = graph.order;
  order.insert(order.end(), graph.teacher.begin(), graph.teacher.end());
  for (const BlockRun& run : order) {
    for (const Op& op : graph.blocks[run.block].ops) {
      const Flops forward = op.forward.flops.flops(sizes) * run.repeat;
      const Flops backward = op.backward.flops.flops(sizes) * run.repeat;
      result.forward += forward;
      result.backward += backward;
      result.computed += computed_of(op, forward) + computed_of(op, backward);
      result.required += computed_of(op, forward) + required_backward(op, forward, backward);
    }
  }
  if (job.inference) count_decoding(graph, *job.inference, result);
  if (!job.training) return;
  const Recomputations recomputed =
      recomputations_of(graph, *job.training, layers_of_stages(graph, job));
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    for (std::size_t op = 0; op < recomputed[block].size(); ++op) {
      if (recomputed[block][op].whole == 0) continue;
      const Op& repeated = graph.blocks[block].ops[op];
      // A recomputed forward is work that hardware does and the model does not need: HFU counts it,
      // MFU does not.
      const Flops more = repeated.forward.flops.flops(sizes) * recomputed[block][op].whole;
      result.backward += more;
      result.computed += computed_of(repeated, more);
    }
  }
  for (Flops* counted : {&result.forward, &result.backward, &result.computed, &result.required}) {
    *counted = *counted * job.training->gradient_accumulation;
  }
}

}  // namespace

FlopsEstimate count_flops(const Graph& graph, const Job& job) {
  expect(job.forward() != nullptr, "a job that runs nothing has no step");
  const ForwardSpec& pass = *job.forward();
  FlopsEstimate result;
  count_passes(graph, job, result);
  const Int128 micro_steps{job.training ? job.training->gradient_accumulation : 1};
  // Behind a prompt of s tokens generate() sends one token a pass, which attends to s + 1, s + 2
  // ...
  const std::int64_t passes =
      job.inference && job.inference->generation ? job.inference->generation->tokens - 1 : 0;
  const Int128 sequences = checked_multiply(Int128{pass.micro_batch}, micro_steps);
  const Int128 length{pass.seq_len + graph.virtual_tokens};
  const Int128 tokens = checked_multiply(sequences, length + passes);
  const Int128 attended = checked_multiply(
      sequences, length * length + passes * length + Int128{passes} * (passes + 1) / 2);
  // 6 FLOPs a parameter and token: 2 forward, 4 backward.
  const Int128 each = job.training ? 6 : 2;
  const std::int64_t ranks = job.parallelism.ranks_of_a_model();
  const auto of_all = [&](std::int64_t parameters, const Int128& times) {
    return Flops(checked_multiply(checked_multiply(each, Int128{parameters}), times) / ranks);
  };
  // A parameter that several layers use counts for each.
  ModelSpec used = job.model;
  used.shared_layers.reset();
  const ParameterCounts parameters = count_parameters(used, pass.implementation);
  const ConventionSizes shape = convention_sizes(job.model);
  // 12·L·a·d·s a token: scores and values, forward and backward, every query with every key.
  const std::int64_t width = shape.attention_width;
  result.model = of_all(parameters.active, tokens);
  // PaLM's appendix B counts all scores: `each` · 2 · L·a·d·s is 12·L·a·d·s where the job trains.
  result.palm = result.model + of_all(checked_multiply(std::int64_t{2}, width), attended);
  // num_floating_point_operations halves the scores for the causal mask, and counts no look-up.
  result.megatron =
      of_all(parameters.active_matmul - shape.routers, tokens) + of_all(width, attended);
  return result;
}

FlopsEstimate mean_of_stages(const FlopsEstimate& whole, std::int64_t stages) {
  FlopsEstimate mean = whole;
  mean.forward = Flops(whole.forward.value() / stages);
  mean.backward = Flops(whole.backward.value() / stages);
  mean.computed = Flops(whole.computed.value() / stages);
  mean.required = Flops(whole.required.value() / stages);
  return mean;
}

}  // namespace memest
