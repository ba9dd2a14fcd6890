#include "reader/job/read_training.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "memest/reader/catalog.hpp"
#include "memest/spec/framework.hpp"
#include "reader/adapters/adapted_recipe.hpp"
#include "reader/frameworks/compression.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/offload_activations.hpp"
#include "reader/job/read_implementation.hpp"
#include "reader/job/read_optimizer.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

DataLoading read_loading(const Value& written, const LoopRow& loop) {
  DataLoading loading;
  loading.workers = as_count(written.find("workers")).value_or(0);
  loading.prefetch = as_count(written.find("prefetch")).value_or(loading.prefetch);
  loading.pin_memory = as_flag(written.find("pin_memory")).value_or(loop.pins_batches);
  loading.sample_bytes = as_bytes(written.find("sample_bytes"));
  if (const auto seconds = as_quantity(written.find("sample_seconds"), Dimension::duration)) {
    loading.sample_seconds = Seconds(*seconds);
  }
  loading.dataset_bytes = as_bytes(written.find("dataset_bytes"));
  loading.shared_dataset = as_flag(written.find("shared_dataset")).value_or(false);
  return loading;
}

class TrainingReader {
 public:
  TrainingReader(const Value& training, const TrainingContext& context, Diagnostics& diagnostics)
      : training_(training), context_(context), diagnostics_(diagnostics) {}

  std::optional<ReadTraining> read() {
    const std::size_t before = diagnostics_.size();
    TrainingSpec spec;
    spec.seq_len = count("seq_len", 0);
    spec.implementation =
        read_implementation(training_.find("implementation"), context_.model, diagnostics_);
    spec.micro_batch = count("micro_batch", row_of(spec.implementation.loop).prefers ? 2 : 1);
    spec.completion_len = count("completion_len", 0);
    read_padding_free(spec);
    spec.gradient_accumulation = accumulation(spec.micro_batch);
    read_recipe(spec);
    adapter_ = adapt_recipe(training_, context_, spec, diagnostics_);
    read_hold_outputs(spec);
    read_optimizer(training_, spec, diagnostics_);
    spec.recompute = recompute(row_of(spec.implementation.loop));
    read_activation_offload(training_, spec, diagnostics_);
    spec.clip_gradients = flag("clip_gradients");
    spec.zero_grad =
        text("zero_grad", "set-to-none") == "zeros" ? ZeroGrad::zeros : ZeroGrad::set_to_none;
    spec.averages_weights = flag("ema");
    spec.use_cache = flag("use_cache");
    if (text("loss", "cross-entropy") == "sum-of-logits") spec.loss = TrainingLoss::sum_of_logits;
    spec.steps = count("steps", 2);
    spec.dropout = text("dropout", "own") != "off";
    read_float8(spec);
    read_optimizer_types(training_, spec, diagnostics_);
    read_data(spec);
    check_positions("seq_len", training_, context_.model, diagnostics_);
    check_images(spec);
    if (diagnostics_.size() > before) return std::nullopt;
    return ReadTraining{std::move(spec), std::move(adapter_)};
  }

 private:
  [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t fallback) const {
    return as_count(training_.find(key)).value_or(fallback);
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    return as_flag(training_.find(key)).value_or(false);
  }
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const {
    return as_text(training_.find(key)).value_or(std::string(fallback));
  }
  void error(std::string_view key, std::string message, std::string hint = {}) {
    diagnostics_.push_back(
        error_at(training_.find(key)->span, std::move(message), std::move(hint)));
  }

  void read_padding_free(TrainingSpec& spec) {
    const Value* written = training_.find("padding_free");
    if (written == nullptr) return;
    const bool packs = written->kind == ValueKind::mapping;
    if (!packs && !flag("padding_free")) return;
    spec.padding_free.emplace();
    if (packs) spec.padding_free->documents = as_count(written->find("documents")).value_or(1);
  }

  void check_images(const TrainingSpec& spec) {
    const auto* list =
        context_.model == nullptr ? nullptr : std::get_if<LayerList>(&context_.model->architecture);
    if (list == nullptr || !list->reads_images()) return;
    const auto* full = std::get_if<FullRecompute>(&spec.recompute);
    if (full != nullptr && full->reentrant) {
      diagnostics_.push_back(unavailable_at(training_.find("recompute")->span,
                                            "reentrant recompute of convolutional nets",
                                            "set 'recompute' to full"));
    }
    if (spec.seq_len == 1 || training_.find("seq_len") == nullptr) return;
    error("seq_len", "a sample is one image, which has no length in tokens", "set it to 1");
  }

