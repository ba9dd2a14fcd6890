#include "memest/spec/recompute/layer_parts.hpp"

#include <variant>

namespace memest {

SelectiveRecompute parts_of_layers(const Job& job) {
  const LayerSpec layers = job.training->implementation.layers;
  SelectiveRecompute parts{.attention_core = false, .norms = layers != LayerSpec::te};
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  if (decoder == nullptr) return parts;
  parts.latent_projection = std::holds_alternative<LatentAttention>(decoder->attention);
  for (const LayerKind& kind : decoder->kinds) {
    const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
    parts.feed_forward = parts.feed_forward || experts == nullptr;
    if (experts == nullptr) continue;
    parts.experts = true;
    parts.expert_activation = true;
    parts.shared_experts = experts->shared_size > 0;
  }
  parts.norms = parts.norms || parts.latent_projection || parts.experts;
  return parts;
}

std::optional<SelectiveRecompute> remade_parts_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const Implementation& implementation = training.implementation;
  const bool casts_old =
      training.te_linears && (training.te_linears->recipe == TeRecipe::delayed ||
                              implementation.transformer_engine == TeRelease::te_2_2);
  const bool ruled_out = job.model.adapter || implementation.cuda_graph.any() || casts_old;
  if (implementation.layers != LayerSpec::te || ruled_out) return std::nullopt;
  const SelectiveRecompute has = parts_of_layers(job);
  SelectiveRecompute remade{.attention_core = false};
  remade.norms = has.norms;
  remade.expert_activation = has.expert_activation;
  remade.latent_projection = has.latent_projection;
  if (!remade.remakes()) return std::nullopt;
  return remade;
}

std::string modules_of(const SelectiveRecompute& parts) {
  std::string modules;
  for (const SelectiveWord& word : kSelectiveWords) {
    if (parts.*word.part) modules.append(modules.empty() ? "" : " ").append(word.module);
  }
  return modules;
}

bool recomputes(const Job& job, bool SelectiveRecompute::* part) {
  const auto* parts = std::get_if<SelectiveRecompute>(&job.training->recompute);
  return parts != nullptr && parts->*part;
}

}  // namespace memest
