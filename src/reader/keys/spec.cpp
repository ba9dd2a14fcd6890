// The keys of a spec file, and those of `inference`.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr Word kCaches[] = {{"bf16"}, {"fp8", "a key-value cache in fp8"}};
constexpr Word kLogits[] = {{"last"}, {"all"}};
constexpr Key kPagedKeys[] = {
    {.name = "block",
     .shapes = {count(1, 1'000'000)},
     .fallback = "16",
     .doc = "Tokens of a page."},
};

}  // namespace

std::span<const Key> inference_keys() {
  static const Key kKeys[] = {
      {.name = "prompt", .shapes = {count()}, .doc = "Tokens of a prompt.", .required = true},
      {.name = "generate",
       .shapes = {count(0, 100'000)},
       .fallback = "0",
       .doc = "Tokens that `generate()` makes; 0 is the forward of the prompt alone."},
      {.name = "batch", .shapes = {count()}, .fallback = "1", .doc = "Prompts at once."},
      {.name = "beams",
       .shapes = {count(1, 1'000)},
       .fallback = "1",
       .doc = "Beams of a prompt (`num_beams`): sequences that are searched side by side."},
      {.name = "sample",
       .shapes = {flag()},
       .fallback = "false",
       .doc = "Tokens are drawn (`do_sample`, of the 50 likeliest), not the likeliest taken."},
      {.name = "cache",
       .shapes = {choice(kCaches)},
       .doc = "Type of the key-value cache; where it is left out, that of the keys."},
      {.name = "paged",
       .shapes = {table(kPagedKeys)},
       .doc = "The cache is kept in pages.",
       .later = "a cache in pages"},
      {.name = "use_cache", .shapes = {flag()}, .fallback = "true", .doc = "A cache is kept."},
      {.name = "logits",
       .shapes = {choice(kLogits)},
       .fallback = "last",
       .doc = "Of which tokens logits are computed."},
      {.name = "precision",
       .shapes = {catalog("recipes")},
       .fallback = "bf16",
       .doc = "A precision recipe's name."},
      {.name = "implementation",
       .shapes = {choice(framework_words()), table(implementation_keys())},
       .fallback = "transformers",
       .doc = "As in training."},
  };
  return kKeys;
}

std::span<const Key> spec_keys() {
  static const Key kKeys[] = {
      {.name = "model",
       .shapes = {catalog("models"), table(decoder_keys()), table(hf_keys()),
                  table(layer_list_keys())},
       .doc = "The model: a preset's name, a Hugging Face config, a family with its sizes, or a "
              "list of layers.",
       .required = true},
      {.name = "training", .shapes = {table(training_keys())}, .doc = "One training step."},
      {.name = "compression",
       .shapes = {table(compression_keys())},
       .doc = "Changes of the model that make it smaller."},
      {.name = "parallelism",
       .shapes = {table(parallelism_keys())},
       .doc = "How the step is spread over GPUs; what is left out is 1 or off."},
      {.name = "hardware", .shapes = {table(hardware_keys())}, .doc = "What it runs on."},
      {.name = "budget",
       .shapes = {table(budget_keys())},
       .doc = "What `memest check` holds the file to."},
      {.name = "inference",
       .shapes = {table(inference_keys())},
       .doc = "The forward of prompts without gradients, instead of training."},
      {.name = "allocator",
       .shapes = {table(allocator_keys())},
       .doc = "Options of PyTorch's allocator, by its own names."},
  };
  return kKeys;
}

std::span<const Key> recorded_spec_keys() {
  static const Key kKeys[] = {
      {.name = "recording",
       .shapes = {text()},
       .doc = "What `memest record` wrote, a path relative to this file.",
       .required = true},
      {.name = "at",
       .shapes = {document()},
       .doc = "Of a recording for many sizes each of its numbers: {batch: 8, seq: 1024}."},
      {.name = "hardware",
       .shapes = {table(recorded_hardware_keys())},
       .doc = "What it is to run on; where left out, the GPU that was recorded."},
      {.name = "budget",
       .shapes = {table(budget_keys())},
       .doc = "What `memest check` holds the file to."},
      {.name = "allocator",
       .shapes = {table(allocator_keys())},
       .doc = "Options of PyTorch's allocator; where left out, those that were recorded."},
  };
  return kKeys;
}

}  // namespace memest
