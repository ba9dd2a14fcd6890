#include "reader/job/read_job.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "memest/reader/catalog.hpp"
#include "memest/reader/residuals.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/units/int128.hpp"
#include "reader/frameworks/compression.hpp"
#include "reader/frameworks/distillation.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/offload_activations.hpp"
#include "reader/frameworks/recompute.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/frameworks/torchtitan.hpp"
#include "reader/frameworks/trainer.hpp"
#include "reader/job/check_parallelism.hpp"
#include "reader/job/free_key.hpp"
#include "reader/job/read_allocator.hpp"
#include "reader/job/read_cluster.hpp"
#include "reader/job/read_inference.hpp"
#include "reader/job/read_model.hpp"
#include "reader/job/read_training.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/foreign.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

void append(const Diagnostics& more, Diagnostics& diagnostics) {
  diagnostics.insert(diagnostics.end(), more.begin(), more.end());
}

std::optional<Value> find_preset(const std::string& name) {
  const EmbeddedFile* file = find_embedded("models/" + name + ".yaml");
  if (file == nullptr) return std::nullopt;
  return embedded_value(*file, std::string(kPresetPrefix) + name);
}

/// The document's hint about the file `name`; one that a shell would take apart stays FILE.
std::string hint_for(const ForeignDocument& document, const std::string& name) {
  constexpr std::string_view kFile = "FILE";
  std::string hint(document.hint);
  const std::size_t at = hint.find(kFile);
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7F &&
           std::string_view("\"'`$&|;<>()*?[]{}!#~\\").find(static_cast<char>(c)) ==
               std::string_view::npos;
  });
  if (at != std::string::npos && plain) hint.replace(at, kFile.size(), name);
  return hint;
}

Checked<Value> read_tree(const SourcePointer& source) {
  Checked<Value> tree = parse_source(source);
  if (!tree.ok()) return tree;
  if (tree.value().kind != ValueKind::mapping) {
    return error_at(tree.value().span, "a spec is a mapping of keys",
                    "`memest init` writes a starter spec");
  }
  if (const ForeignDocument* document = find_foreign_document(tree.value())) {
    return error_at({source, 0, 0, 0}, "this is " + std::string(document->noun) + ", no spec",
                    hint_for(*document, source->name));
  }
  return tree;
}

/// The tree behind an argument: that of a text in memory, of a file, or of a preset where it names
/// neither.
Checked<Value> find_tree(const std::string& name, const std::vector<SourceText>& texts) {
  const auto text_in_memory = std::ranges::find(texts, name, &SourceText::name);
  if (text_in_memory != texts.end()) {
    return read_tree(std::make_shared<const SourceText>(*text_in_memory));
  }
  if (name == "-" || is_path(name) || file_exists(name)) {
    const Checked<SourcePointer> text = read_argument(name);
    return text.ok() ? read_tree(text.value()) : text.diagnostics();
  }
  if (std::optional<Value> preset = find_preset(name)) return *std::move(preset);
  const auto source = std::make_shared<const SourceText>(SourceText{name, ""});
  const std::string hint = suggestion(name, model_names());
  return error_at({source, 0, 0, 0}, "neither a file nor a preset",
                  hint.empty() ? "`memest models` lists the presets" : hint);
}

/// Puts a preset's own keys in place of its name, so that `--set model.layers=2` has something to
/// override.
void expand_preset(Value& root) {
  for (Member& member : root.members) {
    // `training.teacher` has a model of its own.
    if (member.key == "training" || member.key == "teacher") expand_preset(member.value);
    if (member.key != "model" || member.value.kind != ValueKind::scalar) continue;
    const std::optional<Value> preset = find_preset(member.value.text);
    if (!preset) return;  // check_table names the nearest
    const Value* model = preset->find("model");
    expect(model != nullptr, "a preset has a model");
    member.value = *model;
  }
}

using TextPlace = std::tuple<const SourceText*, std::int32_t, std::int32_t>;
using RefusedPlaces = std::set<TextPlace>;

TextPlace text_place_of(const SourceSpan& span) {
  return {span.source.get(), span.line, span.column};
}

RefusedPlaces refused_places(const Diagnostics& diagnostics) {
  RefusedPlaces places;
  for (const Diagnostic& one : diagnostics) {
    if (one.severity == Severity::error) places.insert(text_place_of(one.span));
  }
  return places;
}

/// Takes out of the tree every number or word that check_table has refused, which the readers then
/// find left out: what they say of the rest never comes of a value out of its bounds.
void drop_refused(Value& tree, const RefusedPlaces& refused) {
  std::erase_if(tree.members, [&](const Member& member) {
    return member.value.kind == ValueKind::scalar &&
           refused.contains(text_place_of(member.value.span));
  });
  for (Member& member : tree.members) drop_refused(member.value, refused);
  for (Value& item : tree.items) drop_refused(item, refused);
}

