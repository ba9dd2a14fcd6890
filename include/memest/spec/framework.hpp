// Frameworks and loops, a row each: which releases are followed, the kernels that are their own,
// what they split and shard, how they checkpoint, where their model ends, and their defaults. Who
// asks what a framework does asks its row; its name is spelled in its own files alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/implementation.hpp"
#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

struct ChangeWords;

/// The program whose runs were recorded (tests/truth/README.md).
struct RecordedProgram {
  std::string_view package = {};  ///< as its project calls it; empty where PyTorch alone ran
  std::string_view release = {};
};
inline constexpr std::string_view kRecordedTorch = "2.11";

/// The dimensions that a framework divides beside the data.
struct ModelSplits {
  bool tensor = false;
  bool context = false;
  bool context_in_te_alone = false;  ///< only Transformer Engine's layers divide a sequence
  bool pipeline = false;
  bool ties_over_stages = false;  ///< the first and last stage may share a tied embedding
  bool own_ends = false;          ///< first and last stages with layers of their own number
  bool deals = false;             ///< layers over any number of stages, as evenly as it goes
  bool deals_by_cost = false;     ///< layers and head over stages of as equal a cost as it goes
  bool expert = false;
  bool by_dtensor = false;  ///< tensor ranks hold torch.distributed.tensor's shards

  [[nodiscard]] bool any() const { return tensor || context || pipeline || expert; }
};

/// Beside 1F1B.
enum class PipelineSchedules : std::uint8_t {
  none,
  gpipe,
  interleaved,
  all  ///< torch.distributed.pipelining's
};

/// The program that shards the states of a model's replicas, beside FSDP.
enum class Sharer : std::uint8_t {
  none,
  deepspeed,    ///< ZeRO 1 to 3, with what each offloads
  zero_stages,  ///< ZeRO's stages as a formula, which offloads nothing
  megatron,     ///< its distributed optimizer
  nanotron      ///< ZeRO 1: a part of every parameter a rank
};
/// Whether ranks may divide the optimizer's states, and nothing else.
constexpr bool divides_optimizer_alone(Sharer sharer) {
  return sharer == Sharer::megatron || sharer == Sharer::nanotron;
}

/// Who recomputes, and how far.
enum class CheckpointRule : std::uint8_t {
  torch,      ///< torch.utils.checkpoint: a second forward ends behind what it saves last
  layers,     ///< torch.utils.checkpoint around each layer by itself, with early_stop=False
  reentrant,  ///< torch.utils.checkpoint.CheckpointFunction around each layer by itself
  megatron,   ///< its own re-entrant function, over the layers of a stage
  formula     ///< whole forwards are counted
};

/// How fully_shard cuts a model: a unit a layer; of the rest, parts or one unit.
struct FsdpUnits {
  /// The input embedding is a unit, and the final norm with the output head: one unit together
  /// where the embedding is tied. The root's unit has all other parameters.
  bool ends_apart = false;
  bool loss_in_model = true;   ///< the root ends with the loss, else with the logits
  bool root_reshards = false;  ///< fully_shard of the whole model is told reshard_after_forward too
  /// A tied table is a parameter of both units, each of which gathers it.
  bool gathers_tied_twice = false;
  /// Over expert-parallel ranks a layer's experts are a unit of their own, and each unit gathers
  /// those of its neighbour ahead in both passes.
  bool experts_apart = false;
  /// LoRA's matrices are submodules of the layer that they adapt, and registered before its weight.
  bool adapters_first = false;
};

/// A framework's name for a precision that others have: the same types of weights, gradients,
/// masters and products, or the nearest that it trains in.
struct PrecisionName {
  std::string_view written;
  std::string_view own;
};

struct FrameworkRow {
  std::string_view name;  ///< as specs write it
  RecordedProgram recorded = {};
  std::string_view asks;  ///< what a team must do to train so
  /// Stands for the model type where the model's class is the framework's own, not transformers'.
  std::string_view model_type = {};
  Implementation own;  ///< what runs where the spec says nothing else
  /// The loop of its own training program where that is not what runs by default.
  std::optional<LoopKind> own_program = {};
  bool has_layer_specs = false;  ///< Megatron's: its own modules, or Transformer Engine's
  bool compiles_blocks = false;
  bool compiles_whole = false;  ///< a model that it traces as one graph was recorded
  bool takes_liger = false;     ///< Liger's kernels may stand in its models
  /// The module that is left out where its linear layers are torchao's float8 ones and the spec
  /// does not say which; none: they cannot be.
  std::string_view float8_filter = {};
  bool trains_layer_lists = false;  ///< and nothing else
  bool saves_on_cpu = false;  ///< torch.autograd.graph.save_on_cpu around its forward was recorded
  bool is_compared = false;   ///< by a search whose spec names no implementation
  /// Its layers are its own code's: no Transformer Engine, no optimizer of Megatron's.
  bool torch_precisions_alone = false;
  bool fused_adamw = false;                 ///< where the spec says nothing else, whatever the loop
  std::string_view precision = "amp-bf16";  ///< where the spec says none
  std::span<const PrecisionName> precisions = {};

