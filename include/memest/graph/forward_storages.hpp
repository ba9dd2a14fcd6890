// One forward pass, operation by operation, with the storages that each reads, writes and keeps,
// block after block as they run: who comes last, and whether a buffer may be written over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Index into ForwardStorages::storages.
using StorageIndex = std::uint32_t;

struct ForwardStorage {
  std::int64_t bytes = 0;
  DType dtype = DType::fp32;
  /// Made by an op of the pass: neither a parameter nor what enters it.
  bool made = false;
  bool answered = false;      ///< the caller's to drop, or named by a module
  bool begins_layer = false;  ///< a checkpoint of a layer would keep it
};

/// One run of an op; views are left out.
struct ForwardOp {
  std::size_t block = 0;  ///< index into Graph::blocks
  std::size_t op = 0;
  std::vector<StorageIndex> reads;    ///< each once
  std::vector<StorageIndex> writes;   ///< that it makes, or writes over
  std::vector<StorageIndex> keeps;    ///< for its backward
  std::vector<StorageIndex> scratch;  ///< of its own
};

struct ForwardStorages {
  std::vector<ForwardOp> ops;
  std::vector<ForwardStorage> storages;
  StorageIndex output = 0;  ///< of the last block
};

/// The pass of the graph. Throws OverflowError.
ForwardStorages forward_storages(const Graph& graph);

/// Whether a framework has such an operation that writes into its input.
bool may_be_in_place(OpKind kind);

/// The fate of an operation that has a form in place.
enum class InPlace : std::uint8_t {
  may,          ///< nobody misses its input
  already,      ///< it writes into its input
  raises,       ///< likewise, and PyTorch refuses the backward: another op has kept that
  keeps_input,  ///< its own backward reads its input: in place PyTorch keeps a copy
  kept,         ///< another op's backward reads it
  read_later,
  not_its_own,  ///< a parameter, the pass's input, or an answer
  checkpoint,   ///< a checkpoint begins its second forward with it
  other_size,   ///< no input of its result's size and type
  wider_noise   ///< dropout: PyTorch's form in place keeps its noise in the input's type
};
std::string_view name_of(InPlace verdict);

struct InPlaceRow {
  std::size_t block = 0;
  std::size_t op = 0;
  std::int64_t times = 1;  ///< that it runs in a pass
  InPlace verdict = InPlace::may;
  std::string_view other;  ///< the op that keeps or reads the input; else empty
  std::int64_t bytes = 0;  ///< of the result: not asked for in place
};

/// Every run of an operation that has a form in place, in order; compiled blocks, whose kernels are
/// fused, have none. `recomputes`: layers stand in checkpoints.
std::vector<InPlaceRow> in_place_runs(const Graph& graph, bool recomputes);
/// As above, a row for those of one operation that meet the same.
std::vector<InPlaceRow> in_place_rows(const Graph& graph, bool recomputes);

}  // namespace memest
