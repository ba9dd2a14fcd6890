// Lowering: a model and an implementation become a graph. Written once a family; the implementation
// decides which kernels run and what they keep. Rules and sources: docs/model.md.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/float8.hpp"
#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/spec/inference.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

/// The result with which the forward ends.
enum class ForwardEnd : std::uint8_t { cross_entropy, sum_of_logits, logits, last_logits };

/// A stage of a pipeline: layers [first, first + count), and the model's ends.
struct ModelPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool embedding = true;
  bool head = true;

  friend bool operator==(const ModelPart&, const ModelPart&) = default;
};

/// The part of a layer that runs again in its backward, as which a compiled layer is one program
/// with it.
enum class RunsAgain : std::uint8_t { nothing, all_but_selected, all };

/// Sequences one behind the other (TrainingSpec::padding_free).
struct JoinedSequences {
  std::int64_t sequences = 1;
  std::int64_t documents = 1;  ///< of each

  friend bool operator==(const JoinedSequences&, const JoinedSequences&) = default;
};

/// The properties of the job that the lowering needs beside the model.
struct LoweringPolicy {
  Implementation implementation;
  DType weights = DType::bf16;
  /// The type of the model as it is stored, where it is all-gathered in another.
  std::optional<DType> stored = {};
  DType compute = DType::bf16;
  bool autocast = false;  ///< compute differs from weights by torch.autocast
  /// A block's arguments are cast to `weights` (fully_shard's cast_forward_inputs).
  bool casts_arguments = false;
  /// The type of buffers beside FSDP, where it decides it: FSDP1 casts them
  /// (MixedPrecision.buffer_dtype), FSDP2 leaves them as reset_parameters() makes them.
  std::optional<DType> sharded_buffers = {};
  bool dropout = true;
  std::optional<Float8Linears> float8 = {};
  std::optional<TeLinears> te_linears = {};
  std::int64_t seq_len = 0;         ///< decides sliding windows and kernel choices
  std::int64_t micro_batch = 1;     ///< decides copies that b = 1 avoids
  std::int64_t completion_len = 0;  ///< TrainingSpec::completion_len
  /// All of a micro-batch's sequences are one; `micro_batch` is 1 then, and `seq_len` the length of
  /// all. Absent: they lie apart.
  std::optional<JoinedSequences> joined = {};
  /// Embeddings are told to want a gradient though nothing before them is trained: what peft asks
  /// of a model whose layers are recomputed.
  bool embeddings_want_gradient = false;
  /// Frozen parameters of the layers get gradients all the same: they are views of one tensor with
  /// adapters, which is trained (FSDP1).
  bool layers_get_gradients = false;
  bool gradients = true;                             ///< false: under torch.no_grad
  bool frozen = false;                               ///< no parameter requires a gradient
  std::shared_ptr<const Teacher> teacher = nullptr;  ///< whose answers stand in the loss
  bool reference_is_model = false;  ///< of preferences, run by the model itself without adapters
  std::int64_t reporting = 1;       ///< data ranks of which the loop gathers numbers to report
  bool copies_answers = false;      ///< DistributedDataParallel's _DDPSink around the model
  bool units_around_peft = false;   ///< accelerate has cut peft's model into FSDP2's units
  /// Saved tensors of the layers wait on the host. From page-locked memory they come back
  /// packed, and so are gradients like them.
  std::optional<SaveOnCpu> saves_on_cpu = {};
  bool offloads_layers = false;  ///< TrainingSpec::offloaded_layers: those of some layers do
  bool key_value_cache = false;  ///< transformers' DynamicCache, filled by the forward
  /// Tokens that generate()'s cache holds before the pass; absent: no pass of generate().
  std::optional<std::int64_t> past = {};
  std::int64_t new_tokens = 0;  ///< of generate(): one is of the prompt's own pass
  ForwardEnd end = ForwardEnd::cross_entropy;
  ComputeCapability capability = kHopper;  ///< decides which attention `sdpa` means
  std::int64_t multiprocessors = 0;        ///< how flash attention cuts small jobs; 0: not known
  bool symbolic_tensor_parallel = false;   ///< textbook only: t stays a symbol in the formulas
  /// Norms and residual sums on shards of the sequence, with t.
  bool sequence_parallel = false;
  /// Ranks that a sequence lies on: `seq_len` is one's part of it.
  std::int64_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int64_t tensor = 1;          ///< ranks that share a layer's products: t of the formulas
  std::int64_t expert = 1;          ///< ranks that share a layer's experts: x of the formulas
  bool in_pieces = false;           ///< DeepSpeed's ZeRO 3 multiplies in F.linear's place
  bool whole_experts = false;       ///< not cut over the tensor-parallel ranks
  bool keeps_contractions = false;  ///< checkpoints around its layers keep what these make
  RunsAgain runs_again = RunsAgain::nothing;
  std::optional<SelectiveRecompute> recomputed_parts = {};  ///< of each layer
  std::vector<ModelPart> parts = {};  ///< a pipeline rank's stages; empty: the whole model

  /// Targets of a sequence of a causal loss: no document's first token is one.
  [[nodiscard]] std::int64_t targets() const {
    const std::int64_t all = seq_len - (joined ? joined->sequences * joined->documents : 1);
    return completion_len > 0 && completion_len < all ? completion_len : all;
  }
  [[nodiscard]] bool unpacks_by_rows() const { return saves_on_cpu && saves_on_cpu->pin_memory; }
};

/// The policy of `training` on a GPU of compute capability `capability` with so many
/// multiprocessors.
LoweringPolicy policy_of(const TrainingSpec& training, ComputeCapability capability,
                         std::int64_t multiprocessors = 0);
/// That of `inference`.
LoweringPolicy policy_of(const InferenceSpec& inference, ComputeCapability capability,
                         std::int64_t multiprocessors = 0);

/// The graph of one micro-step or of one forward, or why this model has none yet. Throws
/// OverflowError for sizes out of range.
std::variant<Graph, Unavailable> lower(const ModelSpec& model, const LoweringPolicy& policy);

}  // namespace memest