  /// Megatron-core builds a loader on some of a model's ranks alone, train.py none at all.
  void read_data(TrainingSpec& spec) {
    const Value* written = training_.find("data");
    if (written == nullptr || written->kind != ValueKind::mapping) return;
    const LoopRow& loop = row_of(spec.implementation.loop);
    spec.data = read_loading(*written, loop);
    const FrameworkRow& framework = row_of(spec.implementation.framework);
    if (!loop.has_data_loader) {
      error("data", "nanoGPT's train.py reads its batches without a DataLoader",
            "leave 'data' out, or set 'loop' to plain");
    } else if (divides_optimizer_alone(framework.sharer)) {
      diagnostics_.push_back(unavailable_at(
          training_.find("data")->span, "the data loader in " + quote(framework.name),
          "leave 'data' out: which of a model's ranks load is not followed"));
    }
    const Value* prefetch = written->find("prefetch");
    if (prefetch != nullptr && spec.data->workers == 0) {
      diagnostics_.push_back(error_at(prefetch->span,
                                      "'prefetch' is of workers, and this loader has none",
                                      "set 'workers', or leave 'prefetch' out"));
    }
    const Value* shared = written->find("shared_dataset");
    if (spec.data->shared_dataset && !spec.data->dataset_bytes) {
      diagnostics_.push_back(error_at(shared->span, "no data set is held in memory",
                                      "set 'dataset_bytes', or leave 'shared_dataset' out"));
    }
  }

  /// torchtitan's [quantize.linear.float8], or convert_to_float8_training(...) before a loop.
  void read_float8(TrainingSpec& spec) {
    const Value* written = training_.find("float8");
    if (row_of(spec.implementation.framework).sharer == Sharer::megatron) {
      spec.te_linears = read_te_linears(written, spec.recipe, diagnostics_);
      name_precision(spec);
      return;
    }
    if (written == nullptr) return;
    refuse_te_keys(*written, diagnostics_);
    const std::string_view own = row_of(spec.implementation.framework).float8_filter;
    if (own.empty()) {
      error("float8",
            "the implementation " + quote(name_of(spec.implementation.framework)) +
                " has no linear layers of torchao's",
            "leave 'float8' out, or use transformers or torchtitan");
      return;
    }
    Float8Linears& float8 = spec.float8.emplace();
    const std::string recipe = as_text(written->find("recipe")).value_or("tensorwise");
    const auto* const known = std::ranges::find(
        kFloat8Recipes, recipe, [](Float8Recipe candidate) { return name_of(candidate); });
    if (known == kFloat8Recipes.end()) {
      diagnostics_.push_back(error_at(written->find("recipe")->span,
                                      "torchao has no recipe " + quote(recipe),
                                      "its are tensorwise, rowwise and rowwise_with_gw_hp"));
      return;
    }
    float8.recipe = *known;
    float8.all_gather = as_flag(written->find("all_gather")).value_or(false);
    const Value* filters = written->find("filter_fqns");
    if (filters == nullptr) {
      float8.filter_fqns = {std::string(own)};
    } else {
      for (const Value& filter : filters->items) float8.filter_fqns.push_back(filter.text);
    }
    check_float8(*written, spec);
  }

