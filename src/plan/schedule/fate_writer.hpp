// Writes the actions of a schedule that says for each tensor whether it is kept, moved to the host
// or made again, and plays them at once: when a copy has ended decides when memory goes.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "plan/schedule/player.hpp"

namespace memest {

/// When tensors of Fate::swap leave.
enum class SwapStart : std::uint8_t {
  at_last_read,   ///< of the forward
  under_pressure  ///< when an operation would not fit, the least recently used first
};

struct WrittenSchedule {
  std::vector<Action> actions;
  Played played;
};

/// How tensors of Fate::swap move.
struct SwapRule {
  SwapStart start = SwapStart::at_last_read;
  bool fetches_ahead = true;  ///< else at the backward that reads them
};

/// One micro-step by fates: a tensor that is not kept goes with the forward's last use, and is back
/// before the first backward that reads it.
class FateWriter {
 public:
  FateWriter(const ScheduledStep& step, std::span<const Fate> fates, std::int64_t budget,
             SwapRule rule = {});

  WrittenSchedule write() &&;

 private:
  void act(ActionKind kind, std::uint32_t index);
  void forward();
  void backward();
  void end_use(std::uint32_t tensor, std::uint32_t op);
  void drop_copied();
  void make_room(std::int64_t height);
  void prefetch(std::uint32_t op);
  void need(std::uint32_t tensor, std::uint32_t op);
  void remake(std::uint32_t tensor, std::uint32_t op);
  [[nodiscard]] bool is_leaving(std::uint32_t tensor) const;
  [[nodiscard]] bool is_needed_behind(std::uint32_t tensor, std::uint32_t op) const;

  const StepTensors& step_;
  std::span<const Fate> fates_;
  std::int64_t budget_;
  SwapRule rule_;
  Player player_;
  std::vector<Action> actions_;
  std::deque<std::uint32_t> idle_;      ///< may leave under pressure, the least recently used first
  std::deque<std::uint32_t> leaving_;   ///< being copied out, in order
  std::vector<std::uint32_t> fetched_;  ///< swapped tensors in the order of the backward's reads
  std::size_t next_fetch_ = 0;
  std::vector<std::uint32_t> held_;  ///< by tensor: makers that wait to read it
};

/// Whether tensors can be made again in the backward: from what is kept or moved until then, and
/// what can be made again itself.
class Remaking {
 public:
  explicit Remaking(const StepTensors& step);

  /// For the first backward that reads the tensor.
  bool can_remake(std::span<const Fate> fates, std::uint32_t tensor);

 private:
  bool is_there(std::span<const Fate> fates, std::uint32_t tensor, std::uint32_t at);
  bool can_remake(std::span<const Fate> fates, std::uint32_t tensor, std::uint32_t at);

  struct Known {
    std::uint32_t question = 0;
    bool answer = false;
  };
  const StepTensors& step_;
  std::vector<bool> can_recompute_;
  std::vector<Known> known_;
  std::uint32_t question_ = 0;
};

}  // namespace memest
