#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "graph/index_lists.hpp"
#include "memest/diag/expect.hpp"
#include "memest/graph/forward_storages.hpp"

namespace memest {
namespace {

struct StorageUse {
  std::size_t at = 0;  ///< index into ForwardStorages::ops
  bool keeps = false;  ///< else it reads
};

struct Finding {
  InPlace verdict = InPlace::may;
  std::string_view other = {};
};

class InPlaceRules {
 public:
  InPlaceRules(const Graph& graph, bool recomputes)
      : graph_(graph), recomputes_(recomputes), pass_(forward_storages(graph)) {
    uses_.resize(pass_.storages.size());
    for (std::size_t at = 0; at < pass_.ops.size(); ++at) {
      for (const StorageIndex storage : pass_.ops[at].reads) uses_[storage].push_back({at, false});
      if (!graph.trains) continue;
      for (const StorageIndex storage : pass_.ops[at].keeps) uses_[storage].push_back({at, true});
    }
  }

  [[nodiscard]] std::vector<InPlaceRow> runs() const {
    std::vector<InPlaceRow> rows;
    for (std::size_t at = 0; at < pass_.ops.size(); ++at) {
      const ForwardOp& run = pass_.ops[at];
      const Block& block = graph_.blocks[run.block];
      if (block.compiled || !may_be_in_place(block.ops[run.op].kind)) continue;
      const Finding found = find(at);
      const std::int64_t bytes = pass_.storages[run.writes.back()].bytes;
      rows.push_back({run.block, run.op, 1, found.verdict, found.other, bytes});
    }
    return rows;
  }

 private:
  [[nodiscard]] const Op& op_at(std::size_t at) const {
    return graph_.blocks[pass_.ops[at].block].ops[pass_.ops[at].op];
  }

  [[nodiscard]] Finding find(std::size_t at) const {
    const ForwardOp& run = pass_.ops[at];
    const StorageIndex result = run.writes.back();
    if (has(run.reads, result)) return written_over(at, result);
    Finding best{InPlace::other_size};
    for (const StorageIndex input : run.reads) {
      const ForwardStorage& storage = pass_.storages[input];
      const ForwardStorage& made = pass_.storages[result];
      if (storage.bytes != made.bytes || storage.dtype != made.dtype) continue;
      const Finding found = overwriting(at, input);
      if (found.verdict == InPlace::may) return found;
      if (best.verdict == InPlace::other_size) best = found;
    }
    return best;
  }

  /// An op that writes into `storage`: what was kept of it before is lost to its backward.
  [[nodiscard]] Finding written_over(std::size_t at, StorageIndex storage) const {
    for (const StorageUse& use : uses_[storage]) {
      if (use.keeps && use.at < at) return {InPlace::raises, op_at(use.at).name};
    }
    return {InPlace::already};
  }

  [[nodiscard]] Finding overwriting(std::size_t at, StorageIndex input) const {
    const ForwardStorage& storage = pass_.storages[input];
    if (!storage.made || storage.answered) return {InPlace::not_its_own};
    if (recomputes_ && storage.begins_layer) return {InPlace::checkpoint};
    for (const StorageUse& use : uses_[input]) {
      if (use.keeps && use.at < at) return {InPlace::kept, op_at(use.at).name};
    }
    for (const StorageUse& use : uses_[input]) {
      if (use.at > at) return {InPlace::read_later, op_at(use.at).name};
    }
    for (const StorageUse& use : uses_[input]) {
      if (use.keeps) return {InPlace::keeps_input};
    }
    // F.dropout(inplace=True) is dropout_, whose noise has 2 or 4 bytes an element;
    // native_dropout's mask has one.
    const bool drops = graph_.trains && op_at(at).kind == OpKind::dropout;
    return {drops ? InPlace::wider_noise : InPlace::may};
  }

  const Graph& graph_;
  bool recomputes_;
  ForwardStorages pass_;
  std::vector<std::vector<StorageUse>> uses_;
};

}  // namespace

std::string_view name_of(InPlace verdict) {
  switch (verdict) {
    case InPlace::may:
      return "may";
    case InPlace::already:
      return "already";
    case InPlace::raises:
      return "raises";
    case InPlace::keeps_input:
      return "keeps-input";
    case InPlace::kept:
      return "kept";
    case InPlace::read_later:
      return "read-later";
    case InPlace::not_its_own:
      return "not-its-own";
    case InPlace::checkpoint:
      return "checkpoint";
    case InPlace::other_size:
      return "other-size";
    case InPlace::wider_noise:
      return "wider-noise";
  }
  unreachable("every verdict has a name");
}

std::vector<InPlaceRow> in_place_runs(const Graph& graph, bool recomputes) {
  return InPlaceRules(graph, recomputes).runs();
}

std::vector<InPlaceRow> in_place_rows(const Graph& graph, bool recomputes) {
  using Met = std::tuple<std::size_t, std::size_t, InPlace, std::string_view>;
  std::map<Met, std::size_t> known;
  std::vector<InPlaceRow> rows;
  for (const InPlaceRow& run : in_place_runs(graph, recomputes)) {
    const auto [met, is_new] =
        known.try_emplace({run.block, run.op, run.verdict, run.other}, rows.size());
    if (is_new) {
      rows.push_back(run);
    } else {
      ++rows[met->second].times;
    }
  }
  return rows;
}

}  // namespace memest
