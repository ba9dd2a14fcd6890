#include "ledger_moments.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace memest {

struct GraphMoments::Made {
  const Graph* graph = nullptr;
  std::mutex mutex;
  std::map<std::pair<std::size_t, BlockPass>, BlockMoments> moments;
};

GraphMoments::GraphMoments(const Graph& graph) : made_(std::make_unique<Made>()) {
  made_->graph = &graph;
}

GraphMoments::~GraphMoments() = default;

LedgerMoments::LedgerMoments(const Graph& graph, GraphMoments* shared)
    : graph_(graph),
      own_(shared == nullptr ? std::make_unique<GraphMoments>(graph) : nullptr),
      shared_(shared == nullptr ? own_.get() : shared) {}

const BlockMoments& LedgerMoments::of(std::size_t block, BlockPass pass) const {
  GraphMoments::Made& made = *shared_->made_;
  const std::scoped_lock lock(made.mutex);
  const auto [entry, is_new] = made.moments.try_emplace({block, pass});
  if (is_new) entry->second = moments_of(made.graph->blocks[block], pass);
  return entry->second;
}

}  // namespace memest
