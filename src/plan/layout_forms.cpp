#include "layout_forms.hpp"

#include <algorithm>

#include "memest/plan/estimate.hpp"
#include "memest/spec/pipeline_schedule.hpp"

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

/// Whether all layers are alike, so that one form answers for any number of them.
bool is_uniform(const Job& job) {
  const DecoderSpec* decoder = decoder_of(job);
  return decoder != nullptr && decoder->kinds.size() == 1;
}

std::int64_t elements_of_layer(const Graph& graph) {
  for (const Block& block : graph.blocks) {
    if (block.checkpointable) return narrow_to_int64(block.parameters().evaluate(graph.sizes));
  }
  return 0;
}

}  // namespace

DeviceClass class_of(const GpuSpec& gpu) {
  DeviceClass result;
  result.capability = capability_of(gpu).value;
  if (!gpu.context) return result;
  result.context = gpu.context->value.value();
  const BytesRange range =
      gpu.context_range.value_or(BytesRange{gpu.context->value, gpu.context->value});
  result.context_low = range.low.value();
  result.context_high = range.high.value();
  return result;
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

/// Where all layers are alike only the ends of the pipeline matter.
LayoutForms::Part LayoutForms::part_of(const Parallelism& layout, std::int64_t rank) const {
  if (layout.pipeline == 1) return {};
  if (!is_uniform(job_)) return {layout.pipeline, layout.virtual_stages, rank, false};
  constexpr std::int64_t kRanks = 2;   // a first and a last one
  constexpr std::int64_t kStages = 2;  // of an interleaved pipeline
  const bool single = decoder_of(job_)->layers() == layout.pipeline * layout.virtual_stages;
  return {kRanks, std::min(layout.virtual_stages, kStages), rank == 0 ? 0 : kRanks - 1, single};
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
  return {device.device.capability,
          gpu.multiprocessors ? gpu.multiprocessors->value : 0,
          layout.tensor,
          layout.context,
          layout.expert,
          layout.sequence,
          layout.fsdp.has_value(),
          part};
}

const Lowered& LayoutForms::graph_of(const GraphKey& key, const DeviceOfSearch& device,
                                     const Parallelism& layout, std::int64_t micro_batch) {
  return *graphs_.at({key, micro_batch}, [&] {
    const Job job = job_for(device, layout, {micro_batch, 1});
    LoweringPolicy policy = policy_of(job, key.part.rank);
    if (key.part.pipeline > 1 && is_uniform(job_)) policy.parts = parts_of(key.part);
    Lowered lowered = lower(job.model, policy);
    Variants& variants = [&]() -> Variants& {
      const std::scoped_lock lock(variants_mutex_);
      return variants_[key];
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
                                     const BatchChoice& batch,
                                     std::pair<std::int64_t, std::size_t> rank_and_recompute) {
  const auto [rank, recompute] = rank_and_recompute;
  const Lowered& lowered =
      graph_of(key_of(device, layout, part_of(layout, rank)), device, layout, batch.micro_batch);
  const auto* graph = std::get_if<Graph>(&lowered);
  if (graph == nullptr) return nullptr;
  const FormKey form{&lowered,
                     layout.data > 1,
                     layout.zero,
                     layout.distributed_optimizer,
                     layout.fsdp ? layout.fsdp->replicate : 0,
                     layout.offload.optimizer,
                     layout.offload.parameters,
                     batch.gradient_accumulation > 1,
                     recompute};
  return &forms_.at(form, [&, recompute = recompute, rank = rank] {
    Job job = job_for(device, layout, batch);
    job.training->recompute = recomputes_[recompute];
    const auto& moments =
        moments_.at(graph, [&] { return std::make_unique<GraphMoments>(*graph); });
    const Ledger ledger = write_ledger(
        *graph, job,
        {.pipeline_rank = rank, .scope = LedgerScope::layouts, .moments = moments.get()});
    const auto bound = [&](Symbol symbol) { return ledger.bindings.at(symbol); };
    RankForm made{StageForm(ledger), bound(Symbol::parameters)};
    if (!is_uniform(job_)) {
      made.experts = bound(Symbol::expert_parameters);
      return made;
    }
    const auto stages = static_cast<std::int64_t>(std::max<std::size_t>(graph->stages.size(), 1));
    const std::int64_t layers = bound(Symbol::layers) * stages;
    made.of_layer = elements_of_layer(*graph);
    made.experts_of_layer = bound(Symbol::expert_parameters) / layers;
    made.ends -= checked_multiply(made.of_layer, layers);
    return made;
  });
}

RankForms LayoutForms::forms_of(const DeviceOfSearch& device, const Parallelism& layout,
                                const BatchChoice& batch, std::size_t recompute) {
  RankForms forms;
  if (const DecoderSpec* decoder = decoder_of(job_)) forms.layers = decoder->layers();
  const auto add = [&](std::int64_t rank) {
    const RankForm* form = form_of(device, layout, batch, {rank, recompute});
    if (form == nullptr) return;
    forms.ranks[forms.count] = rank;
    forms.of_rank[forms.count] = form;
    ++forms.count;
  };
  add(0);
  if (layout.pipeline > 1) add(layout.pipeline - 1);
  return forms;
}

MemoryEstimate worst_rank(const RankForms& forms, const Parallelism& layout,
                          const BatchChoice& batch, const OutsideBytes& outside) {
  const std::int64_t of_rank = forms.layers / layout.pipeline;
  std::size_t worst = 0;
  Bytes most;
  for (std::size_t i = 0; i < forms.count; ++i) {
    const RankForm& form = *forms.of_rank[i];
    const PipelinePlace place{layout.pipeline, forms.ranks[i], layout.virtual_stages};
    const Bytes peak = form.form.peak(
        {.micro_batch = batch.micro_batch,
         .layers = of_rank / layout.virtual_stages,
         .in_flight = most_in_flight(layout.schedule, place, batch.gradient_accumulation),
         .parameters = form.ends + of_rank * form.of_layer,
         .experts = form.experts + of_rank * form.experts_of_layer,
         .data = layout.data});
    if (i > 0 && peak <= most) continue;
    most = peak;
    worst = i;
  }
  return forms.of_rank[worst]->form.estimate(most, outside);
}

}  // namespace memest