void note_given(const Value& training, Job& job) {
  job.given.global_batch = training.find("global_batch") != nullptr;
  job.given.micro_batch = training.find("micro_batch") != nullptr;
  job.given.recompute = training.find("recompute") != nullptr;
}

/// In the order of the text, one a place: what check_table says of a value comes before what else
/// may follow from it.
void tidy(Diagnostics& diagnostics) {
  std::vector<const SourceText*> sources;
  for (const Diagnostic& diagnostic : diagnostics) {
    const SourceText* source = diagnostic.span.source.get();
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(source);
    }
  }
  const auto place = [&sources](const Diagnostic& diagnostic) {
    const SourceSpan& span = diagnostic.span;
    const auto source = std::find(sources.begin(), sources.end(), span.source.get());
    return std::tuple(source - sources.begin(), span.line, span.column);
  };
  std::stable_sort(
      diagnostics.begin(), diagnostics.end(),
      [&](const Diagnostic& left, const Diagnostic& right) { return place(left) < place(right); });
  const auto repeated = std::unique(diagnostics.begin(), diagnostics.end(),
                                    [&](const Diagnostic& left, const Diagnostic& right) {
                                      return left.span.line > 0 && place(left) == place(right);
                                    });
  diagnostics.erase(repeated, diagnostics.end());
}

/// Sets the framework's defaults for layout keys that the spec leaves out.
void set_layout_of_framework(const Value* written, Job& job) {
  if (!job.training || written == nullptr) return;
  Parallelism& parallelism = job.parallelism;
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  const bool several = has_chunks(parallelism.schedule);
  if (framework.stages_of_rank > 1 && several && written->find("virtual_stages") == nullptr) {
    parallelism.virtual_stages = framework.stages_of_rank;
  }
  const Value* fsdp = written->find("fsdp");
  const bool leaves_open = fsdp != nullptr && fsdp->find("reshard_after_forward") == nullptr;
  if (parallelism.shards_rows() && leaves_open) {
    parallelism.fsdp->reshard = framework.reshard;
  }
  // Megatron's ZeRO 1 is its distributed optimizer.
  if (framework.sharer == Sharer::megatron && parallelism.zero == ZeroStage::optimizer) {
    parallelism.distributed_optimizer = true;
  }
}

Checked<Job> build_job(const Value& root, std::string name, Diagnostics diagnostics) {
  const std::size_t schema_errors = diagnostics.size();
  const auto mapping = [&root](std::string_view key) {
    const Value* value = root.find(key);
    return value != nullptr && value->kind == ValueKind::mapping ? value : nullptr;
  };
  Job job;
  job.name = std::move(name);
  bool has_model = false;
  if (const Value* model = mapping("model")) {
    if (auto spec = read_model(*model, name_of_source(model->span), diagnostics)) {
      job.model = *std::move(spec);
      has_model = true;
    }
  }
  const Value* compression = mapping("compression");
  if (has_model && compression != nullptr) {
    read_compression(*compression, job.model, diagnostics);
  }
  read_cluster({.parallelism = mapping("parallelism"), .hardware = mapping("hardware")}, job,
               diagnostics);
  if (const Value* training = mapping("training")) {
    const TrainingContext context{.model = has_model ? &job.model : nullptr,
                                  .parallelism = job.parallelism};
    if (auto read = read_training(*training, context, diagnostics)) {
      job.training = std::move(read->spec);
      job.model.adapter = std::move(read->adapter);
      read_quantized_base(root, job.model, diagnostics);
      job.training->teacher = read_teacher(*training, diagnostics);
      const bool mixture = job.model.experts() != nullptr;
      job.scaled_margins = find_margins(job.training->implementation, mixture);
      job.source_margins = find_source_margins();
    }
    note_given(*training, job);
  }
  if (const Value* inference = mapping("inference")) {
    job.inference = read_inference(*inference, has_model ? &job.model : nullptr, diagnostics);
    if (job.inference) job.scaled_margins = find_margins(job.inference->implementation);
  }
  set_layout_of_framework(mapping("parallelism"), job);
  check_inference_alone(root, job, diagnostics);
  check_parallelism(mapping("parallelism"), job, diagnostics);
  check_megatron(root, job, diagnostics);
  check_torchtitan(root, job, diagnostics);
  check_trainer(root, job, diagnostics);
  check_recompute(root, job, diagnostics);
  check_offload_activations(root, job, diagnostics);
  check_compression(root, job, diagnostics);
  check_teacher(root, job, diagnostics);
  if (job.training) check_rules(recipe_rules(), root, job, diagnostics);
  job.budget = read_budget(mapping("budget"));
  job.allocator = read_allocator(mapping("allocator"), diagnostics);
  const bool failed = std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) {
    return d.severity == Severity::error;
  });
  expect(failed || (has_model && schema_errors == 0), "a job without a model and without a reason");
  tidy(diagnostics);
  if (failed) return diagnostics;
  return {std::move(job), std::move(diagnostics)};
}