  void check_float8(const Value& written, const TrainingSpec& spec) {
    const Float8Linears& float8 = *spec.float8;
    const auto at = [&](std::string_view key) { return written.find(key)->span; };
    if (float8.all_gather && float8.recipe != Float8Recipe::tensorwise) {
      diagnostics_.push_back(error_at(at("all_gather"),
                                      "torchao gathers weights in fp8 with a scale a tensor alone",
                                      "leave 'all_gather' out, or set 'recipe' to tensorwise"));
    } else if (float8.all_gather && !context_.parallelism.shards_rows()) {
      diagnostics_.push_back(error_at(at("all_gather"), "FSDP2 alone gathers weights in fp8",
                                      "write 'fsdp: {version: 2}' in 'parallelism'"));
    }
    const TorchtitanRow& release = row_of(spec.implementation.torchtitan);
    if (float8.recipe != Float8Recipe::tensorwise && !release.scales_rows) {
      diagnostics_.push_back(error_at(
          at("recipe"),
          "torchtitan of " + std::string(release.name) + " scales float8 linears by tensors alone",
          "set 'recipe' to tensorwise, or write 'torchtitan: 2025-03' "
          "in 'implementation'"));
    }
    const bool small =
        std::ranges::find(float8.filter_fqns, kAutoFilterSmallKn) != float8.filter_fqns.end();
    if (small && float8.recipe == Float8Recipe::rowwise_with_gw_hp) {
      diagnostics_.push_back(
          // torchao/float8/float8_linear_utils.py: _auto_filter_for_recipe raises
          // NotImplementedError for it.
          error_at(at("filter_fqns"), "torchao filters no small layers of rowwise_with_gw_hp",
                   "leave 'auto_filter_small_kn' out, or set 'recipe' to rowwise"));
    }
    // No run of other programs was recorded.
    const bool listed = row_of(spec.implementation.framework).checkpoints == CheckpointRule::layers;
    if (std::holds_alternative<SelectiveRecompute>(spec.recompute) && !listed) {
      diagnostics_.push_back(unavailable_at(
          training_.find("recompute")->span,
          "selective recompute beside float8 linears in another program than torchtitan",
          "set 'recompute' to none or full"));
    }
    constexpr std::array<std::string_view, 4> kRecorded = {"fp32", "bf16", "amp-bf16",
                                                           "fsdp2-bf16"};
    if (std::ranges::find(kRecorded, spec.recipe.name) != kRecorded.end()) return;
    diagnostics_.push_back(unavailable_at(
        written.span, "float8 linears under the precision " + quote(spec.recipe.name),
        "use bf16, fp32 or amp-bf16"));
  }

  /// Micro-steps a step: as written, or as the global batch asks for.
  std::int64_t accumulation(std::int64_t micro_batch) {
    const std::int64_t written = count("gradient_accumulation", 1);
    const std::optional<std::int64_t> global = as_count(training_.find("global_batch"));
    // Bounds of the keys keep the product of any two of them within 64 bits.
    const std::int64_t ranks = context_.parallelism.data;
    if (!global || *global < 1 || micro_batch < 1 || micro_batch > kMaxCount || ranks < 1)
      return written;
    const std::int64_t at_once = micro_batch * ranks;
    const std::string product =
        "micro_batch " + std::to_string(micro_batch) + " x data " + std::to_string(ranks);
    if (*global % at_once != 0) {
      const std::int64_t below = *global / at_once * at_once;
      error("global_batch",
            "'global_batch' " + std::to_string(*global) + " is not a multiple of " + product +
                " = " + std::to_string(at_once),
            "use " + (below > 0 ? std::to_string(below) + " or " : "") +
                std::to_string(below + at_once));
      return written;
    }
    const std::int64_t needed = *global / at_once;
    if (training_.find("gradient_accumulation") != nullptr && written != needed && written > 0) {
      error("gradient_accumulation",
            "'gradient_accumulation' " + std::to_string(written) +
                " does not agree with 'global_batch' " + std::to_string(*global) + " and " +
                product,
            "leave one of them out; " + std::to_string(needed) + " would agree");
    }
    return needed;
  }

  void read_recipe(TrainingSpec& spec) {
    const std::string_view own = row_of(spec.implementation.framework).precision;
    Checked<Recipe> recipe = find_recipe(text("precision", own));
    if (!recipe.ok()) return;
    spec.recipe = std::move(recipe).value();
    // Under FSDP autocast is left out: its own policy gathers and reduces in the types asked for.
    // torchtitan's maybe_enable_amp enters autocast only without FSDP, TP and PP.
    if (!spec.recipe.autocast || spec.recipe.compute != DType::bf16) return;
    const std::string_view of_fsdp = row_of(spec.implementation.loop).fsdp_recipe;
    spec.recipe_of_fsdp = find_recipe(std::string(of_fsdp)).value();
    keep_frozen_weights(spec);
    if (context_.parallelism.fsdp) spec.recipe = *spec.recipe_of_fsdp;
  }

  /// accelerate 1.15, fsdp2_prepare_model widens what is trained alone: beside an adapter the
  /// weights stay as they are loaded.
  void keep_frozen_weights(TrainingSpec& spec) {
    const bool adapts = training_.find("adapter") != nullptr;
    if (!adapts || !row_of(spec.implementation.loop).accelerate) return;
    if (spec.recipe.weights == spec.recipe_of_fsdp->weights) return;
    spec.recipe_of_fsdp->weights = spec.recipe.weights;
    spec.recipe_of_fsdp->name = spec.recipe.name;
  }

