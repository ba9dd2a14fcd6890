// The schedule of least time over a chain with heterogeneous costs, within a budget.
#include <algorithm>
#include <limits>

#include "memest/plan/schedule.hpp"
#include "plan/schedule/chain_writer.hpp"

namespace memest {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A stage with its costs; bytes are of tensors that it makes, its answer among them.
struct StageCost {
  double forward = 0;
  double backward = 0;
  std::int64_t input = 0;        ///< bytes
  std::int64_t spare = 0;        ///< of them, where no backward reads it: gone once the stage keeps
  std::int64_t kept = 0;         ///< for its backward, without its answer
  std::int64_t back = 0;         ///< at its backward's peak, with what else is alive then
  std::int64_t first_plain = 0;  ///< at its first forward's peak where it keeps nothing, likewise
  std::int64_t first_kept = 0;   ///< and where it keeps what its backward reads
  std::int64_t plain = 0;        ///< at a later forward's peak, with its own temporaries alone
  std::int64_t rerun_kept = 0;
  double rerun = 0;             ///< seconds of a forward for its own backward alone
  std::int64_t rerun_peak = 0;  ///< at its peak, with its own temporaries
};

/// Tensors of one stage while it runs.
class StageMemory {
 public:
  StageMemory(const StepTensors& step, const ChainStage& stage, std::optional<std::uint32_t> answer)
      : step_(step), stage_(stage), answer_(answer) {}

  void add_to(StageCost& cost) const {
    const Forward plain = run({false, stage_.end});
    const Forward kept = run({true, stage_.end});
    const std::int64_t answer = answer_ ? step_.tensors[*answer_].bytes : 0;
    cost.first_plain = plain.first;
    cost.plain = plain.later;
    cost.first_kept = kept.first;
    cost.rerun_kept = kept.later;
    cost.rerun_peak = run({true, end_of_rerun(step_, stage_)}).later;
    cost.kept = kept.stays + cost.spare - answer;
    const bool saves_answer = answer_ && saved_here(step_.tensors[*answer_]);
    cost.back = backward_peak(cost.kept + (saves_answer ? answer : 0));
  }

 private:
  [[nodiscard]] bool is_own(const StepTensor& tensor) const {
    return tensor.makers.front() >= stage_.begin;
  }
  [[nodiscard]] bool saved_here(const StepTensor& tensor) const {
    return !tensor.savers.empty() && tensor.savers.front() < stage_.end;
  }

  [[nodiscard]] std::int64_t backward_peak(std::int64_t kept) const {
    std::int64_t peak = 0;
    for (std::uint32_t op = stage_.end; op > stage_.begin; --op) {
      peak = std::max(peak, kept + step_.ops[op - 1].backward.most);
      for (const std::uint32_t tensor : step_.ops[op - 1].saves) {
        const StepTensor& saved = step_.tensors[tensor];
        if (is_own(saved) && saved.savers.front() == op - 1) kept -= saved.bytes;
      }
    }
    return peak;
  }

  struct Pass {
    bool keeps = false;
    std::uint32_t end = 0;
  };
  /// Peaks of a forward, and the bytes that stay behind it.
  struct Forward {
    std::int64_t first = 0;  ///< with what else is alive
    std::int64_t later = 0;  ///< with its own temporaries alone
    std::int64_t stays = 0;
  };
  [[nodiscard]] Forward run(Pass pass) const {
    Forward forward;
    for (std::uint32_t op = stage_.begin; op < pass.end; ++op) {
      const StepOp& ran = step_.ops[op];
      for (const std::uint32_t tensor : ran.makes) {
        const StepTensor& made = step_.tensors[tensor];
        if (made.makers.front() == op) forward.stays += made.bytes;
      }
      const std::int64_t temporaries =
          std::max<std::int64_t>(0, ran.forward.most - ran.forward.before);
      forward.first = std::max(forward.first, forward.stays + ran.forward.most);
      forward.later = std::max(forward.later, forward.stays + temporaries);
      forward.stays -= used_up(op, pass.keeps);
    }
    return forward;
  }

  [[nodiscard]] std::int64_t used_up(std::uint32_t op, bool keeps) const {
    std::vector<std::uint32_t> ended = step_.ops[op].reads;
    for (const std::uint32_t tensor : step_.ops[op].makes) {
      if (std::find(ended.begin(), ended.end(), tensor) == ended.end()) ended.push_back(tensor);
    }
    std::int64_t bytes = 0;
    for (const std::uint32_t tensor : ended) {
      const StepTensor& used = step_.tensors[tensor];
      const bool stays = answer_ == tensor || (keeps ? !used.savers.empty() : !is_own(used));
      if (!stays && last_use_of(used) == op) bytes += used.bytes;
    }
    return bytes;
  }

