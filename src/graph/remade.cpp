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
  }
  return false;
}

bool runs_again(const SelectiveRecompute& parts, const Op& op) {
  return (parts.attention_core && op.attention_core) || (parts.feed_forward && op.feed_forward) ||
         remakes(parts, op.remade);
}

}  // namespace memest