  ModelSplits splits = {};
  PipelineSchedules schedules = PipelineSchedules::none;
  std::int64_t stages_of_rank = 1;  ///< of schedules with several a rank, where nothing is said
  std::int64_t end_layers = 0;  ///< each end of the model counts as so many layers of a pipeline
  /// Gathers and reductions run behind the passes unless the spec says otherwise.
  bool overlaps = false;

  Sharer sharer = Sharer::none;
  bool fsdp1 = false;
  bool fsdp2 = false;
  bool fsdp1_without_adapter = false;       ///< and FSDP2 with one alone
  std::string_view sharded_precision = {};  ///< the one over ranks; empty: any
  FsdpUnits units = {};
  Reshard reshard = Reshard::always;        ///< fully_shard's, where nothing is said
  std::optional<ShardInit> only_init = {};  ///< where its model is made before it is sharded
  bool replicates_divided_models = false;   ///< whole copies of a model that other ranks divide
  bool ddp = false;                         ///< replicas are PyTorch's DistributedDataParallel
  bool gradient_buffer = false;             ///< one for all gradients, there for good
  /// To that buffer: until then all of a backward's gradients lie beside it.
  bool adds_behind_backward = false;
  CheckpointRule checkpoints = CheckpointRule::torch;
  bool recomputes_parts = true;  ///< some layers, or some operations of them, where a spec asks
  /// Leaves no choice: every layer where ranks share the model, none on one GPU.
  bool recomputes_over_ranks = false;
  /// Beside frozen weights and checkpoints embeddings are made to want a gradient, as reentrant
  /// checkpoints ask for (transformers, enable_input_require_grads).
  bool embeddings_want_gradient = true;
  bool adapters_in_type = false;  ///< LoRA's weights have the model's type, whatever peft's would
  /// Queries, keys and values of its model are one product, whatever the spec's are.
  bool joins_projections = false;
  /// Codes stand for all linear layers, the output head too, their scales in fp32 (bnb.nf4).
  bool quantizes_all = false;
  WeightFormat codes = WeightFormat::nf4;  ///< of `qlora`
  bool unties_embeddings = false;          ///< its model has an output head of its own in any case
  /// Selective recompute is a checkpoint around each layer that keeps what contractions make, else
  /// one around the parts of a layer that are recomputed.
  bool keeps_contractions = false;
  bool fills_steps = false;  ///< fused kernels leave few gaps between them
  /// Interleaved ranks compute on while their messages to the next stage are on their way.
  bool sends_beside_work = false;
  bool is_formula = false;  ///< no program: the field's formulas
  const ChangeWords* change_words = nullptr;
};

/// Whether FSDP2 shards the weights over whatever data ranks there are: it has no replicas.
constexpr bool shards_all_ranks(const FrameworkRow& framework) {
  return framework.fsdp2 && !framework.ddp && framework.sharer == Sharer::none;
}

const FrameworkRow& row_of(Framework framework);

/// The program whose behaviour is modelled: the recorded one, or that of other layers, as its
/// sources have it.
const RecordedProgram& modelled_program(const Implementation& implementation);

/// The frameworks in the order in which they are offered.
std::span<const Framework> frameworks();
/// The framework called `name`; none where none is called so.
std::optional<Framework> framework_named(std::string_view name);
/// The framework that trains models listed layer by layer, or the one that trains all others.
Framework default_framework(bool layer_list);

/// Whether the layers of `implementation` divide a sequence over ranks.
bool divides_sequences(const Implementation& implementation);

struct LoopRow {
  std::string_view name;                 ///< as specs write it
  std::string_view title = {};           ///< as people call the program
  std::optional<Framework> trains = {};  ///< whose models alone; none: any
  std::string_view model_type = {};      ///< as a framework's, of the program's own class
  bool accelerate = false;               ///< accelerate prepares model and optimizer
  /// The context that keeps gradients whole until a step's last micro-step, with its package;
  /// empty: none.
  std::string_view no_sync = {};
  bool fused_adamw = false;          ///< where the spec says nothing else
  bool own_adafactor = false;        ///< transformers' class, a loop over parameters
  bool holds_logits = false;         ///< by name, until the next forward
  bool keeps_batches = false;        ///< all of a step's, in a list
  bool takes_batches_first = false;  ///< all of a step's, before its first forward
  bool pins_batches = false;         ///< pin_memory where the spec says nothing else
  bool has_data_loader = true;       ///< PyTorch's
  bool divides_by_targets = false;   ///< the sum of the loss, by the targets of the step
  bool steps_in_backward = false;    ///< the optimizer, if asked to
  bool sums_targets = false;         ///< over the ranks, with the losses (torchtune)
  bool takes_tiles = false;          ///< log-probabilities of the targets, by tiles of the logits
  bool prefers = false;              ///< which of two answers, beside a frozen reference
  bool passes_token_mask = false;    ///< with every batch, of the tokens that are no padding
  /// Beside the position ids of joined sequences: where documents begin, and each token's.
  bool sends_documents = false;
  bool recomputes = false;                      ///< whole layers, where the spec says nothing else
  std::string_view fsdp_recipe = "fsdp2-bf16";  ///< bf16 autocast's recipe under FSDP
  const ChangeWords* change_words = nullptr;    ///< where they are not the framework's
};

const LoopRow& row_of(LoopKind loop);

/// The loops that a spec may write; torchtitan's comes with its framework.
std::span<const LoopKind> written_loops();

}  // namespace memest