  const StepTensors& step_;
  const ChainStage& stage_;
  std::optional<std::uint32_t> answer_;
};

std::vector<StageCost> costs_of(const ScheduledStep& step, const std::vector<ChainStage>& chain) {
  std::vector<StageCost> costs;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const ChainStage& stage = chain[i];
    StageCost& cost = costs.emplace_back();
    for (std::uint32_t op = stage.begin; op < stage.end; ++op) {
      cost.forward += step.forward[op];
      cost.backward += step.backward[op];
      if (op < end_of_rerun(step.step, stage)) cost.rerun += step.forward[op];
    }
    if (stage.input) {
      const StepTensor& input = step.step.tensors[*stage.input];
      cost.input = input.bytes;
      if (input.savers.empty()) cost.spare = input.bytes;
    }
    const auto answer = i + 1 < chain.size() ? chain[i + 1].input : std::nullopt;
    StageMemory(step.step, stage, answer).add_to(cost);
  }
  return costs;
}

/// Bytes that are alive beside the tensors whatever the schedule.
std::int64_t always_alive(const StepTensors& step) {
  std::int64_t least = step.ops.front().forward.most;
  for (const StepOp& op : step.ops) {
    least = std::min({least, op.forward.most, op.backward.most, op.backward.before});
  }
  return least;
}

/// Least seconds by stages [first, last] and by free memory, the first one's input not counted.
class Program {
 public:
  Program(const ScheduledStep& step, const std::vector<ChainStage>& chain, std::int64_t budget,
          std::int64_t slots)
      : costs_(costs_of(step, chain)),
        count_(static_cast<std::uint32_t>(chain.size())),
        base_(always_alive(step.step)),
        slot_(std::max<std::int64_t>(1, (budget - base_ + slots - 1) / slots)),
        free_(budget < base_ ? -1 : (budget - base_) / slot_) {
    for (const ChainStage& stage : chain) {
      beside_.push_back(step.step.ops[stage.end - 1].backward.before);
    }
    solve();
  }

  [[nodiscard]] bool fits() const {
    return free_ >= 0 && row(0, count_ - 1)[static_cast<std::size_t>(free_)] < kNever;
  }
  [[nodiscard]] std::int64_t free() const { return free_; }

  /// The choice for stages [first, last] with so many free slots.
  [[nodiscard]] std::uint32_t choice(std::uint32_t first, std::uint32_t last,
                                     std::int64_t free) const {
    double best = keeping(first, last, free);
    std::uint32_t choice = 0;
    double forward = 0;
    std::int64_t need = 0;
    for (std::uint32_t checkpoint = first + 1; checkpoint <= last; ++checkpoint) {
      forward += costs_[checkpoint - 1].forward;
      need = std::max(need, need_plain(first, checkpoint - 1, last));
      const std::int64_t left = free - up(costs_[checkpoint].input);
      if (free < need || left < 0) continue;
      const double seconds = forward + row(checkpoint, last)[static_cast<std::size_t>(left)] +
                             row(first, checkpoint - 1)[static_cast<std::size_t>(free)];
      if (seconds < best) {
        best = seconds;
        choice = checkpoint;
      }
    }
    return choice;
  }

  /// Free slots behind a checkpoint, and behind a stage that keeps.
  [[nodiscard]] std::int64_t behind(std::uint32_t checkpoint, std::int64_t free) const {
    return free - up(costs_[checkpoint].input);
  }
  [[nodiscard]] std::int64_t behind_kept(std::uint32_t stage, std::int64_t free) const {
    return free + costs_[stage].spare / slot_ - up(costs_[stage].kept) -
           up(costs_[stage + 1].input);
  }

 private:
  using Row = std::vector<double>;

  [[nodiscard]] std::int64_t up(std::int64_t bytes) const { return (bytes + slot_ - 1) / slot_; }
  [[nodiscard]] const Row& row(std::uint32_t first, std::uint32_t last) const {
    return rows_[first * count_ + last];
  }
  [[nodiscard]] bool is_first_pass(std::uint32_t last) const { return last + 1 == count_; }

