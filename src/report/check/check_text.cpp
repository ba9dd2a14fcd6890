#include "report/check/check_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "memest/diag/expect.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownShares = 3;

std::vector<BudgetShare> largest(std::vector<BudgetShare> shares) {
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const BudgetShare& left, const BudgetShare& right) { return left.amount > right.amount; });
  if (shares.size() > kShownShares) shares.resize(kShownShares);
  return shares;
}

std::vector<BudgetShare> memory_shares(const JobEstimate& estimate) {
  std::vector<BudgetShare> shares;
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  for (const Term& term : memory.estimate.terms) {
    shares.push_back({memory.ledger.terms[term.index].name, term.value.as_double()});
  }
  return largest(std::move(shares));
}

/// Shares of the host memory that all ranks of a node take.
std::vector<BudgetShare> host_shares(const JobEstimate& estimate) {
  std::vector<BudgetShare> shares;
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  const auto ranks = static_cast<double>(memory.host_need->ranks);
  for (const HostTerm& term : memory.host->terms) {
    const double times = term.of_node ? 1 : ranks;
    if (!term.on_nvme) shares.push_back({term.name, times * term.taken().as_double()});
  }
  return largest(std::move(shares));
}

/// Operations share a step, and so its price; `whole` is the step in the line's unit.
std::vector<BudgetShare> time_shares(const JobEstimate& estimate, double whole) {
  std::vector<BudgetShare> shares;
  const auto& time = std::get<TimeEstimate>(estimate.time);
  for (const OpTime& op : time.ops) {
    shares.push_back({fmt::format("{} {}", op.block, op.op), whole * (op.seconds / time.step)});
  }
  return largest(std::move(shares));
}

std::vector<BudgetShare> shares_of(const BudgetLine& line, const JobEstimate& estimate) {
  if (line.status == BudgetStatus::within || line.status == BudgetStatus::unavailable) return {};
  switch (line.item) {
    case BudgetItem::capacity:
    case BudgetItem::memory:
      return memory_shares(estimate);
    case BudgetItem::host_memory:
      return host_shares(estimate);
    case BudgetItem::step_time:
    case BudgetItem::cost_per_billion_tokens:
      return time_shares(estimate, line.value);
    case BudgetItem::flops: {
      const auto& flops = std::get<FlopsEstimate>(estimate.flops);
      return largest(
          {{"forward", flops.forward.as_double()}, {"backward", flops.backward.as_double()}});
    }
  }
  unreachable("a budget item beyond the enum");
}

/// The places of the program that hold most at the peak, and the operators that take longest.
std::vector<BudgetShare> shares_of(const BudgetLine& line, const RecordedNeeds& needs,
                                   const RecordedMoment& peak) {
  std::vector<BudgetShare> shares;
  if (line.status == BudgetStatus::within || line.status == BudgetStatus::unavailable) return {};
  if (line.item == BudgetItem::capacity || line.item == BudgetItem::memory) {
    for (const PlaceUse& use : peak.places) {
      shares.push_back({use.place.empty() ? "autograd" : use.place, use.bytes.as_double()});
    }
  } else if (const auto* time = std::get_if<RecordedTime>(&needs.time)) {
    for (const RecordedWorkTime& op : time->operators) {
      const bool counts = line.item == BudgetItem::flops;
      shares.push_back({op.name, counts ? op.flops.as_double() : op.seconds.value()});
    }
  }
  return largest(std::move(shares));
}

/// A line that is not known is a mistake of the file's, of which nobody is guilty.
void add_line(BudgetLine line, std::vector<BudgetShare> shares, CheckedFile& file) {
  if (line.status == BudgetStatus::unavailable) {
    file.errors.push_back(
        {Severity::error,
         {},
         fmt::format("{}: not known: {}: {}", file.file, name_of(line.item), line.sentence),
         "",
         true});
  }
  file.lines.push_back({std::move(line), std::move(shares)});
}

}  // namespace

