// The jobs whose images have no graph.
#include <algorithm>
#include <array>
#include <string>

#include "graph/lower/vision/packed_tower.hpp"
#include "graph/lower/vision/vision.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Attention of a packed tower is written part by part.
std::optional<Unavailable> parts_refusal(const VisionPart& vision, std::int64_t micro_batch) {
  constexpr std::int64_t kMostParts = 4'096;
  const VisionTower& tower = vision.tower;
  if (!tower.packed || vision.images == 0) return std::nullopt;
  std::int64_t of_image = 1;
  if (tower.windows.side > 0) {
    of_image =
        static_cast<std::int64_t>(window_lengths(tower, vision.projector.pool).lengths.size());
  }
  const Int128 parts = Int128(vision.images) * micro_batch * of_image;
  if (parts <= kMostParts) return std::nullopt;
  return Unavailable{
      "memory and time of more than 4,096 images of a micro-batch, or windows of them, that "
      "attention sees one by one are not available"};
}

}  // namespace

bool has_tower_module(const DecoderContext& context, std::string_view target) {
  if (context.vision->frozen.tower) return false;
  const LoweringPolicy policy = policy_of_tower(context.policy, *context.vision);
  return has_module(context_of_tower(context, policy), target);
}

std::optional<Unavailable> tower_adapter_refusal(const DecoderContext& context,
                                                 std::string_view target) {
  // Qwen2VisionTransformerPretrainedModel.patch_embed.proj, a Conv3d.
  const bool names_patches = context.vision->tower.packed && is_named("patch_embed.proj", target);
  if (context.vision->frozen.tower || !names_patches) return std::nullopt;
  return Unavailable{"an adapter of the patches' convolution, which '" + std::string(target) +
                     "' of 'adapter' names too, is not available yet"};
}

std::optional<Unavailable> vision_refusal(const ModelSpec& model, const LoweringPolicy& policy) {
  const VisionPart& vision = *model.vision;
  if (policy.gradients && vision.images == 0) {
    return Unavailable{
        "memory and time of a model with images need their number: write 'images', those of each "
        "sequence, in 'training'"};
  }
  if (vision.images > 0 && vision.tower.patches.height == 0) {
    return Unavailable{
        "memory and time of a model that takes images of any size need theirs: write 'image_size', "
        "height and width in pixels, in 'training'"};
  }
  if (checked_multiply(vision.images, vision.tokens_of_image()) > policy.seq_len) {
    return Unavailable{"images of more tokens than their sequence has are not available"};
  }
  if (auto parts = parts_refusal(vision, policy.micro_batch)) return parts;
  // One that is frozen is written out as one block.
  constexpr std::int64_t kMostLayersOfTower = 256;
  if (vision.tower.encoder.layers() > kMostLayersOfTower) {
    return Unavailable{
        "memory and time of a vision tower of more than 256 layers are not available"};
  }
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  const bool rotates =
      decoder != nullptr && std::holds_alternative<RotaryPosition>(decoder->position);
  constexpr std::array kKernels = {AttentionKernel::sdpa, AttentionKernel::sdpa_flash,
                                   AttentionKernel::sdpa_efficient, AttentionKernel::sdpa_cudnn};
  struct Asked {
    bool asked;
    const char* what;
  };
  const Implementation& implementation = policy.implementation;
  const std::array<Asked, 9> asked = {
      Asked{!rotates, "a decoder whose positions do not rotate"},
      Asked{std::ranges::find(kKernels, implementation.attention) == kKernels.end(),
            "attention that is written out"},
      Asked{!policy.gradients, "inference"},
      Asked{model.adapter && model.adapter->kind != AdapterKind::lora, "adapters other than LoRA"},
      Asked{model.quantized || model.low_rank || model.shared_layers, "compression"},
      Asked{implementation.liger.any() || policy.float8, "Liger's kernels or float8 linears"},
      Asked{implementation.compile != CompileScope::off, "torch.compile"},
      Asked{policy.teacher != nullptr || policy.end != ForwardEnd::cross_entropy, "another loss"},
      Asked{policy.saves_on_cpu || policy.key_value_cache, "saved tensors on the host or a cache"}};
  for (const Asked& one : asked) {
    if (!one.asked) continue;
    return Unavailable{std::string("memory and time of images beside ") + one.what +
                       " are not available yet"};
  }
  return std::nullopt;
}

}  // namespace memest
