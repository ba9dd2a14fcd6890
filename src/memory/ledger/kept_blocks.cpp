#include "memory/ledger/kept_blocks.hpp"

#include <algorithm>

namespace memest {

KeptBlocks::KeptBlocks(const Graph& graph, const LedgerPasses& passes,
                       const LayerCount& layer_count, LedgerTerms& terms)
    : layer_count_(layer_count), terms_(terms) {
  for (const Block& block : graph.blocks) {
    const Expr casts = block.saved_cast_bytes();
    blocks_.push_back({&block.name, casts, passes.kept_of(block) - casts, {}});
  }
}

Expr KeptBlocks::casts(std::size_t block, std::int64_t runs) const {
  const Expr& casts = blocks_[block].casts;
  return casts.is_zero() ? casts : layer_count_.times(runs) * casts;
}

void KeptBlocks::add_to(std::vector<std::uint16_t>& alive, std::size_t block, std::int64_t runs) {
  Kept& kept = blocks_[block];
  if (runs == 0 || kept.others.is_zero()) return;
  const auto known = std::find_if(kept.terms.begin(), kept.terms.end(),
                                  [runs](const auto& term) { return term.first == runs; });
  if (known != kept.terms.end()) return alive.push_back(known->second);
  alive.push_back(terms_.add({"activations: " + *kept.name, TermGroup::activations,
                              layer_count_.times(runs) * kept.others, kSavedSource, ""}));
  kept.terms.emplace_back(runs, alive.back());
}

}  // namespace memest
