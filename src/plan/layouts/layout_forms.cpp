#include "plan/layouts/layout_forms.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"
#include "memest/memory/flattening.hpp"
#include "memest/memory/host_memory.hpp"
#include "memest/memory/state_ledger.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/parallel/replicas.hpp"

namespace memest {
namespace {

/// Whether two graphs differ at most in the sizes bound to their letters.
bool same_formulas(const Lowered& left, const Lowered& right) {
  const auto* graph = std::get_if<Graph>(&left);
  const auto* other = std::get_if<Graph>(&right);
  return graph != nullptr && other != nullptr && graph->order == other->order &&
         graph->blocks == other->blocks;
}

const DecoderSpec* decoder_of(const Job& job) {
  return std::get_if<DecoderSpec>(&job.model.architecture);
}

/// Layers of each of the rank's stages, which are alike where there are several.
std::int64_t layers_at(StagePlace place, const StageSplit& split, const Parallelism& layout) {
  return split.stage(rank_at(place, layout)).count;
}

/// The first of the ranks between the ends that a list gives the most layers.
std::int64_t fullest_between(const Parallelism& layout) {
  std::int64_t fullest = 1;
  std::int64_t most = -1;
  for (std::int64_t rank = 1; rank + 1 < layout.pipeline; ++rank) {
    std::int64_t layers = 0;
    for (std::int64_t chunk = 0; chunk < layout.virtual_stages; ++chunk) {
      layers += layout.stage_layers[static_cast<std::size_t>(chunk * layout.pipeline + rank)];
    }
    if (layers > most) fullest = rank;
    most = std::max(most, layers);
  }
  return fullest;
}

std::int64_t elements_of_layer(const Graph& graph) {
  for (const Block& block : graph.blocks) {
    if (block.checkpointable) return narrow_to_int64(block.parameters().evaluate(graph.sizes));
  }
  return 0;
}

}  // namespace

std::int64_t rank_at(StagePlace place, const Parallelism& layout) {
  if (place == StagePlace::middle && !layout.stage_layers.empty()) return fullest_between(layout);
  return place == StagePlace::last ? layout.pipeline - 1 : static_cast<std::int64_t>(place);
}

bool may_take_most(StagePlace place, const Parallelism& layout, bool alike) {
  switch (place) {
    case StagePlace::first:
      return true;
    case StagePlace::middle:
      // 1F1B: stage r holds p - r micro-batches, so behind the first stage the second holds most;
      // it takes more only if it has more layers.
      return layout.pipeline > 2 && (!alike || layout.divides_unequally());
    case StagePlace::last:
      return layout.pipeline > 1;
  }
  unreachable("every place of a pipeline may take most or not");
}

bool has_layers_alike(const Job& job) {
  const DecoderSpec* decoder = decoder_of(job);
  return decoder != nullptr && decoder->kinds.size() == 1 && job.end_layers() == 0;
}

bool has_stages_alike(const Parallelism& layout) {
  return !layout.account_for_embedding && !layout.account_for_loss && layout.stage_layers.empty();
}

std::int64_t steps_of_form(const Job& job, const Parallelism& layout, const BatchChoice& batch) {
  constexpr std::int64_t kRounds = 4;  // of an interleaved pipeline, whose later ones are alike
  // From the second micro-batch on, sums of gradients stand: more of them change nothing.
  std::int64_t most = 2;
  // Megatron's stages of unequal numbers of layers are counted one by one as well.
  const bool counted =
      job.end_layers() > 0 || (layout.virtual_stages > 1 && !has_stages_alike(layout));
  if (layout.pipeline > 1 && counted) {
    if (layout.schedule == Schedule::gpipe) return batch.gradient_accumulation;
    // 1F1B needs a forward behind the first backward, when its rank holds summed gradients too.
    most = std::max(most,
                    layout.virtual_stages == 1 ? layout.pipeline + 1 : kRounds * layout.pipeline);
  }
  return std::min(batch.gradient_accumulation, most);
}

DeviceClass device_class_of(const GpuSpec& gpu) {
  DeviceClass result;
  result.capability = lowered_capability(gpu);
  if (!gpu.context) return result;
  result.context = gpu.context->value.value();
  const BytesRange range =
      gpu.context_range.value_or(BytesRange{gpu.context->value, gpu.context->value});
  result.context_low = range.low.value();
  result.context_high = range.high.value();
  return result;
}

StageSplit LayoutForms::split_of(const Parallelism& layout) const {
  const DecoderSpec* decoder = decoder_of(job_);
  return job_.stage_split(decoder == nullptr ? 1 : decoder->layers(), layout);
}

Job LayoutForms::job_for(const DeviceOfSearch& device, const Parallelism& layout,
                         const BatchChoice& batch) const {
  Job job = job_;
  job.hardware.gpu = *device.gpu;
  job.lay_over(layout);
  job.training->micro_batch = batch.micro_batch;
  job.training->gradient_accumulation = batch.gradient_accumulation;
  return job;
}

/// The part of a model that a stage has: where all layers are alike only its place matters.
LayoutForms::Part LayoutForms::part_of(const Parallelism& layout, StagePlace place) const {
  if (layout.pipeline == 1) return {};
  if (!alike(layout)) {
    const std::int64_t rank = rank_at(place, layout);
    return {layout.pipeline, layout.virtual_stages, rank, false,
            stages_of(split_of(layout), place_of(layout, rank))};
  }
  constexpr std::int64_t kRanks = kStagePlaces.size();
  constexpr std::int64_t kStages = 2;  // of an interleaved pipeline
  // A stage of one layer has no middle: its first layer is its last.
  const bool single = layers_at(place, split_of(layout), layout) == 1;
  return {kRanks, std::min(layout.virtual_stages, kStages), static_cast<std::int64_t>(place),
          single};
}

LayoutForms::FormsKey LayoutForms::forms_key(const StageSplit& split,
                                             const Parallelism& layout) const {
  std::int64_t places = 0;
  for (const StagePlace place : kStagePlaces) {
    if (!may_take_most(place, layout, alike_)) continue;
    const bool single = alike(layout) && layers_at(place, split, layout) == 1;
    places |= std::int64_t{single ? 3 : 1} << (2 * static_cast<int>(place));
  }
  return {layout_of_form(layout), places};
}

/// DeepSpeed cuts flat buffers and buckets into as many parts as there are ranks: a form for each
/// number of them.
Parallelism LayoutForms::layout_of_form(const Parallelism& layout) const {
  Parallelism form = layout;
  // Layouts that differ in what takes no memory share one form.
  form.overlap_grad_reduce = form.overlap_param_gather = false;  // take no memory
  const Sharing sharing = sharing_of(layout);
  // Experts that FSDP2 cuts by rows, by columns or not at all have formulas of their own.
  const bool cuts_experts = sharing.in_units() && layout.expert > 1;
  if (layout.data > 1 && !sharing.in_flat_parts() && !cuts_experts) {
    // Any number of data-parallel ranks has the formulas of two: it is a letter of theirs.
    // Replicas and groups of experts divide the data ranks: each part keeps two.
    form.data = 2 * sharing.replicas() * layout.expert;
  }
  if (layout.pipeline == 1 || !alike(layout)) return form;
  constexpr std::int64_t kStages = 2;  // of an interleaved pipeline
  form.pipeline = kStagePlaces.size();
  form.virtual_stages = std::min(layout.virtual_stages, kStages);
  form.first_stage_layers = form.last_stage_layers = 0;
  return form;
}

/// Stages of all layers each: what differs with their number is a letter of the formulas.
std::vector<ModelPart> LayoutForms::parts_of(const Part& part) const {
  const std::int64_t layers = part.single_layers ? 1 : decoder_of(job_)->layers();
  std::vector<ModelPart> parts(static_cast<std::size_t>(part.stages),
                               {.first = 0, .count = layers, .embedding = false, .head = false});
  parts.front().embedding = part.rank == 0;
  parts.back().head = part.rank + 1 == part.pipeline;
  return parts;
}

LayoutForms::GraphKey LayoutForms::key_of(const DeviceOfSearch& device, const Parallelism& layout,
                                          const Part& part) const {
  const GpuSpec& gpu = *device.gpu;
  constexpr std::int64_t kSeveral = 2;
  return {device.device.capability, gpu.multiprocessors ? gpu.multiprocessors->value : 0,
          layout.division(), part, std::min(reporting_ranks(*job_.training, layout), kSeveral)};
}

const Lowered& LayoutForms::graph_of(const GraphKey& key, const DeviceOfSearch& device,
                                     const Parallelism& layout, std::int64_t micro_batch) {
  return *graphs_.at({key, micro_batch}, [&] {
    const Job job = job_for(device, layout, {micro_batch, 1});
    LoweringPolicy policy = policy_of(job, std::min(key.part.rank, layout.pipeline - 1));
    policy.reporting = key.reporting;
    if (key.part.pipeline > 1 && alike(layout)) policy.parts = parts_of(key.part);
    Lowered lowered = lower(job.model, policy);
    // A letter of the formulas: the same for whichever micro-batch comes first.
    if (auto* graph = std::get_if<Graph>(&lowered)) graph->sizes.set(Symbol::micro_batch, 1);
    Variants& variants = [&]() -> Variants& {
      const std::scoped_lock lock(variants_mutex_);
      GraphKey alike = key;
      alike.multiprocessors = 0;  // their number changes few graphs
      return variants_[alike];
    }();
    const std::scoped_lock lock(variants.mutex);
    const auto equal =
        std::find_if(variants.distinct.begin(), variants.distinct.end(),
                     [&](const Lowered& other) { return same_formulas(other, lowered); });
    return equal != variants.distinct.end() ? &*equal
                                            : &variants.distinct.emplace_back(std::move(lowered));
  });
}

const Lowered& LayoutForms::graph_of(const DeviceOfSearch& device, const Parallelism& layout,
                                     std::int64_t micro_batch) {
  Parallelism whole = layout;
  whole.pipeline = 1;
  whole.virtual_stages = 1;
  return graph_of(key_of(device, whole, {}), device, whole, micro_batch);
}

const RankForm* LayoutForms::form_of(const DeviceOfSearch& device, const Parallelism& layout,
                                     const BatchChoice& batch, const FormKind& kind) {
  const auto [place, recompute, content] = kind;
  const Lowered& lowered =
      graph_of(key_of(device, layout, part_of(layout, place)), device, layout, batch.micro_batch);
  const auto* graph = std::get_if<Graph>(&lowered);
  if (graph == nullptr) return nullptr;
  if (others_ != nullptr && layout.pipeline == 1) {
    return others_->form_of(device, layout, batch, kind);
  }
  Parallelism shared = layout_of_form(layout);
  std::int64_t micro_steps = steps_of_form(job_, layout, batch);
  const bool on_host =
      layout.offload.optimizer && flattens_on_host(*graph, job_for(device, layout, batch));
  const FormKey key{&lowered, shared, rank_at(place, shared), micro_steps, recompute,
                    content,  on_host};
  return &forms_.at(key, [&] {
    // Several are as many as an interleaved pipeline of these ranks deals.
    // An interleaved schedule deals micro-batches in rounds of as many as there are ranks.
    if (alike(layout) && micro_steps > 1) micro_steps = 2 * shared.pipeline;
    Job job = job_for(device, shared, {graph->sizes.at(Symbol::micro_batch), micro_steps});
    job.training->recompute = recomputes_[recompute];
    return make_form(*graph, job, key);
  });
}

RankForm LayoutForms::make_form(const Graph& graph, const Job& job, const FormKey& key) {
  if (key.content == Content::states) {
    return rank_form(
        graph, job.parallelism,
        write_state_ledger(graph, job, {.pipeline_rank = key.rank, .scope = LedgerScope::layouts}));
  }
  return rank_form(
      graph, job.parallelism,
      write_ledger(
          graph, job,
          {.pipeline_rank = key.rank, .scope = LedgerScope::layouts, .moments = &moments_}));
}

RankForm LayoutForms::rank_form(const Graph& graph, const Parallelism& layout,
                                const Ledger& ledger) const {
  const auto bound = [&](Symbol symbol) { return ledger.bindings.at(symbol); };
  RankForm made{.form = StageForm(ledger),
                .ends = bound(Symbol::parameters),
                .layers = bound(Symbol::layers)};
  if (!alike(layout)) {
    made.experts = bound(Symbol::expert_parameters);
    return made;
  }
  const auto stages = static_cast<std::int64_t>(std::max<std::size_t>(graph.stages.size(), 1));
  const std::int64_t layers = bound(Symbol::layers) * stages;
  made.of_layer = elements_of_layer(graph);
  made.experts_of_layer = bound(Symbol::expert_parameters) / layers;
  // Parameters are ends + layers · of_layer: a layout's own number of layers goes in later.
  made.ends -= checked_multiply(made.of_layer, layers);
  return made;
}

RankForms LayoutForms::forms_of(const DeviceOfSearch& device, const Parallelism& layout,
                                const BatchChoice& batch, std::size_t recompute) {
  return forms_of(device, layout, batch, {.recompute = recompute, .content = Content::step});
}

RankForms LayoutForms::floors_of(const DeviceOfSearch& device, const Parallelism& layout,
                                 const BatchChoice& batch, std::size_t recompute) {
  return forms_of(device, layout, batch, {.recompute = recompute, .content = Content::states});
}

RankForms LayoutForms::forms_of(const DeviceOfSearch& device, const Parallelism& layout,
                                const BatchChoice& batch, FormKind kind) {
  RankForms forms;
  for (const StagePlace place : kStagePlaces) {
    if (!may_take_most(place, layout, alike_)) continue;
    kind.place = place;
    const RankForm* form = form_of(device, layout, batch, kind);
    forms.at[static_cast<std::size_t>(place)] = form;
    forms.exist = form != nullptr;
  }
  return forms;
}

Bytes LayoutForms::host_bytes_of(const DeviceOfSearch& device, const Parallelism& layout,
                                 const BatchChoice& batch) {
  const Lowered& lowered = graph_of(device, layout, batch.micro_batch);
  const Job job = job_for(device, layout, batch);
  HostKey key{.graph = &lowered,
              .data = layout.data,
              .sharing = sharing_of(layout),
              .accumulates = batch.gradient_accumulation > 1,
              .flattens_on_host = flattens_on_host(std::get<Graph>(lowered), job),
              .batch = {}};
  if (loads_into_host(job_)) {
    key.batch = {batch.micro_batch, batch.gradient_accumulation, layout.pipeline > 1};
  }
  return hosts_.at(key, [&] { return host_memory_of(std::get<Graph>(lowered), job)->taken(); });
}

WorstRank worst_rank(const RankForms& forms, const StageSplit& split, const Parallelism& layout,
                     const BatchChoice& batch) {
  WorstRank worst;
  for (const StagePlace at : kStagePlaces) {
    const RankForm* form = forms.at[static_cast<std::size_t>(at)];
    if (form == nullptr) continue;
    const std::int64_t layers = form->of_layer > 0 ? layers_at(at, split, layout) : form->layers;
    const std::int64_t of_rank = layers * layout.virtual_stages;
    const PipelinePlace place = place_of(layout, rank_at(at, layout));
    const Bytes peak = form->form.peak(
        {.micro_batch = batch.micro_batch,
         .layers = layers,
         .in_flight = most_in_flight(layout.schedule, place, batch.gradient_accumulation),
         .parameters = form->ends + of_rank * form->of_layer,
         .experts = form->experts + of_rank * form->experts_of_layer,
         .data = layout.data,
         .micro_steps = batch.gradient_accumulation});
    // The place that comes first wins a tie, so answers do not depend on the order of threads.
    if (worst.form == nullptr || peak > worst.peak) worst = {form, peak};
  }
  expect(worst.form != nullptr, "of the ranks of a layout that has forms one takes most");
  return worst;
}

}  // namespace memest