  /// Slots that stage `stage` needs to run without keeping while [.., last] wait for their
  /// backward; its input counts but where it is the first one's.
  [[nodiscard]] std::int64_t need_plain(std::uint32_t first, std::uint32_t stage,
                                        std::uint32_t last) const {
    const StageCost& cost = costs_[stage];
    const std::int64_t tensors =
        is_first_pass(last) ? cost.first_plain - base_ : cost.plain + beside_[last] - base_;
    return up(tensors) + (stage > first ? up(cost.input) : 0);
  }
  [[nodiscard]] std::int64_t need_kept(std::uint32_t stage, std::uint32_t last) const {
    const StageCost& cost = costs_[stage];
    const std::int64_t forward =
        is_first_pass(last) ? cost.first_kept - base_ : cost.rerun_kept + beside_[last] - base_;
    return up(std::max(forward, cost.back - cost.spare - base_));
  }

  [[nodiscard]] double keeping(std::uint32_t first, std::uint32_t last, std::int64_t free) const {
    const StageCost& cost = costs_[first];
    if (first == last && !is_first_pass(last)) {
      const std::int64_t forward = cost.rerun_peak + beside_[last];
      const std::int64_t need = up(std::max(forward, cost.back - cost.spare) - base_);
      return free < need ? kNever : cost.rerun + cost.backward;
    }
    if (free < need_kept(first, last)) return kNever;
    const double own = cost.forward + cost.backward;
    if (first == last) return own;
    const std::int64_t left = behind_kept(first, free);
    return left < 0 ? kNever : own + row(first + 1, last)[static_cast<std::size_t>(left)];
  }

  void solve() {
    if (free_ < 0) return;
    rows_.resize(static_cast<std::size_t>(count_) * count_);
    for (std::uint32_t length = 1; length <= count_; ++length) {
      for (std::uint32_t first = 0; first + length <= count_; ++first) {
        solve(first, first + length - 1);
      }
    }
  }

  void solve(std::uint32_t first, std::uint32_t last) {
    Row& seconds = rows_[first * count_ + last];
    seconds.resize(static_cast<std::size_t>(free_) + 1);
    for (std::int64_t free = 0; free <= free_; ++free) {
      seconds[static_cast<std::size_t>(free)] = keeping(first, last, free);
    }
    double forward = 0;
    std::int64_t need = 0;
    for (std::uint32_t checkpoint = first + 1; checkpoint <= last; ++checkpoint) {
      forward += costs_[checkpoint - 1].forward;
      need = std::max(need, need_plain(first, checkpoint - 1, last));
      const std::int64_t input = up(costs_[checkpoint].input);
      const Row& behind = row(checkpoint, last);
      const Row& before = row(first, checkpoint - 1);
      for (std::int64_t free = std::max(need, input); free <= free_; ++free) {
        const auto at = static_cast<std::size_t>(free);
        const double sum = forward + behind[at - static_cast<std::size_t>(input)] + before[at];
        seconds[at] = std::min(seconds[at], sum);
      }
    }
  }

  std::vector<StageCost> costs_;
  std::uint32_t count_;
  std::int64_t base_;
  std::int64_t slot_;                 ///< bytes
  std::int64_t free_;                 ///< slots; below zero: not even `base_` fits
  std::vector<std::int64_t> beside_;  ///< by the last stage: alive as its backward begins
  std::vector<Row> rows_;
};

/// The choices of a program in the order in which a writer asks for them: the free memory goes
/// along.
class Choices {
 public:
  explicit Choices(const Program& program) : program_(program) {}

  void collect(std::uint32_t first, std::uint32_t last, std::int64_t free) {
    if (first == last) return;
    const std::uint32_t checkpoint = program_.choice(first, last, free);
    list_.push_back(checkpoint);
    if (checkpoint > first) {
      collect(checkpoint, last, program_.behind(checkpoint, free));
      collect(first, checkpoint - 1, free);
    } else {
      collect(first + 1, last, program_.behind_kept(first, free));
    }
  }

  [[nodiscard]] std::uint32_t next() { return list_[next_++]; }

 private:
  const Program& program_;
  std::vector<std::uint32_t> list_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<std::vector<Action>> least_time(const ScheduledStep& step,
                                              const std::vector<ChainStage>& chain,
                                              std::int64_t budget, std::int64_t slots) {
  const Program program(step, chain, budget, slots);
  if (!program.fits()) return std::nullopt;
  Choices choices(program);
  choices.collect(0, static_cast<std::uint32_t>(chain.size()) - 1, program.free());
  return ChainWriter(step.step, chain).write([&](std::uint32_t, std::uint32_t) {
    return ChainChoice{choices.next()};
  });
}

}  // namespace memest
