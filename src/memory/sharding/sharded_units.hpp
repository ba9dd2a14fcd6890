// fully_shard (FSDP2), PyTorch 2.11: every parameter lies in equal shares of rows on the ranks; a
// unit's weights are gathered while it runs, its gradients reduced to shares when it has run.
//
//   gather   in the all-gather stream: a flat copy of the unit's shares in the gathered type, then
//            the flat output of all ranks; then, in the compute stream, each parameter by itself.
//            In the forward the output stays until the next unit's copies are made, so that its
//            gather can begin; in the backward it goes at once, and the unit before is gathered
//            ahead. From the host each share comes by itself and is cast by itself. Shares of
//            weights gathered in fp8 are cast one by one before the flat copy of the others.
//   reduce   the flat input in the compute stream, kept until the next unit reduces; the output in
//            the reduce-scatter stream: the unit's gradients from then on.
//
// Under set_requires_gradient_sync(False) a unit's whole gradients stay, in the reduced type, and
// the next ones are added to them; the first backward without it reduces the sums.
//
// The stages of a pipeline's rank are trees of units of their own. Their weights stay gathered and
// whole gradients are summed up, in the reduced type, until all backwards of a step have run.
//
// Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py,
// _fsdp_param.py; torch/distributed/pipelining/stage.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/optimizer/float8_shares.hpp"
#include "memory/sharding/unit_layout.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// Elements by type: of the trained shares (adapters' where there are some), of what is gathered,
/// and of what is reduced.
struct ShardTypes {
  DType share = DType::fp32;
  DType gathered = DType::bf16;
  DType reduced = DType::fp32;
};

class ShardedUnits final : public BlockHooks {
 public:
  struct Model {
    const Job& job;
    const Graph& graph;
    const Inventory& inventory;
    const ForwardOrder& order;
    std::optional<LaunchDevice> device;  ///< none: its kernels are not known
  };
  /// The units of the job, in the order in which they end in the forward.
  ShardedUnits(const Model& model, Recorder& recorder);