  /// train.py keeps the logits by name: who keeps those of nanoGPT's model, and says no other loop,
  /// means it.
  void read_hold_outputs(TrainingSpec& spec) {
    Implementation& implementation = spec.implementation;
    const std::optional<bool> written = as_flag(training_.find("hold_outputs"));
    const bool holds = row_of(implementation.loop).holds_logits;
    spec.hold_outputs = written.value_or(holds);
    if (!spec.hold_outputs && holds) {
      // A program that comes with its framework is no choice of the spec's.
      const bool chosen = std::ranges::count(written_loops(), implementation.loop) > 0;
      error(
          "hold_outputs",
          std::string(row_of(implementation.loop).title) +
              " keeps the logits until the next forward",
          chosen ? "leave 'hold_outputs' out, or set 'loop' to plain" : "leave 'hold_outputs' out");
    }
    const Value* map = training_.find("implementation");
    if (map == nullptr || map->find("loop") != nullptr) return;
    const std::optional<LoopKind> own_program = row_of(implementation.framework).own_program;
    if (spec.hold_outputs && own_program) implementation.loop = *own_program;
  }

  [[nodiscard]] Recompute recompute(const LoopRow& loop) const {
    const Value* written = training_.find("recompute");
    if (written == nullptr) return loop.recomputes ? Recompute(FullRecompute{}) : NoRecompute{};
    if (written->text == "full") return FullRecompute{};
    if (written->text == "selective") return SelectiveRecompute{};
    if (written->text == "sqrt") return SqrtRecompute{};
    if (const Value* every = written->find("every")) {
      return EveryRecompute{.every = as_count(every).value_or(1)};
    }
    if (const Value* full = written->find("full")) {
      return full_recompute(*full);
    }
    if (const Value* blocks = written->find("blocks")) return chosen_recompute(*blocks);
    if (const Value* budget = written->find("budget")) {
      return BudgetRecompute{as_bytes(budget).value_or(Bytes())};
    }
    const Value* parts = written->find("selective");
    if (parts == nullptr || parts->items.empty()) return NoRecompute{};
    SelectiveRecompute chosen{.attention_core = false};
    for (const SelectiveWord& word : kSelectiveWords) {
      chosen.*word.part = std::ranges::count(parts->items, word.word, &Value::text) > 0;
    }
    return chosen;
  }

  [[nodiscard]] static Recompute chosen_recompute(const Value& blocks) {
    if (blocks.items.empty()) return NoRecompute{};
    ChosenRecompute chosen;
    for (const Value& layer : blocks.items) {
      chosen.layers.push_back(as_count(&layer).value_or(0));
    }
    std::ranges::sort(chosen.layers);
    return chosen;
  }

  [[nodiscard]] static FullRecompute full_recompute(const Value& full) {
    FullRecompute recompute;
    recompute.reentrant = as_flag(full.find("reentrant")).value_or(false);
    const Value* method = full.find("method");
    if (method != nullptr && method->text == "block") recompute.method = RecomputeMethod::block;
    recompute.layers = as_count(full.find("layers")).value_or(1);
    recompute.distribute = as_flag(full.find("distribute")).value_or(false);
    return recompute;
  }

  const Value& training_;
  const TrainingContext& context_;
  Diagnostics& diagnostics_;
  std::optional<Adapter> adapter_;
};

}  // namespace

void check_positions(std::string_view key, const Value& pass, const ModelSpec* model,
                     Diagnostics& diagnostics) {
  const auto* decoder = model == nullptr ? nullptr : std::get_if<DecoderSpec>(&model->architecture);
  if (decoder == nullptr || !std::holds_alternative<LearnedPosition>(decoder->position)) return;
  const std::int64_t tokens = as_count(pass.find(key)).value_or(0);
  if (decoder->max_positions <= 0 || tokens <= decoder->max_positions) return;
  diagnostics.push_back(error_at(pass.find(key)->span,
                                 quote(std::string(key)) + " " + std::to_string(tokens) +
                                     " is more than the " + std::to_string(decoder->max_positions) +
                                     " positions that the model has"));
}

std::optional<ReadTraining> read_training(const Value& training, const TrainingContext& context,
                                          Diagnostics& diagnostics) {
  return TrainingReader(training, context, diagnostics).read();
}

}  // namespace memest
