// FullyShardedDataParallel (FSDP1), PyTorch 2.11, with use_orig_params: the parameters of a unit
// lie in one flat tensor, padded, of which every rank holds an equal shard; it is gathered while
// the unit runs.
//
//   construct  Unit by unit, the root last: what of it is not on the GPU comes there; with
//              sync_module_states it is sent in flat copies; the flat tensor, the rank's shard cut
//              out of it; the flat tensor and the unit's parameters go.
//   first run  A unit's gather output is made once, to give its memory back at once.
//   gather     With mixed precision the shard in the gathered type, in a stream of its own; then
//              the flat tensor in the all-gather stream. Nothing is gathered ahead in the forward;
//              in the backward the unit before is, when a unit's turn comes. The root stays.
//   reduce     When all of a unit's gradients are there they are put together, and go; its weights
//              go. Then a copy in the reduced type and the rank's shard of it, which becomes the
//              gradient or is added to it.
//   drop       zero_grad drops views; the shards go when the next forward begins.
//
// Source: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py. Padding tensors of a few
// elements are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/unit_layout.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class FlatUnits final : public BlockHooks {
 public:
  /// A model whose parameters are placed.
  struct Model {
    const Job& job;
    const Graph& graph;
    const ForwardOrder& order;
    std::int64_t data_rank = 0;
  };
  FlatUnits(const Model& model, Recorder& recorder);

  /// The weights are on the GPU, and are the storages of Timeline::parameters; or they come there
  /// through `placement`. None of them stays.
  void construct(ModelPlacement& placement);
  /// The pieces that the optimizer steps: each parameter's part in the rank's shards. Their rows
  /// live as long as this.
  [[nodiscard]] ParameterGroup stepped() override;
  /// Elements of what a data rank steps, tensor by tensor.
  [[nodiscard]] std::vector<std::int64_t> stepped_elements(std::int64_t data_rank) const;

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t instance) override;
  void before_backward(std::uint32_t instance) override;
  void after_backward(std::uint32_t instance) override;
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override { dropped_ = true; }

 private:
  struct State {
    std::vector<std::int64_t> begins;  ///< of its parameters in the flat tensor, and its end
    std::int64_t shard = 0;            ///< elements
    HeldStorage gathered;
    HeldStorage gradients;
  };

  /// The part of a parameter that lies in a rank's shards.
  struct Piece {
    std::uint32_t parameter = 0;
    std::int64_t elements = 0;
  };
  [[nodiscard]] std::vector<Piece> pieces(std::int64_t data_rank) const;
  [[nodiscard]] const ParameterTensor& row(std::uint32_t parameter) const;
  [[nodiscard]] HeldVector bring(std::size_t unit, ModelPlacement& placement) const;
  void sync(std::size_t unit) const;
  [[nodiscard]] bool casts() const { return gathered_ != share_; }
  [[nodiscard]] std::size_t root() const { return units_.size() - 1; }
  [[nodiscard]] std::int64_t padded(std::size_t unit) const;
  void lay_out(std::size_t unit);
  void begin_run();
  void release_dropped();
  void gather(std::size_t unit);
  void give_back(std::size_t unit);
  void reduce(std::size_t unit);
  void take_shard(std::size_t unit, HeldStorage reduced);
  struct Elements {
    std::int64_t count = 0;
    DType type = DType::fp32;
  };
  [[nodiscard]] HeldStorage make(std::size_t unit, UnitTensor tensor, Elements elements,
                                 Stream stream = Stream::compute);

  const Job& job_;
  const Inventory& inventory_;
  Recorder& recorder_;
  std::int64_t ranks_;
  std::int64_t rank_;
  DType share_;
  DType gathered_;
  DType reduced_;
  std::vector<ShardedUnit> units_;
  std::vector<State> states_;
  std::vector<ParameterTensor> rows_;  // of stepped()
  std::vector<HeldStorage> arrived_;   // gradients, by ForwardOrder::parameters()
  bool has_run_ = false;
  bool dropped_ = false;
};

}  // namespace memest
