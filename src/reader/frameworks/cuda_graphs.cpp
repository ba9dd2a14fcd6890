// CUDA graphs of Megatron, and what it does not capture: megatron-core 0.16.1,
// TransformerConfig.__post_init__.
#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/layer_parts.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

const CudaGraphs& graphs_of(const Job& job) { return job.training->implementation.cuda_graph; }

/// Whether some layer's feed-forward is of the kind.
template <class FeedForward>
bool has_layers_of(const Job& job) {
  const auto* const decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder != nullptr && std::ranges::any_of(decoder->kinds, [](const LayerKind& kind) {
           return std::holds_alternative<FeedForward>(kind.feed_forward);
         });
}

bool captures_experts(const Job& job) {
  const CudaGraphs& graphs = graphs_of(job);
  return graphs.has(GraphScope::moe) || graphs.has(GraphScope::moe_router) ||
         graphs.has(GraphScope::moe_preprocess);
}

/// Experts whose rows are counted on the device and read back: no capture goes past that.
bool reads_counts_back(const Job& job) {
  const MixtureOfExperts* const experts = job.model.experts();
  return experts != nullptr && experts->capacity_factor == 0;
}

bool captures(const Job& job, GraphScope scope) {
  return graphs_of(job).full_iteration || graphs_of(job).has(scope);
}

Dropout dropout_of(const Job& job) {
  const auto* const decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  return decoder == nullptr ? Dropout{} : decoder->dropout;
}

struct GraphRule {
  bool (*broken)(const Job&);
  const char* message;
  const char* hint;
};
constexpr std::array kGraphRules = {
    GraphRule{
        [](const Job& job) { return job.training->implementation.layers == LayerSpec::legacy; },
        "CUDA graphs are of megatron-core's layers, not of the legacy ones",
        "leave 'cuda_graph' out"},
    GraphRule{[](const Job& job) {
                return graphs_of(job).of_layers() &&
                       job.training->implementation.layers == LayerSpec::local;
              },
              "parts of layers are captured by Transformer Engine, of its own layers",
              "write 'layers: te' beside it, or 'cuda_graph: full_iteration'"},
    GraphRule{[](const Job& job) {
                return captures_experts(job) && !has_layers_of<MixtureOfExperts>(job);
              },
              "the model has no experts: moe, moe_router and moe_preprocess are theirs",
              "of a dense layer write attn and mlp"},
    GraphRule{[](const Job& job) {
                return graphs_of(job).has(GraphScope::mlp) && !has_layers_of<DenseFeedForward>(job);
              },
              "the model has no dense layer: mlp is of those",
              "of a layer of experts write moe_router and moe_preprocess"},
    GraphRule{[](const Job& job) {
                const CudaGraphs& graphs = graphs_of(job);
                return graphs.has(GraphScope::moe) && graphs.has(GraphScope::moe_router);
              },
              "moe holds moe_router already", "leave one of them out"},
    GraphRule{[](const Job& job) {
                const CudaGraphs& graphs = graphs_of(job);
                return graphs.has(GraphScope::moe_preprocess) &&
                       !graphs.has(GraphScope::moe_router);
              },
              "moe_preprocess is captured behind moe_router alone", "write moe_router beside it"},
    GraphRule{[](const Job& job) {
                return (graphs_of(job).has(GraphScope::moe) || graphs_of(job).full_iteration) &&
                       reads_counts_back(job);
              },
              "tokens of experts are counted on the device and read back, which no capture goes "
              "past",
              "give 'moe' a 'capacity_factor', or capture attn, moe_router and moe_preprocess"},
    GraphRule{[](const Job& job) {
                return graphs_of(job).of_layers() &&
                       std::holds_alternative<FullRecompute>(job.training->recompute);
              },
              "layers that are recomputed whole are captured in a full iteration alone",
              "write 'cuda_graph: full_iteration', or recompute parts of layers"},
    // transformer_config.py: "moe recompute is not supported with moe_router CUDA graph".
    GraphRule{[](const Job& job) {
                return graphs_of(job).has(GraphScope::moe_router) &&
                       recomputes(job, &SelectiveRecompute::experts);
              },
              "Megatron recomputes no layer of experts whose router is captured",
              "leave 'moe_router' out, or recompute 'moe-activation' and 'shared-experts'"},
    // moe_layer.py: moe_layer_recompute asks for another cuda_graph_impl than local.
    GraphRule{[](const Job& job) {
                return graphs_of(job).full_iteration &&
                       recomputes(job, &SelectiveRecompute::experts);
              },
              "Megatron recomputes no layer of experts where a full iteration is captured",
              "leave 'cuda_graph' out, or recompute 'shared-experts'"},
    // transformer_config.py: "attention dropout is not supported with graphed attention
    // recomputation", "hidden dropout is not supported with graphed MLP/MoE recomputation".
    GraphRule{[](const Job& job) {
                return dropout_of(job).attention > 0 && captures(job, GraphScope::attn) &&
                       recomputes(job, &SelectiveRecompute::attention_core);
              },
              "Megatron captures no attention with dropout whose core is recomputed",
              "leave 'attention-core' or 'cuda_graph' out, or set the model's dropout to 0"},
    GraphRule{[](const Job& job) {
                if (dropout_of(job).residual == 0) return false;
                return (captures(job, GraphScope::mlp) &&
                        recomputes(job, &SelectiveRecompute::feed_forward)) ||
                       (captures(job, GraphScope::moe) &&
                        recomputes(job, &SelectiveRecompute::experts));
              },
              "Megatron captures no feed-forward that is recomputed beside dropout",
              "leave 'recompute' or 'cuda_graph' out, or set the model's dropout to 0"},
    GraphRule{[](const Job& job) { return job.training->offloaded_layers > 0; },
              "Megatron captures nothing whose activations go to the host",
              "leave 'cuda_graph' or 'offload_activations' out"},
};

}  // namespace

void check_cuda_graphs(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!graphs_of(job).any()) return;
  const SourceSpan span = root.find("training")->find("implementation")->find("cuda_graph")->span;
  for (const GraphRule& rule : kGraphRules) {
    if (!rule.broken(job)) continue;
    diagnostics.push_back(error_at(span, rule.message, rule.hint));
  }
  if (shards_by<BucketShards>(job)) {
    diagnostics.push_back(unavailable_at(span, "a CUDA graph beside Megatron-FSDP",
                                         "leave 'cuda_graph' or 'fsdp' out"));
  }
}

}  // namespace memest