/// The GPUs of a flag, and the data-parallel ranks that the other ranks of the job leave of them.
class GpusOfFlag {
 public:
  GpusOfFlag(std::int64_t gpus, Value& root)
      : gpus_(gpus),
        root_(root),
        span_{std::make_shared<const SourceText>(SourceText{"--gpus", std::to_string(gpus)}), 1, 1,
              static_cast<std::int32_t>(std::to_string(gpus).size())} {}

  /// Drops both keys as the files write them.
  void forget() {
    for (const auto& [section, key] : {std::pair{"hardware", "count"}, {"parallelism", "data"}}) {
      const auto found = std::ranges::find(root_.members, section, &Member::key);
      if (found == root_.members.end()) continue;
      std::erase_if(found->value.members, [key = key](const Member& m) { return m.key == key; });
    }
  }

  void write(Diagnostics& diagnostics) {
    put("hardware", "count", gpus_);
    std::int64_t others = 1;
    std::string text;
    const Value* parallelism = root_.find("parallelism");
    if (parallelism != nullptr && parallelism->find("data") != nullptr) return;
    for (const char* key : {"tensor", "pipeline", "context"}) {
      const Value* written = parallelism == nullptr ? nullptr : parallelism->find(key);
      const std::int64_t ranks =
          std::clamp<std::int64_t>(as_count(written).value_or(1), 1, gpus_ + 1);
      if (ranks == 1) continue;
      others = std::min(gpus_ + 1, checked_multiply(others, ranks));
      text += (text.empty() ? "" : " x ") + std::string(key) + " " + *as_text(written);
    }
    if (gpus_ % others == 0) return put("parallelism", "data", gpus_ / others);
    diagnostics.push_back(error_at(
        span_, std::to_string(gpus_) + " GPUs do not divide into " + text,
        "data-parallel ranks are what tensor, pipeline and context ranks leave of the GPUs"));
  }

 private:
  /// A section that is no mapping is refused by name later on.
  void put(const char* section, const char* key, std::int64_t number) {
    const Value* written = root_.find(section);
    if (written != nullptr && written->kind != ValueKind::mapping &&
        written->kind != ValueKind::null) {
      return;
    }
    Value value;
    value.kind = ValueKind::scalar;
    value.text = std::to_string(number);
    value.span = span_;
    for (const char* name : {key, section}) {
      Value mapping;
      mapping.kind = ValueKind::mapping;
      mapping.span = span_;
      mapping.members.push_back({name, span_, std::move(value)});
      value = std::move(mapping);
    }
    merge(root_, std::move(value));
  }

  std::int64_t gpus_;
  Value& root_;
  SourceSpan span_;
};

}  // namespace

Checked<Job> read_job(Value root, std::string name) {
  expand_preset(root);
  Diagnostics diagnostics;
  check_table(root, spec_keys(), {root.span.source, 0, 0, 0}, diagnostics);
  if (!diagnostics.empty()) drop_refused(root, refused_places(diagnostics));
  return build_job(root, std::move(name), std::move(diagnostics));
}

Checked<Value> read_tree(const ReadRequest& request) {
  expect(!request.files.empty(), "a request names at least one file");
  Value root;
  root.kind = ValueKind::mapping;
  Diagnostics diagnostics;
  for (const std::string& file : request.files) {
    Checked<Value> tree = find_tree(file, request.texts);
    append(tree.diagnostics(), diagnostics);
    if (!tree.ok()) continue;
    if (root.span.source == nullptr) root.span.source = tree.value().span.source;
    merge(root, std::move(tree).value());
  }
  expand_preset(root);
  if (request.gpus) GpusOfFlag(*request.gpus, root).forget();
  for (const SourceText& override_ : request.overrides) {
    Checked<Value> tree = parse_override(override_);
    append(tree.diagnostics(), diagnostics);
    if (tree.ok()) merge(root, std::move(tree).value());
  }
  for (const SourceText& key : request.freed) free_key(root, key, diagnostics);
  if (request.gpus) GpusOfFlag(*request.gpus, root).write(diagnostics);
  if (!diagnostics.empty()) return diagnostics;
  return root;
}

Checked<Job> read_job(const ReadRequest& request) {
  Checked<Value> root = read_tree(request);
  if (!root.ok()) return root.diagnostics();
  return read_job(std::move(root).value(), stem_of(request.files.front()));
}

Checked<Job> read_job(const std::shared_ptr<const SourceText>& source) {
  Checked<Value> tree = read_tree(source);
  if (!tree.ok()) return tree.diagnostics();
  return read_job(std::move(tree).value(), stem_of(source->name));
}

}  // namespace memest
