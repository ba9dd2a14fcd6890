// The keys of a job that say more of its images.
#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/multimodal/multimodal.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

struct FreezablePart {
  std::string_view name;
  bool FrozenParts::*frozen;
};
/// Modules of transformers' LlavaModel and Gemma3Model, and of Qwen2VLModel patch_embed and blocks
/// of `visual`, its merger, and the rest; the head goes with the language model.
constexpr std::array kFreezable = {FreezablePart{"vision_tower", &FrozenParts::tower},
                                   FreezablePart{"multi_modal_projector", &FrozenParts::projector},
                                   FreezablePart{"language_model", &FrozenParts::decoder}};

void read_freeze(const Value& freeze, VisionPart& vision, Diagnostics& diagnostics) {
  for (const Value& item : freeze.items) {
    for (const FreezablePart& part : kFreezable) {
      if (item.text == part.name) vision.frozen.*part.frozen = true;
    }
  }
  const FrozenParts& frozen = vision.frozen;
  if (!frozen.tower || !frozen.projector || !frozen.decoder) return;
  diagnostics.push_back(
      error_at(freeze.span, "nothing is trained", "leave one of the parts out of 'freeze'"));
}

const Value* excluded_parts(const Value& training) {
  const Value* const adapter = training.find("adapter");
  const Value* const lora = adapter == nullptr ? nullptr : adapter->find("lora");
  return lora == nullptr ? nullptr : lora->find("exclude");
}

/// peft freezes all that it adds nothing to: what a job says is where an adapter is not.
void read_exclude(const Value& exclude, VisionPart& vision) {
  for (const Value& item : exclude.items) {
    for (const FreezablePart& part : kFreezable) {
      if (item.text == part.name) vision.frozen.*part.frozen = true;
    }
  }
}

/// A whole number of tokens of the tower along each side.
void read_size(const Value& written, VisionPart& vision, Diagnostics& diagnostics) {
  constexpr std::int64_t kLargestSide = 16'384;
  PatchEmbedding& patches = vision.tower.patches;
  if (!vision.tower.packed) {
    diagnostics.push_back(error_at(written.span, "this model's config says the size of its images",
                                   "leave 'image_size' out"));
    return;
  }
  if (written.items.size() != 2) {
    diagnostics.push_back(error_at(written.span, "a size is height and width", "[1092, 812]"));
    return;
  }
  const std::int64_t step = patches.patch * vision.projector.pool;
  for (const Value& side : written.items) {
    const std::int64_t pixels = as_count(&side).value_or(step);
    if (pixels % step == 0 && pixels <= kLargestSide) continue;
    const std::int64_t nearest =
        std::clamp((pixels + step / 2) / step * step, step, kLargestSide / step * step);
    diagnostics.push_back(error_at(side.span,
                                   "the tower takes sides of a multiple of " +
                                       std::to_string(step) + " pixels, at most " +
                                       std::to_string(kLargestSide),
                                   "the processor resizes to it: " + std::to_string(nearest)));
    return;
  }
  patches.height = as_count(&written.items[0]).value_or(0);
  patches.width = as_count(&written.items[1]).value_or(0);
}

void check_length(const Value& training, const VisionPart& vision, Diagnostics& diagnostics) {
  const std::int64_t seq_len = as_count(training.find("seq_len")).value_or(0);
  // The processor of images of any size puts a token before and behind each.
  const std::int64_t around = vision.tower.packed ? 2 : 0;
  const std::int64_t tokens = checked_multiply(vision.images, vision.tokens_of_image() + around);
  if (tokens <= seq_len || seq_len == 0) return;
  diagnostics.push_back(error_at(
      training.find("images")->span,
      std::to_string(vision.images) + " images of " + std::to_string(vision.tokens_of_image()) +
          " tokens are more than the sequence's " + std::to_string(seq_len),
      "images' tokens count in 'seq_len'"));
}

constexpr NotRecorded kNotWithImages[] = {
    {[](const Job& job) { return !trains_in_replicas(job); },
     "on several GPUs but by DistributedDataParallel", "write 'parallelism: {data: N}' alone"},
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) {
       const LoopRow& loop = row_of(job.training->implementation.loop);
       return loop.takes_tiles || !loop.has_data_loader;
     },
     "in this loop", "leave 'loop' out, or use trainer"},
    // Qwen2_5_VLForConditionalGeneration.accepts_loss_kwargs = False: the Trainer divides its loss.
    {[](const Job& job) {
       return row_of(job.training->implementation.loop).accelerate &&
              job.model.vision->tower.windows.side > 0;
     },
     "whose loss takes no num_items_in_batch under the Trainer", "leave 'loop' out"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       const auto* full = std::get_if<FullRecompute>(&recompute);
       return full == nullptr ? !std::holds_alternative<NoRecompute>(recompute) : full->reentrant;
     },
     "beside this recompute", "set 'recompute' to none or full"},
    {[](const Job& job) {
       const std::string& name = job.training->recipe.name;
       return name != "bf16" && name != "fp32" && name != "amp-bf16";
     },
     "in this precision", "use bf16, fp32 or amp-bf16"},
    {[](const Job& job) { return job.training->implementation.torch != kRecordedTorchRelease; },
     "under another release of PyTorch than 2.11", "leave 'torch' out"}};

}  // namespace

void read_images(const Value& training, ModelSpec& model, Diagnostics& diagnostics) {
  const Value* const images = training.find("images");
  const Value* const freeze = training.find("freeze");
  const Value* const size = training.find("image_size");
  const Value* const exclude = excluded_parts(training);
  if (!model.vision) {
    for (const Value* written : {images, size, freeze, exclude}) {
      if (written == nullptr) continue;
      diagnostics.push_back(error_at(written->span, "this model has no vision tower",
                                     "leave 'images', 'image_size', 'freeze' and 'exclude' out"));
    }
    return;
  }
  if (exclude != nullptr) read_exclude(*exclude, *model.vision);
  model.vision->images = as_count(images).value_or(0);
  if (size != nullptr) read_size(*size, *model.vision, diagnostics);
  if (images != nullptr) check_length(training, *model.vision, diagnostics);
  if (freeze != nullptr && model.adapter) {
    diagnostics.push_back(error_at(freeze->span, "an adapter freezes the whole model",
                                   "'exclude: [vision_tower]' of the adapter leaves a part's "
                                   "modules without one"));
    return;
  }
  if (freeze != nullptr) read_freeze(*freeze, *model.vision, diagnostics);
}

void check_images(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const Value* const training = root.find("training");
  const Value* const images = training == nullptr ? nullptr : training->find("images");
  if (!job.model.vision || !job.training || images == nullptr) return;
  constexpr Beside kRecorded[] = {Beside::several_gpus, Beside::other_loop};
  refuse_unrecorded(
      {.noun = "a model with images", .key = "images", .written = *images, .recorded = kRecorded},
      kNotWithImages, job, diagnostics);
}

}  // namespace memest
