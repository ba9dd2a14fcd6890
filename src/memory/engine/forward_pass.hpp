// A forward pass of eager PyTorch: the model's, a stage's, or a checkpoint's, which recomputes what
// it did not keep.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/engine/engine_state.hpp"

namespace memest {

/// The gradient mode of an op.
enum class GradientMode : std::uint8_t {
  gradients,     ///< enabled, which saved-tensor hooks leave them
  no_gradients,  ///< in a reentrant checkpoint, or at all
  evaluation     ///< nor dropout
};

/// Settings of a pass.
struct ForwardSettings {
  EngineThread thread = EngineThread::program;
  Origin origin = Origin::forward;
  std::shared_ptr<void> owner = nullptr;  ///< of a stage's input
  bool wrapped = true;  ///< false: the program calls the model beneath its wrapper
};
/// Settings of a checkpoint's second forward, which the autograd engine's thread runs.
inline ForwardSettings recompute_settings() { return {EngineThread::autograd, Origin::recompute}; }

class ForwardPass {
 public:
  ForwardPass(EngineState& engine, ForwardSettings settings);

  /// Ops [begin, end) of ForwardOrder::sites(), the inputs of checkpoints among them held.
  void run(Slice sites);
  /// As run(), of model.eval() under torch.no_grad(): nothing is saved, nothing dropped out, and
  /// nothing made that only a backward reads.
  void evaluate(Slice sites);
  /// Recomputes `checkpoint` up to where it stops: the backward that follows finds what it needs.
  void recompute(const Checkpoint& checkpoint);
  /// Recomputes all of `checkpoint`; its locals stay for the caller to end.
  void recompute_whole(const Checkpoint& checkpoint);
  /// The functions that recomputed return, or are left by the early stop: their locals go.
  void end_references_of(const Checkpoint& checkpoint, std::uint32_t end);
  /// Megatron's distribute_saved_activations: the first argument is gathered from its shares.
  void gather_input(std::size_t checkpoint);
  /// Makes again what the part answers, number `part` of Checkpoints::remade.
  void make_again(std::size_t part);
  /// The checkpoint's argument comes back from the host, where it waits there.
  void unpack_input(std::size_t checkpoint);

 private:
  /// The op that runs.
  struct Run {
    const OpSite& site;
    const OpProgram& op;
    const BlockProgram& program;
    GradientMode mode = GradientMode::gradients;
    bool keeps_graph = false;   ///< no checkpoint recomputes it
    bool keeps_listed = false;  ///< a selective one does, which keeps what its list names
  };
  [[nodiscard]] Run run_of(const OpSite& site, GradientMode mode) const {
    return {site, order_.op(site), order_.program(site), mode};
  }

  void run(const OpSite& site, bool saves);
  void evaluate(const OpSite& site);
  [[nodiscard]] bool runs(const OpSite& site) const;
  void hand_on(const Run& run);
  void keep_leaves(const Run& run);
  void name_by_node(const Run& run);
  void make_outputs(const Run& run);
  void follow_course(const Run& run);
  void make_scratch(const Run& run, std::uint32_t index, Holding holding);
  void drop_scratch(const Run& run, std::uint32_t index);
  void make_output(const Run& run, std::uint32_t index);
  void launch(const Run& run, Slice launches);
  /// Answers what the node itself holds.
  Slice list(const Run& run);
  void save(const Run& run);
  void pack(const Run& run, bool behind);
  [[nodiscard]] bool saves_on_host() const;
  void end_references(const Run& run);
  [[nodiscard]] Label label_of(const OpSite& site, const MadeStorage& made) const;

  // recompute.cpp
  void keep_selectively(const Run& run);
  void keep(const Run& run, std::uint32_t made);
  [[nodiscard]] bool takes_kept() const;
  void take_kept(const Run& run, std::uint32_t made);
  void make_or_take_outputs(const Run& run);
  void hold_inputs(std::size_t checkpoint);
  void cut_input(std::size_t checkpoint);
  void run_again(const OpSite& site);
  void hold_inputs_of_part(std::size_t part);
  void throw_away(std::size_t part);
  StorageId make_input(const Checkpoint& checkpoint, std::int64_t bytes, Origin origin);

  [[nodiscard]] BlockHooks* hooks() const {
    return settings_.wrapped ? engine_.settings.hooks : nullptr;
  }
  void hook_before(const OpSite& site);
  void hook_after(const OpSite& site);

  EngineState& engine_;
  const ForwardOrder& order_;
  Recorder& recorder_;
  FlightState& now_;
  ForwardSettings settings_;
};

}  // namespace memest
