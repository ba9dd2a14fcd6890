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
