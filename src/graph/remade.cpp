#include "memest/graph/remade.hpp"

#include "memest/graph/op.hpp"

namespace memest {

bool remakes(const SelectiveRecompute& parts, Remade kind) {
  switch (kind) {
    case Remade::nothing:
      return false;
    case Remade::norm:
      return parts.norms;
    case Remade::expert_activation:
      return parts.expert_activation;
    case Remade::latent_projection:
      return parts.latent_projection;
  }
  return false;
}

bool runs_again(const SelectiveRecompute& parts, const Op& op) {
  const LayerParts& of = op.part_of;
  return (parts.attention_core && of.attention_core) || (parts.feed_forward && of.feed_forward) ||
         (parts.experts && of.experts) || (parts.shared_experts && of.shared_experts) ||
         (parts.predictions && of.prediction) || remakes(parts, op.remade);
}

}  // namespace memest
