// One training step as asked for: sizes, precision, optimizer, recompute and the framework whose
// kernels run. Inference shares the part that a forward pass alone asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/spec/compression/teacher.hpp"
#include "memest/spec/data_loading.hpp"
#include "memest/spec/float8.hpp"
#include "memest/spec/implementation.hpp"
#include "memest/spec/optimizer.hpp"
#include "memest/spec/recipe.hpp"
#include "memest/spec/recompute/recompute.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// "none", "full", "selective", "every 2", "sqrt", "in the layers 0, 2 to 4".
std::string text_of(const Recompute& recompute);
/// As `training.recompute` takes it: "full", "{every: 2}".
std::string spec_value_of(const Recompute& recompute);

/// Around forward and loss of a plain loop: what autograd saves waits in the host's memory for its
/// node's backward (torch.autograd.graph.save_on_cpu).
struct SaveOnCpu {
  bool pin_memory = false;  ///< in page-locked memory

  friend bool operator==(const SaveOnCpu&, const SaveOnCpu&) = default;
};

/// The sequences of a micro-batch lie one behind the other as one, without padding, and attention
/// tells its documents apart by where they begin (TRL's padding_free, and packing with
/// packing_strategy bfd).
struct PaddingFree {
  std::int64_t documents = 1;  ///< that each sequence of seq_len tokens holds, as long as another

  friend bool operator==(const PaddingFree&, const PaddingFree&) = default;
};

enum class ZeroGrad : std::uint8_t {
  set_to_none,  ///< gradients are freed before the next forward
  zeros         ///< gradients stay allocated
};

/// The scalar from which the backward pass starts.
enum class TrainingLoss : std::uint8_t { cross_entropy, sum_of_logits };

/// One pass of the model over a batch, with or without a backward behind it.
struct ForwardSpec {
  std::int64_t seq_len = 0;
  std::int64_t micro_batch = 1;  ///< sequences a GPU at once
  Recipe recipe;
  Implementation implementation;
  bool dropout = true;     ///< false: the model's dropout probabilities count as zero
  bool use_cache = false;  ///< the model fills a key-value cache and answers it
  std::optional<Float8Linears> float8 = {};
  std::optional<TeLinears> te_linears = {};

  /// Kernels of Liger's or modules of torchao's stand in the model: beside them what was recorded
  /// has an answer, no other sharing and no offload.
  [[nodiscard]] bool replaces_modules() const { return implementation.liger.any() || float8; }
};

struct TrainingSpec : ForwardSpec {
  std::int64_t gradient_accumulation = 1;  ///< micro-steps a step
  Optimizer optimizer;
  OptimizerImplementation optimizer_implementation = OptimizerImplementation::foreach_;
  Recompute recompute = NoRecompute{};
  bool loop_reenters = false;                  ///< the loop makes its checkpoints reentrant ones
  std::optional<Bytes> recompute_budget = {};  ///< for which `recompute` was chosen
  std::optional<SaveOnCpu> offload_activations = {};
  /// Layers, from the first on, whose saved tensors wait there: Transformer Engine's
  /// get_cpu_offload_context, Megatron's cpu_offloading_num_layers.
  std::int64_t offloaded_layers = 0;
  TrainingLoss loss = TrainingLoss::cross_entropy;
  bool clip_gradients = false;
  ZeroGrad zero_grad = ZeroGrad::set_to_none;
  /// The precision under FSDP, whose own policy takes the place of autocast; none where it
  /// is the same.
  std::optional<Recipe> recipe_of_fsdp = {};
  std::int64_t completion_len =
      0;  ///< tokens of each sequence that are targets; 0: all but the first
  std::optional<PaddingFree> padding_free = {};
  bool hold_outputs = false;  ///< the logits stay referenced until the next forward
  /// A second copy of the model follows the weights behind every step
  /// (torch.optim.swa_utils.AveragedModel).
  bool averages_weights = false;
  /// The optimizer steps each parameter when its gradient is complete, and lets that go.
  bool steps_in_backward = false;
  std::int64_t steps = 2;  ///< how many the timeline replays
  std::optional<DataLoading> data = {};
  std::shared_ptr<const Teacher> teacher = nullptr;  ///< that is learned from; null: none

  /// Saved tensors wait in the host's memory, by whatever hooks.
  [[nodiscard]] bool saves_on_host() const {
    return offload_activations.has_value() || offloaded_layers > 0;
  }
};

/// Gives the optimizer what the job's loop makes of it: transformers' Trainer has bitsandbytes keep
/// the states of embeddings in fp32 (trainer.py, create_optimizer).
void adapt_optimizer_to_loop(TrainingSpec& training);

}  // namespace memest
