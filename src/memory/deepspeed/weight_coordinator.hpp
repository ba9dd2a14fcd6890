// Weights of DeepSpeed's ZeRO 3, which every rank has an equal piece of, gathered while modules
// need them (deepspeed/runtime/zero/partitioned_param_coordinator.py,
// PartitionedParameterCoordinator, DeepSpeed 0.19).
//
//   first step  Each module's weights are gathered as it is called, and go behind it. The order of
//               the calls of a forward and its backward is written down.
//   later       A call also gathers what later calls need, until a bucket of it is on its way or
//               max_live elements are there. Behind a module go those of its weights that no
//               module within the next max_reuse_distance elements needs.
//   other calls Where a call is not the one that is written down the list ends, what is on its way
//               comes and goes, and all is as before the first step until the next forward begins,
//               which writes a new list.
//   frozen      What a checkpoint's second forward gathers of weights without gradients belongs to
//               the module whose backward had begun last (ds_recompute_parameters): it stays until
//               that has ended, and then goes, whatever needs it next.
//
// One weight is gathered into its own memory. Several are gathered together, type by type: when the
// first of them is needed each is copied to its own memory, and what they came in goes when the
// last is needed. Pieces that lie on the host come to the device for the gather; a single rank has
// nothing else to gather.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "memory/timeline/recorder.hpp"

namespace memest {

class WeightCoordinator {
 public:
  struct Settings {
    std::int64_t prefetch_bucket = 0;  ///< elements, as all that follow
    std::int64_t max_live = 0;
    std::int64_t max_reuse_distance = 0;
    std::int64_t persistence_threshold = 0;  ///< of at most so many a weight stays from the step on
    std::int64_t ranks = 1;
    bool pieces_on_host = false;
    PartStream stream = Stream::compute;  ///< in which modules' weights are gathered
  };
  struct Weight {
    std::int64_t elements = 0;
    std::uint32_t number = 0;    ///< in the order in which weights were cut (ds_id)
    std::uint32_t instance = 0;  ///< the block that owns it
    bool trained = true;
    std::int64_t element_bytes = 2;
  };
  /// A module by its number, with the weights that are its own, in ascending order.
  using Module = std::uint32_t;

  /// `modules`: the weights of each.
  WeightCoordinator(const Settings& settings, std::vector<Weight> weights,
                    std::vector<std::vector<std::uint32_t>> modules, Recorder& recorder);

  /// Elements of a rank's piece.
  [[nodiscard]] std::int64_t piece(std::uint32_t weight) const;

  /// The model's forward begins (reset_step).
  void begin_run();
  /// Hooks around a module's forward, a checkpoint's second one too, and its backward. Behind a
  /// forward under no_grad no hook ends the backward of the one before it.
  void before_forward(Module module);
  void before_evaluation(Module module);
  void after_forward(Module module) { release(module, {}); }
  void before_backward(Module module);
  void after_backward(Module module);
  /// A module reads weights that are another's: what is not there comes in turn, and is the
  /// reader's too from there on (ZeROOrderedDict, register_external_parameter).
  void read(Module reader, const std::vector<std::uint32_t>& weights);
  /// Modules whose backwards have no end give their weights back (release_backward_leftovers).
  void end_backward();
  /// All weights go (release_and_reset_all), and those that stay come back.
  void release_all();
  void gather_persistent();
  /// A name for a weight that is there, which holds it when its module lets go of it.
  [[nodiscard]] HeldStorage share(std::uint32_t weight) const;
  /// The memory that a weight is gathered in; kNoStorage: it is not there.
  [[nodiscard]] StorageId gathered(std::uint32_t weight) const {
    return states_[weight].whole.id();
  }
  /// One weight comes and goes.
  void gather_once(std::uint32_t weight);

 private:
  /// Weights that travel together, in one tensor of each of their types.
  struct Gathering {
    HeldVector flats;
    std::vector<std::uint32_t> weights;
    bool complete = false;
  };
  enum class Status : std::uint8_t { not_available, in_flight, available };
  struct State {
    Status status = Status::not_available;
    HeldStorage whole;
    std::shared_ptr<Gathering> gathering;
    std::vector<Module> active;  ///< modules that run and need it
    std::int64_t fetched_for = kNever;
  };
  struct Needed {
    std::uint32_t weight = 0;
    std::int64_t call = 0;
  };
  enum class Trace : std::uint8_t { none, recorded, complete };
  static constexpr std::int64_t kNever = -10'000'000'000;

  void expect(Module module);
  void forget_calls();
  void give_back_in_flight();
  void fetch(Module module);
  void gather(std::vector<std::uint32_t> weights);
  void gather_together(std::vector<std::uint32_t> weights);
  void wait(std::uint32_t weight);
  void take_from_queue(const std::vector<std::uint32_t>& weights);
  void prefetch();
  void release(Module module, const std::vector<std::uint32_t>& run_again);
  void give_back(std::uint32_t weight);
  [[nodiscard]] const std::vector<std::uint32_t>& released_behind(Module module);
  [[nodiscard]] std::vector<std::uint32_t> not_needed_soon(Module module) const;
  [[nodiscard]] bool is_persistent(std::uint32_t weight) const;
  [[nodiscard]] std::int64_t whole(std::uint32_t weight) const;
  void bring_alone(const std::vector<std::uint32_t>& weights, PartStream stream);
  void bring_pieces(const std::vector<std::uint32_t>& weights, PartStream stream);
  void activate(Module module, std::uint32_t weight);
  void forget(Module module, std::uint32_t weight);
  [[nodiscard]] HeldStorage make(std::uint32_t weight, UnitTensor tensor, std::int64_t elements,
                                 PartStream stream);

  Settings settings_;
  std::vector<Weight> weights_;
  std::vector<std::vector<std::uint32_t>> modules_;
  Recorder& recorder_;
  std::vector<State> states_;
  std::vector<bool> evaluated_;  // whether each module's last forward was under no_grad
  std::vector<Module> calls_;    // of a forward and its backward
  std::vector<Needed> needed_;   // weights of the calls, one by one
  std::size_t next_needed_ = 0;  // of `needed_`: not fetched ahead yet
  std::map<std::pair<std::int64_t, Module>, std::vector<std::uint32_t>> released_;  // by call
  /// A module whose backward has begun, and the frozen weights that forwards have gathered since.
  struct InBackward {
    Module module = 0;
    std::vector<std::uint32_t> run_again = {};
  };
  [[nodiscard]] std::vector<InBackward>::iterator find_in_backward(Module module);
  std::vector<InBackward> in_backward_;
  Trace trace_ = Trace::none;
  std::int64_t call_ = 0;
  std::int64_t available_ = 0;  // elements, as DeepSpeed counts them
};

}  // namespace memest
