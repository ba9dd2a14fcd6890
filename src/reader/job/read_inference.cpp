#include "reader/job/read_inference.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memest/reader/catalog.hpp"
#include "reader/job/read_implementation.hpp"
#include "reader/job/read_training.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

constexpr const char* kLater = "it comes with a later version";

/// Recipes whose weights are what a forward without gradients reads.
void check_recipe(const Value* written, const Recipe& recipe, Diagnostics& diagnostics) {
  if (!recipe.gathered_units && recipe.fp8_weight_copies == 0 && !recipe.te_recipe) return;
  diagnostics.push_back(unavailable_at(written->span,
                                       "inference under the precision " + quote(recipe.name),
                                       std::string(kLater) + "; use bf16, fp16, fp32 or amp-bf16"));
}

/// A DynamicCache keeps keys and values in the type in which they are made.
void check_cache_type(const Value* written, const Recipe& recipe, Diagnostics& diagnostics) {
  if (written == nullptr || written->text != name_of(DType::bf16)) return;
  if (recipe.weights == DType::bf16 && !recipe.autocast) return;
  diagnostics.push_back(unavailable_at(
      written->span, "a cache in another type than that of the keys under " + quote(recipe.name),
      std::string(kLater) + "; leave 'cache' out"));
}

/// The last token is not read: prompt + generate - 1 positions are.
void check_generated_positions(const Value& inference, const ModelSpec* model,
                               const Generation& generation, Diagnostics& diagnostics) {
  const auto* decoder = model == nullptr ? nullptr : std::get_if<DecoderSpec>(&model->architecture);
  if (decoder == nullptr || !std::holds_alternative<LearnedPosition>(decoder->position)) return;
  const std::int64_t prompt = as_count(inference.find("prompt")).value_or(0);
  const std::int64_t most = decoder->max_positions;
  if (most <= 0 || prompt > most || prompt + generation.tokens - 1 <= most) return;
  diagnostics.push_back(
      error_at(inference.find("generate")->span,
               "'generate' " + std::to_string(generation.tokens) + " behind 'prompt' " +
                   std::to_string(prompt) + " is more than the " + std::to_string(most) +
                   " positions that the model has",
               "set 'generate' to " + std::to_string(most - prompt + 1) + " or less"));
}

/// The forward alone, or generate(), which asks for the logits of the last token alone.
std::optional<Generation> read_generation(const Value& inference, Diagnostics& diagnostics) {
  const auto count = [&inference](std::string_view key, std::int64_t fallback) {
    return as_count(inference.find(key)).value_or(fallback);
  };
  Generation generation;
  generation.tokens = count("generate", 0);
  generation.beams = count("beams", 1);
  generation.samples = as_flag(inference.find("sample")).value_or(false);
  const auto refuse = [&](std::string_view key, std::string message, std::string hint) {
    diagnostics.push_back(error_at(inference.find(key)->span, std::move(message), std::move(hint)));
  };
  if (generation.tokens == 0) {
    const char* const hint = "say how many tokens with 'generate'";
    if (generation.beams > 1) refuse("beams", "the forward of a prompt alone has no beams", hint);
    if (generation.samples) refuse("sample", "the forward of a prompt alone draws no token", hint);
    return std::nullopt;
  }
  if (generation.samples && generation.beams > 1) {
    diagnostics.push_back(unavailable_at(inference.find("sample")->span, "sampling among beams",
                                         std::string(kLater) + "; leave 'sample' or 'beams' out"));
  }
  if (as_text(inference.find("logits")).value_or("last") == "all") {
    refuse("logits", "generate() computes the logits of the last token alone",
           "leave 'logits' out");
  }
  if (!as_flag(inference.find("use_cache")).value_or(true)) {
    diagnostics.push_back(unavailable_at(inference.find("use_cache")->span,
                                         "generation without a key-value cache",
                                         std::string(kLater) + "; leave 'use_cache' out"));
  }
  return generation;
}

/// A preset trains; named in a file, it is its model alone.
std::string hint_of_both(const SourceSpan& training) {
  const std::string_view name =
      training.source == nullptr ? std::string_view() : std::string_view(training.source->name);
  if (!name.starts_with(kPresetPrefix)) return "remove one of them";
  return "the training is the preset's; a spec that names it takes its model alone:\nmodel: " +
         std::string(name.substr(kPresetPrefix.size())) + "\ninference: {prompt: 2048}";
}

}  // namespace

std::optional<InferenceSpec> read_inference(const Value& inference, const ModelSpec* model,
                                            Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  const auto text = [&inference](std::string_view key, const char* fallback) {
    return as_text(inference.find(key)).value_or(fallback);
  };
  InferenceSpec spec;
  spec.seq_len = as_count(inference.find("prompt")).value_or(0);
  spec.generation = read_generation(inference, diagnostics);
  spec.micro_batch = as_count(inference.find("batch")).value_or(1) * spec.beams();
  Checked<Recipe> recipe = find_recipe(text("precision", "bf16"));
  if (!recipe.ok()) return std::nullopt;  // refused by check_table
  spec.recipe = std::move(recipe).value();
  check_recipe(inference.find("precision"), spec.recipe, diagnostics);
  check_cache_type(inference.find("cache"), spec.recipe, diagnostics);
  spec.implementation = read_implementation(inference.find("implementation"), model, diagnostics);
  spec.dropout = false;
  spec.use_cache = as_flag(inference.find("use_cache")).value_or(true);
  // generate() asks the prefill for the last token's logits (logits_to_keep=1), a plain call for
  // all.
  spec.logits = text("logits", "last") == "all" ? KeptLogits::all : KeptLogits::last;
  check_positions("prompt", inference, model, diagnostics);
  if (spec.generation) {
    check_generated_positions(inference, model, *spec.generation, diagnostics);
  }
  if (diagnostics.size() > before) return std::nullopt;
  return spec;
}

void check_inference_alone(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const auto inference =
      std::find_if(root.members.begin(), root.members.end(),
                   [](const Member& member) { return member.key == "inference"; });
  if (inference == root.members.end()) return;
  const auto training = std::find_if(root.members.begin(), root.members.end(),
                                     [](const Member& member) { return member.key == "training"; });
  if (training != root.members.end()) {
    diagnostics.push_back(error_at(inference->key_span,
                                   "a spec has 'training' or 'inference', not both",
                                   hint_of_both(training->key_span)));
  }
  if (job.hardware.count > 1) {
    diagnostics.push_back(unavailable_at(inference->key_span, "inference on several GPUs",
                                         std::string(kLater) + "; set 'hardware.count' to 1"));
  }
}

}  // namespace memest
