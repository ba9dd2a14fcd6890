#include "memest/reader/write_spec.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "memest/reader/read_job.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

/// Sequences longer than this are rarely trained on, whatever the model could take.
constexpr std::int64_t kUsualContext = 8192;

/// Classes whose habits memest assumes of a decoder whose config it does not know.
constexpr std::array<std::string_view, 2> kGenericTypes = {"llama", "mistral"};

std::string line(std::string_view key, const std::string& value) {
  return "  " + std::string(key) + ": " + value + "\n";
}
std::string line(std::string_view key, std::int64_t value) {
  return line(key, std::to_string(value));
}

std::string indented(const std::string& text, const std::string& indentation) {
  std::string result;
  bool line_start = true;
  for (const char c : text) {
    if (line_start) result += indentation;
    result += c;
    line_start = c == '\n';
  }
  return result;
}

/// The keys of `family: decoder` for a model of equal layers with softmax attention and a dense
/// feed-forward. Traits that these keys cannot express are left out: reading them back tells.
std::string written_decoder(const DecoderSpec& decoder) {
  const auto* const attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  const LayerKind& kind = decoder.kinds.front();
  const auto* const feed_forward = std::get_if<DenseFeedForward>(&kind.feed_forward);
  if (attention == nullptr || feed_forward == nullptr) return {};
  std::string keys = line("family", "decoder") + line("layers", decoder.layers()) +
                     line("hidden_size", decoder.hidden_size) + line("heads", attention->heads) +
                     line("kv_heads", attention->kv_heads);
  if (attention->head_dim * attention->heads != decoder.hidden_size) {
    keys += line("head_dim", attention->head_dim);
  }
  keys += line("ffn_size", feed_forward->size) + line("vocab_size", decoder.vocab_size) +
          line("activation", feed_forward->gated ? "swiglu" : "silu") + line("norm", "rmsnorm") +
          line("position", "rope") + line("max_positions", decoder.max_positions);
  if (feed_forward->bias) keys += line("bias", "true");
  if (decoder.tied_embeddings) keys += line("tied_embeddings", "true");
  if (kind.sliding_window) keys += line("sliding_window", *kind.sliding_window);
  return keys;
}

/// The longest sequence that the model takes; 0 where nothing says.
std::int64_t context_of(const ModelSpec& model) {
  const auto* const decoder = std::get_if<DecoderSpec>(&model.architecture);
  return decoder == nullptr ? 0 : decoder->max_positions;
}

std::string keys_of_images(const VisionPart& vision) {
  const std::string number = "  images: 1  # of each sequence";
  if (!vision.tower.packed) {
    return number + "; each is " + std::to_string(vision.tokens_of_image()) + " of its tokens\n";
  }
  const std::int64_t step = vision.tower.patches.patch * vision.projector.pool;
  constexpr std::int64_t kUsualTokens = 16;  // along a side
  const std::string side = std::to_string(kUsualTokens * step);
  return number + "\n  image_size: [" + side + ", " + side + "]  # pixels, multiples of " +
         std::to_string(step) + "; a token each " + std::to_string(step) + "x" +
         std::to_string(step) + "\n";
}

std::string training_section(const ModelSpec& model) {
  const std::int64_t context = context_of(model);
  const std::int64_t seq_len = context == 0 ? 512 : std::min(context, kUsualContext);
  const std::string limit =
      context > seq_len ? "; the model takes up to " + std::to_string(context) : "";
  const bool images = model.vision.has_value();
  const std::string of_images = images ? keys_of_images(*model.vision) : "";
  return "training:\n"
         "  seq_len: " +
         std::to_string(seq_len) + "  # tokens a sequence" + limit + "\n" + of_images +
         "  global_batch: 512  # sequences a step over all GPUs\n"
         "  precision: " +
         (images ? "amp-bf16" : "mixed") +
         "  # `memest recipes` lists the others\n"
         "  optimizer: adamw  # `memest optimizers` lists the others\n"
         "  # recompute: full  # none, full, selective, sqrt, {every: 2}\n"
         "  implementation: transformers\n";
}

/// Weights that are codes are frozen: such a model answers as it is.
std::string job_section(const ModelSpec& model) {
  if (!model.quantized) return training_section(model);
  return "compression: {quantize: " + spec_value_of(*model.quantized) +
         "}\n"
         "# or 'training' of adapters, see docs/techniques/compression.md\n"
         "inference: {prompt: 512, batch: 1, precision: bf16}\n";
}

std::string head(const ModelSpec& model) {
  return "# " + harmless_text(model.name) + ", from a Hugging Face config of model_type " +
         model.model_type + ".\n";
}

std::string with_config_keys(const ImportedModel& imported) {
  return head(imported.model) +
         "# The keys under `hf` are those of the config that decide the model.\n"
         "model:\n  hf:\n" +
         indented(imported.keys, "    ") + (imported.is_part ? line("text_only", "true") : "") +
         job_section(imported.model);
}

/// The spec with memest's own keys, where they say everything.
std::optional<std::string> with_decoder_keys(const ModelSpec& model) {
  const auto* const decoder = std::get_if<DecoderSpec>(&model.architecture);
  const bool generic = std::find(kGenericTypes.begin(), kGenericTypes.end(), model.model_type) !=
                       kGenericTypes.end();
  if (decoder == nullptr || !generic || model.vision) return std::nullopt;
  std::string spec = head(model) +
                     "# The keys of `model` are memest's own; they say all that the config says.\n"
                     "model:\n" +
                     written_decoder(*decoder) + job_section(model);
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"import.yaml", spec}));
  if (!job.ok()) return std::nullopt;
  const auto* const read = std::get_if<DecoderSpec>(&job.value().model.architecture);
  if (read == nullptr || !(*read == *decoder)) return std::nullopt;
  return spec;
}

}  // namespace

std::string write_spec(const ImportedModel& imported) {
  const std::optional<std::string> own = with_decoder_keys(imported.model);
  return own ? *own : with_config_keys(imported);
}

}  // namespace memest
