// A model as mathematics: which layers, which sizes. Which kernels compute it, and so what stays in
// memory for the backward pass, is the implementation's affair (spec/training.hpp). Sizes are
// elements; every count is positive unless said otherwise.
//
// Three kinds of model: a decoder-only transformer, a plain list of layers, and an inventory, which
// is a model known by its parameters alone (encoders, encoder-decoders, vision): it has counts and
// states but no graph, so no activations and no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/spec/adapter.hpp"
#include "memest/spec/compression/low_rank.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/compression/shared_layers.hpp"
#include "memest/spec/decoder.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/layers.hpp"
#include "memest/spec/vision/vision.hpp"

namespace memest {

/// A parameter tensor's use; decides FLOP conventions, autocast copies and optimizer choices.
enum class ParameterRole : std::uint8_t {
  matmul,     ///< a weight of a contraction (linear, convolution): cast under autocast
  embedding,  ///< a table that is looked up
  norm,       ///< gain or bias of a normalization
  bias,       ///< bias of a contraction
  other       ///< class tokens, relative-position tables, gates
};

/// The module of a parameter, where more than its role decides what a program does with it.
enum class ParameterModule : std::uint8_t {
  other,
  router,             ///< of experts, and the gate of shared ones
  positions,          ///< a learned table of them
  head_norm,          ///< of queries or keys, head by head
  attention_output,   ///< the product that sums over the heads
  feed_forward_down,  ///< the product that sums over the feed-forward's channels
  into_latents        ///< a product of latent attention that every tensor-parallel rank has whole
};

/// `count` tensors of one shape.
struct ParameterTensor {
  std::string name;  ///< as in the state dict, without the layer index: "self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  ///< as stored; [out, in] for torch.nn.Linear
  ParameterRole role = ParameterRole::matmul;
  std::int64_t count = 1;  ///< how many of them (layers × blocks)
  std::int64_t active_numerator =
      1;  ///< of `active_denominator` such tensors, how many one token uses (experts: K of E)
  std::int64_t active_denominator = 1;
  bool output_head = false;  ///< an embedding that is the output head's matrix as well (tied)
  bool trainable =
      true;  ///< false: created without gradient (sinusoidal tables of Pegasus, Marian, Whisper)
  bool whole_module = false;     ///< trained beside adapters in the weights' type, not in theirs
  bool quantized = false;        ///< kept as the codes of ModelSpec::quantized
  bool expert_parallel = false;  ///< an expert's, of which other expert-parallel ranks have others
  bool te_linear = false;  ///< multiplied in the type of Transformer Engine's recipe (TeLinears)
  /// Megatron's attributes of a table that the first and the last stage of a pipeline have each,
  /// and of the last one's, which is a copy.
  bool shared_embedding = false;
  bool copied = false;
  bool unread = false;  ///< wants a gradient that never comes, so not `trainable`
  ParameterModule module = ParameterModule::other;

  /// requires_grad
  [[nodiscard]] bool wants_gradient() const { return trainable || unread; }
};

enum class Family : std::uint8_t { decoder, encoder, encoder_decoder, vision, convnet, layer_list };

/// "decoder", "encoder-decoder", ...
std::string_view name_of(Family family);

/// The next `count` tensors of a row of the inventory.
struct PlacementStep {
  bool buffer = false;  ///< of `buffers`, else of `parameters`
  std::size_t row = 0;
  std::int64_t count = 1;
};

/// `repeat` equal stretches of a model, one after the other: a run of layers.
struct PlacementRun {
  std::int64_t repeat = 1;
  bool layers = false;  ///< each of them is a layer
  std::vector<PlacementStep> steps;
};

/// A model known by its parameters. The first parameter of role `embedding` is the input embedding
/// table.
struct Inventory {
  std::vector<ParameterTensor> parameters;
  std::vector<BufferTensor> buffers;
  /// The order in which torch.nn.Module.to() places the tensors: modules as they are registered, of
  /// each its submodules, its parameters, its buffers. Empty where it is not known.
  std::vector<PlacementRun> placement = {};
};

struct ModelSpec {
  std::string name;  ///< for people: "llama-3-8b", "gpt2 (config.json)"
  std::string
      model_type;  ///< Hugging Face's word where the model came from a config; empty otherwise
  Family family = Family::decoder;
  std::variant<DecoderSpec, LayerList, Inventory> architecture;
  std::optional<Adapter> adapter = {};   ///< trained instead of the model (`training.adapter`)
  std::optional<LowRank> low_rank = {};  ///< `compression.low_rank`
  std::optional<SharedLayers> shared_layers = {};  ///< `compression.share_layers`
  std::optional<QuantizedWeights> quantized = {};  ///< `compression.quantize`, `adapter.qlora`
  std::optional<VisionPart> vision = {};           ///< beside a decoder: images become its tokens
  /// The name of transformers' class says that its loss is a causal language model's: by it the
  /// Trainer counts targets. GPT2LMHeadModel's does not.
  bool named_for_causal_loss = true;

  /// The experts of a decoder's first layer that has any; null without.
  [[nodiscard]] const MixtureOfExperts* experts() const;
};

}  // namespace memest