std::span<const Diagnostic> shown_of(const Diagnostics& errors) {
  return {errors.data(), std::min(errors.size(), kMostOfAText)};
}

std::string amount_text(BudgetItem item, double amount) {
  switch (item) {
    case BudgetItem::capacity:
    case BudgetItem::host_memory:
    case BudgetItem::memory:
      return sized_text(Bytes(std::llround(amount)));
    case BudgetItem::step_time:
      return seconds_text(Seconds(amount));
    case BudgetItem::cost_per_billion_tokens:
      return dollars_text(Dollars(amount));
    case BudgetItem::flops:
      return flops_text(Flops(static_cast<Int128>(amount)));
  }
  unreachable("a budget item beyond the enum");
}

std::string_view unit_of(BudgetItem item) {
  switch (item) {
    case BudgetItem::capacity:
    case BudgetItem::host_memory:
    case BudgetItem::memory:
      return "B";
    case BudgetItem::step_time:
      return "s";
    case BudgetItem::cost_per_billion_tokens:
      return "USD";
    case BudgetItem::flops:
      return "FLOP";
  }
  unreachable("a budget item beyond the enum");
}

std::string sentence_of(const CheckedLine& checked) {
  const BudgetLine& line = checked.line;
  const auto amount = [&](double value) { return amount_text(line.item, value); };
  if (line.status == BudgetStatus::unavailable) {
    return fmt::format("{}: not available: {}", name_of(line.item), line.sentence);
  }
  std::string text =
      fmt::format("{}: {} of {}", name_of(line.item), amount(line.value), amount(line.limit));
  if (line.status == BudgetStatus::over && line.value > line.limit) {
    text += fmt::format(", {} over", amount(line.value - line.limit));
  } else if (line.status == BudgetStatus::over) {
    text += ", over";
  } else if (line.status == BudgetStatus::too_close) {
    text += fmt::format(", too close to call: {} to {}", amount(line.low), amount(line.high));
  }
  const char* before = ": ";
  for (const BudgetShare& share : checked.shares) {
    text += fmt::format("{}{} {}", before, share.name, amount(share.amount));
    before = ", ";
  }
  return text;
}

FileStatus CheckedFile::status() const {
  if (!errors.empty()) {
    return is_unavailable(errors) ? FileStatus::not_known : FileStatus::invalid;
  }
  const bool over = std::any_of(lines.begin(), lines.end(), [](const CheckedLine& checked) {
    return checked.line.status == BudgetStatus::over;
  });
  if (over) return FileStatus::over;
  if (accepted) return FileStatus::within;
  if (lock == LockState::moved) return FileStatus::moved;
  return lock == LockState::added ? FileStatus::not_locked : FileStatus::within;
}

FileStatus CheckedSpecs::status() const {
  FileStatus worst = gone.empty() || updated ? FileStatus::within : FileStatus::moved;
  for (const CheckedFile& file : files) worst = std::max(worst, file.status());
  return worst;
}

CheckedFile check_file(const std::string& file, const Job& job, const JobEstimate& estimate) {
  CheckedFile result;
  result.file = file;
  result.has_budget = has_budget(job.budget);
  if (!job.hardware.assumed || job.hardware.memory) {
    result.capacity = capacity_of(job.hardware).bytes;
  }
  for (BudgetLine& line : hold_to_budget(job, estimate)) {
    std::vector<BudgetShare> shares = shares_of(line, estimate);
    add_line(std::move(line), std::move(shares), result);
  }
  return result;
}

CheckedFile check_recording(const std::string& file, const Budget& budget,
                            const RecordedNeeds& needs, const RecordedMoment& peak) {
  CheckedFile result;
  result.file = file;
  result.has_budget = has_budget(budget);
  result.capacity = needs.capacity;
  for (BudgetLine& line : hold_to_budget(budget, needs)) {
    std::vector<BudgetShare> shares = shares_of(line, needs, peak);
    add_line(std::move(line), std::move(shares), result);
  }
  return result;
}

}  // namespace memest
