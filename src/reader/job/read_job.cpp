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
#include "memest/spec/parallel/cost_split.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "reader/adapters/adapter.hpp"
#include "reader/frameworks/compression.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/megatron_stages.hpp"
#include "reader/frameworks/offload_activations.hpp"
#include "reader/frameworks/recompute.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/job/check_parallelism.hpp"
#include "reader/job/read_allocator.hpp"
#include "reader/job/read_cluster.hpp"
#include "reader/job/read_implementation.hpp"
#include "reader/job/read_inference.hpp"
#include "reader/job/read_model.hpp"
#include "reader/job/read_training.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/multimodal/multimodal.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/second_models/average.hpp"
#include "reader/second_models/distillation.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

bool has_error(const Diagnostics& diagnostics) {
  return std::ranges::any_of(diagnostics,
                             [](const Diagnostic& one) { return one.severity == Severity::error; });
}

/// A job beside the warnings of its files; one that is refused is refused without them.
Checked<Job> with_warnings(Diagnostics warnings, Checked<Job> job) {
  if (!job.ok()) return job;
  append(job.diagnostics(), warnings);
  return {std::move(job).value(), std::move(warnings)};
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

/// Reads `zero: 3` as FSDP where the framework shards by nothing else, and several data ranks as
/// FSDP's where it has no replicas: what follows of the job asks how it is sharded.
void shard_as_framework(const Value& training, Job& job) {
  Parallelism& parallelism = job.parallelism;
  if (parallelism.fsdp) return;
  Diagnostics told_later;  // read_training says what is wrong with the implementation
  const FrameworkRow& framework = row_of(
      read_implementation(training.find("implementation"), &job.model, told_later).framework);
  const bool leaves_choice = framework.fsdp1 && !framework.fsdp1_without_adapter;
  if (!framework.fsdp2 || leaves_choice || framework.sharer != Sharer::none) return;
  const bool all =
      shards_all_ranks(framework) && parallelism.data > 1 && parallelism.zero == ZeroStage::none;
  if (!all && parallelism.zero != ZeroStage::optimizer_gradients_weights) return;
  parallelism.zero = ZeroStage::optimizer_gradients_weights;
  const bool flat = framework.fsdp1_without_adapter && training.find("adapter") == nullptr;
  const Sharing own = flat ? Sharing::by_flat_units() : Sharing::by_rows(framework.reshard, 1);
  parallelism.fsdp = own.fsdp;
}

/// Sets the framework's defaults for layout keys that the spec leaves out.
void set_layout_of_framework(const Value* written, Job& job, Diagnostics& diagnostics) {
  if (!job.training || written == nullptr) return;
  Parallelism& parallelism = job.parallelism;
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  const bool several = has_chunks(parallelism.schedule);
  if (framework.stages_of_rank > 1 && several && written->find("virtual_stages") == nullptr) {
    parallelism.virtual_stages = framework.stages_of_rank;
  }
  share_by_megatron_units(job);
  const Value* fsdp = written->find("fsdp");
  const bool leaves_open = fsdp != nullptr && fsdp->find("reshard_after_forward") == nullptr;
  if (parallelism.shards_rows() && leaves_open) {
    parallelism.fsdp->reshard = framework.reshard;
  }
  divide_by_deepspeed(job);
  divide_by_recipes(*written, job, diagnostics);
  if (framework.splits.deals_by_cost && parallelism.pipeline > 1 &&
      parallelism.stage_layers.empty()) {
    if (const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture)) {
      parallelism.stage_layers = stages_by_cost(*decoder, parallelism);
    }
  }
  // Megatron's ZeRO 1 is its distributed optimizer, where it is not DeepSpeed's.
  const bool own = framework.sharer == Sharer::megatron && !job.training->implementation.deepspeed;
  if (own && parallelism.zero == ZeroStage::optimizer) {
    parallelism.distributed_optimizer = true;
  }
}

/// Keys of `training` that say more of the model, and of a second one.
void read_rest_of_models(const Value& root, Job& job, Diagnostics& diagnostics) {
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  read_quantized_base(root, framework, job.model, diagnostics);
  settle_torchao_codes(job.model);
  // transformers 5.17, from_pretrained: deepspeed.zero.Init makes no model that is quantised.
  if (job.model.quantized) job.parallelism.deepspeed.zero_init = false;
  job.settle_adapter();
  read_images(*root.find("training"), job.model, diagnostics);
  read_teacher(*root.find("training"), job, diagnostics);
}

/// Other models than a whole decoder of text, and a second one.
void check_models(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_adapters(root, job, diagnostics);
  check_compression(root, job, diagnostics);
  check_teacher(root, job, diagnostics);
  check_average(root, job, diagnostics);
  check_images(root, job, diagnostics);
}

/// Each framework's own program refuses what it does not run.
void check_programs(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_megatron(root, job, diagnostics);
  check_torchtitan(root, job, diagnostics);
  check_torchtune(root, job, diagnostics);
  check_litgpt(root, job, diagnostics);
  check_nanotron(root, job, diagnostics);
  check_trainer(root, job, diagnostics);
  check_trl(root, job, diagnostics);
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
    if (has_model) shard_as_framework(*training, job);
    const TrainingContext context{.model = has_model ? &job.model : nullptr,
                                  .parallelism = job.parallelism};
    if (auto read = read_training(*training, context, diagnostics)) {
      job.training = std::move(read->spec);
      job.model.adapter = std::move(read->adapter);
      read_rest_of_models(root, job, diagnostics);
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
  set_layout_of_framework(mapping("parallelism"), job, diagnostics);
  check_inference_alone(root, job, diagnostics);
  check_parallelism(mapping("parallelism"), job, diagnostics);
  check_programs(root, job, diagnostics);
  check_implementation(root, job, diagnostics);
  check_recompute(root, job, diagnostics);
  check_offload_activations(root, job, diagnostics);
  check_models(root, job, diagnostics);
  if (job.training) check_rules(recipe_rules(), root, job, diagnostics);
  job.budget = read_budget(mapping("budget"));
  job.allocator = read_allocator(mapping("allocator"), diagnostics);
  const bool failed = has_error(diagnostics);
  expect(failed || (has_model && schema_errors == 0), "a job without a model and without a reason");
  tidy(diagnostics);
  if (failed) return diagnostics;
  return {std::move(job), std::move(diagnostics)};
}

}  // namespace

Checked<Job> read_job(Value root, std::string name) {
  expand_preset(root);
  Diagnostics diagnostics;
  check_table(root, spec_keys(), {root.span.source, 0, 0, 0}, diagnostics);
  if (!diagnostics.empty()) drop_refused(root, refused_places(diagnostics));
  return build_job(root, std::move(name), std::move(diagnostics));
}

Checked<Job> read_job(const ReadRequest& request) {
  Checked<ForeignSpec> spec = read_spec(request);
  if (!spec.ok()) return spec.diagnostics();
  Diagnostics warnings = spec.diagnostics();
  const Diagnostics missing = missing_hardware(spec.value(), request);
  warnings.insert(warnings.end(), missing.begin(), missing.end());
  return with_warnings(std::move(warnings),
                       read_job(std::move(spec).value().tree, stem_of(request.files.front())));
}

Checked<std::shared_ptr<const SourceText>> read_standard_input() { return read_argument("-"); }

Checked<Job> read_job(const std::shared_ptr<const SourceText>& source) {
  Checked<Value> tree = read_tree(source);
  if (!tree.ok()) return tree.diagnostics();
  return with_warnings(tree.diagnostics(),
                       read_job(std::move(tree).value(), stem_of(source->name)));
}

}  // namespace memest