  /// A share that no module has any more when the units look at their parameters, before the first
  /// forward.
  void hold_until_first_forward(StorageId share) { spare_ = recorder_.adopt(share); }

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t instance) override;
  void after_look_up(std::uint32_t instance) override;
  void before_op(const OpSite& site) override;
  void after_op(const OpSite& site) override;
  void before_node(const OpSite& site) override;
  void after_node(const OpSite& site) override;
  void after_answer() override;
  [[nodiscard]] StorageId take_loss() override { return std::exchange(loss_, kNoStorage); }
  void before_backward(std::uint32_t instance) override;
  void after_backward(std::uint32_t instance) override;
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  [[nodiscard]] bool has_gradient(std::uint32_t use) const override;
  [[nodiscard]] StorageId scale_of(std::uint32_t use) const override {
    return float8_.scale_of(use);
  }
  void hold_gradients(bool held) override { holds_ = held || in_stages_; }
  void end_backward() override;
  void drop_gradients() override;

  /// The stage's parameters as its modules register them.
  [[nodiscard]] std::vector<std::uint32_t> uses_of(std::size_t stage) const;
  /// Gathers all units of a stage at once, in the compute stream, where they are not gathered.
  void gather_stage(std::size_t stage);
  /// The stage is about to run: what was gathered is taken apart.
  void take_stage_apart(std::size_t stage);
  /// Frees the stage's all-gathered weights.
  void give_stage_back(std::size_t stage);
  /// All backwards of a stage have run: its sums are reduced.
  void reduce_stage(std::size_t stage);

 private:
  struct State {
    HeldStorage output;     ///< gathered and not yet taken apart
    HeldVector weights;     ///< empty: sharded
    HeldStorage gradients;  ///< the shares
  };

  /// State that a tree of units keeps between them: a part of the model has one.
  struct Part {
    std::vector<std::size_t> forward_order;  ///< units as their forward ended
    HeldStorage kept_output;                 ///< of the last gather of the forward
    HeldStorage kept_input;                  ///< of the last reduction
  };

  enum class OpOfModule : std::uint8_t { first, last };
  [[nodiscard]] std::optional<std::size_t> module_at(const OpSite& site, OpOfModule which) const;
  void begin_unit(std::size_t unit);
  void begin_backward(std::size_t unit);
  void gather(std::size_t unit, Stream stream = Stream::all_gather);
  HeldList shares_to_send(std::size_t unit, Stream stream);
  void place_scales(const Graph& graph);
  [[nodiscard]] HeldStorage take_apart(std::size_t unit);
  void copy_shares(std::size_t unit);
  void give_back(std::size_t unit);
  void relay_gradients(std::size_t unit);
  void end_unit(std::size_t unit);
  void end_forward(std::size_t unit);
  void cast_loss(std::size_t root);
  void sum_gradients(std::size_t unit);
  void take_sums(std::size_t unit);
  void reduce(std::size_t unit);
  void cut_columns(std::size_t unit, HeldVector& gradients, const HeldStorage& last);
  [[nodiscard]] Part& part_of(std::size_t unit) { return parts_[units_[unit].part]; }
  [[nodiscard]] std::vector<std::size_t> units_of(std::size_t part) const;
  HeldStorage take_shares(std::size_t unit, std::int64_t bytes);
  [[nodiscard]] std::size_t last_gradient(std::size_t unit, const HeldVector& gradients) const;
  [[nodiscard]] HeldStorage make(std::size_t unit, UnitTensor tensor, std::int64_t bytes,
                                 Stream stream = Stream::compute);
  [[nodiscard]] const ParameterTensor& row(std::uint32_t parameter) const;
  [[nodiscard]] bool is_in_fp8(std::uint32_t parameter) const {
    return in_fp8_[timeline_.parameters[parameter].row];
  }
  [[nodiscard]] bool casts() const;
  [[nodiscard]] bool widens_sums() const;
  [[nodiscard]] DType gathered_type(std::uint32_t parameter) const;
  [[nodiscard]] DType gradient_type(std::uint32_t parameter) const;
  [[nodiscard]] DType share_type(std::uint32_t parameter) const;
  /// Bytes of the rank's shares of what stands for the parameter, each of which is gathered.
  [[nodiscard]] std::vector<std::int64_t> gathered_pieces(std::uint32_t parameter) const;
  [[nodiscard]] std::int64_t gathered_share(std::uint32_t parameter) const;
  [[nodiscard]] std::int64_t gathered_share_of(std::size_t unit) const;
  [[nodiscard]] std::vector<std::uint32_t> trained(std::size_t unit) const;
  [[nodiscard]] std::int64_t trained_elements(std::size_t unit) const;

  const Timeline& timeline_;
  const ForwardOrder& order_;
  const Inventory& inventory_;
  const Recipe& recipe_;
  Recorder& recorder_;
  std::int64_t multiprocessors_;  // 0: not known
  bool offloads_;
  ShardTypes types_;
  const QuantizedWeights* quantized_;  // null: none
  std::vector<bool> in_fp8_;           // by rows of the inventory
  Float8Shares float8_;
  std::vector<ShardedUnit> units_;
  std::vector<State> states_;
  std::vector<Part> parts_;
  bool in_modules_;                   // some unit is a module's inside a block
  bool in_backward_ = false;          // what runs forward is a checkpoint's second
  std::size_t running_ = 0;           // the part whose backward runs
  std::optional<std::size_t> waits_;  // a root whose answers have no gradient yet
  bool in_stages_;                    // of a pipeline: reduced when the last backward has run
  bool sums_;                         // over a step's micro-batches, whole
  bool holds_;                        // of the running backward: it reduces nothing
  std::vector<HeldStorage> arrived_;  // whole gradients, by ForwardOrder::parameters()
  std::vector<HeldStorage> sums_of_;  // the same of earlier micro-steps
  bool casts_loss_;
  StorageId loss_ = kNoStorage;
  HeldStorage spare_;
};

}  // namespace memest
