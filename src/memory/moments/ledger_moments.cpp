#include "memory/moments/ledger_moments.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

namespace memest {
namespace {

const BlockMoments& made_once(MomentsByPass& made, const Block& block,
                              const MomentsByPass::key_type& key) {
  const auto [entry, is_new] = made.try_emplace(key);
  if (is_new) entry->second = moments_of(block, key.first, key.second);
  return entry->second;
}

}  // namespace

/// One block's moments, by how it is run. Names in the moments point into the copy.
struct GraphMoments::OfBlock {
  explicit OfBlock(const Block& of) : block(of) {}

  Block block;
  std::mutex mutex;
  MomentsByPass moments;
};

struct GraphMoments::Made {
  std::mutex mutex;
  // References to a deque's blocks last while more are added at its end.
  std::deque<OfBlock> blocks;

  OfBlock& of(const Block& block) {
    const std::scoped_lock lock(mutex);
    const auto known = std::ranges::find(blocks, block, &OfBlock::block);
    return known != blocks.end() ? *known : blocks.emplace_back(block);
  }
};

GraphMoments::GraphMoments() : made_(std::make_unique<Made>()) {}

GraphMoments::~GraphMoments() = default;

LedgerMoments::LedgerMoments(const Graph& graph, const std::optional<SelectiveRecompute>& parts,
                             GraphMoments* shared)
    : graph_(graph),
      parts_(parts.value_or(SelectiveRecompute{})),
      shared_(shared),
      of_blocks_(shared == nullptr ? 0 : graph.blocks.size()),
      own_(shared == nullptr ? graph.blocks.size() : 0) {}

const BlockMoments& LedgerMoments::of(std::size_t block, BlockPass pass) const {
  if (shared_ == nullptr) return made_once(own_[block], graph_.blocks[block], {pass, parts_});
  GraphMoments::OfBlock*& known = of_blocks_[block];
  if (known == nullptr) known = &shared_->made_->of(graph_.blocks[block]);
  const std::scoped_lock lock(known->mutex);
  return made_once(known->moments, known->block, {pass, parts_});
}

}  // namespace memest
