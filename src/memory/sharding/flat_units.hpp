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
//              Under no_sync() the flat gradient stays, and the next ones are added to it.
//   drop       zero_grad drops views; the shards go when the next forward begins. So do those of
//              which the rank steps nothing, in every forward.
//
// Where every trained module is a unit of its own (use_orig_params=False) it is gathered around its
// forward, when a checkpoint runs it again as well, and around its backward, before which the unit
// is gathered that ended before it in the forward. The frozen rest of a layer goes when the layer
// before it has gathered (_register_post_backward_reshard_only_hook).
//
// With an adapter a unit of which a part is trained has one flat tensor that requires a gradient,
// and gathers, makes and reduces the gradients of all that lies in it; one that is frozen is
// gathered alone.
//
// Source: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py. Padding tensors of a few
// elements are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  void before_op(const OpSite& site) override;
  void after_op(const OpSite& site) override;
  void before_node(const OpSite& site) override;
  void after_node(const OpSite& site) override;
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void hold_gradients(bool held) override { holds_ = held; }
  void end_backward() override;
  void drop_gradients() override;

 private:
  struct State {
    std::vector<std::int64_t> begins;  ///< of its parameters in the flat tensor, and its end
    std::int64_t shard = 0;            ///< elements
    bool trained = true;               ///< any of its parameters, and so all of the flat tensor
    bool steps = false;                ///< the rank has a part of what is trained
    bool in_backward = false;          ///< of its op
    HeldStorage gathered;
    HeldStorage whole;  ///< gradients of micro-steps that reduce nothing
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
  [[nodiscard]] DType share_of(std::size_t unit) const;
  [[nodiscard]] DType gathered_of(std::size_t unit) const;
  [[nodiscard]] DType reduced_of(std::size_t unit) const;
  [[nodiscard]] bool casts(std::size_t unit) const { return gathered_of(unit) != share_of(unit); }
  [[nodiscard]] std::optional<std::size_t> module_at(std::uint32_t instance,
                                                     std::uint32_t op) const;
  [[nodiscard]] std::size_t root() const { return units_.size() - 1; }
  [[nodiscard]] std::vector<std::size_t> as_nested() const;
  void gather_before(std::size_t unit);
  [[nodiscard]] std::int64_t padded(std::size_t unit) const;
  [[nodiscard]] std::int64_t flattened(std::size_t unit) const;
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
  const Recipe& recipe_;
  bool apart_;
  std::vector<ShardedUnit> units_;  // as their forwards end
  std::vector<State> states_;
  std::vector<ParameterTensor> rows_;  // of stepped()
  std::vector<HeldStorage> arrived_;   // gradients, by ForwardOrder::parameters()
  Reshard reshard_;
  bool waits_ = false;                // the root, whose answers have no gradient yet
  std::optional<std::size_t> ended_;  // a frozen unit, whose weights are still there
  bool holds_ = false;                // of the running backward: it reduces nothing
  bool has_run_ = false;
  bool dropped_ = false;
};

}  // namespace memest
