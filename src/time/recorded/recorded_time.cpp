#include "memest/time/recorded_time.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/recorded/phase_name.hpp"
#include "memest/time/links.hpp"
#include "time/launch_rate.hpp"
#include "time/recorded/recorded_calls.hpp"
#include "time/recorded/step_clock.hpp"
#include "time/step_share.hpp"

namespace memest {
namespace {

bool is_work(const WorkItem& item) {
  return std::holds_alternative<RecordedKernel>(item.what) ||
         std::holds_alternative<RecordedProduct>(item.what) ||
         std::holds_alternative<RecordedMessage>(item.what) ||
         std::holds_alternative<RecordedCopy>(item.what);
}

MessageKind kind_of(RecordedMessageKind kind) {
  switch (kind) {
    case RecordedMessageKind::all_reduce:
      return MessageKind::all_reduce;
    case RecordedMessageKind::all_gather:
      return MessageKind::all_gather;
    case RecordedMessageKind::reduce_scatter:
      return MessageKind::reduce_scatter;
    // One rank's bytes pass through every link of a ring once.
    case RecordedMessageKind::broadcast:
    case RecordedMessageKind::reduce:
    case RecordedMessageKind::send:
    case RecordedMessageKind::recv:
      return MessageKind::send;
  }
  unreachable("every message has a kind");
}

GroupPlace place_of_message(const RecordedMessage& message, std::int64_t stride,
                            std::int64_t linked) {
  const std::int64_t step = std::max<std::int64_t>(stride, 1);
  const std::int64_t in_node = std::clamp<std::int64_t>(linked / step, 1, message.ranks);
  return {.ranks = message.ranks, .in_node = in_node, .stride = step};
}

/// The prices of a step's items on one GPU type. They are made, by price_items(), where none is
/// missing().
class RecordedPrices {
 public:
  RecordedPrices(const RecordedWork& work, const Hardware& hardware)
      : work_(work),
        hardware_(hardware),
        laws_(hardware.gpu),
        links_(laws_, hardware),
        calls_(calls_of(work)) {}

  void price_items() {
    price_all(0);
    double products = 0;
    double all = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].kind == WorkClass::message) continue;
      all += prices_[i].expected;
      if (calls_[i].kind == WorkClass::product) products += prices_[i].expected;
    }
    price_all(laws_.load_of_products(all > 0 ? products / all : 0));
  }

  [[nodiscard]] const std::vector<RecordedCall>& calls() const { return calls_; }
  [[nodiscard]] const CallPrice& price(std::size_t item) const { return prices_[item]; }
  [[nodiscard]] bool has_messages() const {
    return std::ranges::any_of(
        calls_, [](const RecordedCall& call) { return call.kind == WorkClass::message; });
  }

  [[nodiscard]] ItemSeconds seconds(Outlook outlook) const {
    const StepPlatform platform{.gpu = hardware_.gpu, .alone = !has_messages()};
    const double share = step_share(platform, outlook);
    const LaunchRates eager = launch_rates(Implementation{});
    ItemSeconds seconds;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const WorkItem& item = work_.items[i];
      const bool asked = is_work(item);
      const LaunchRate& rate = item.thread == 0 ? eager.forward : eager.backward;
      seconds.host.push_back(asked ? rate.at(outlook) : 0);
      const double over = calls_[i].kind == WorkClass::message ? 1 : share;
      seconds.device.push_back(asked ? prices_[i].at(outlook) / over : 0);
    }
    return seconds;
  }

  /// Why the step has no time.
  [[nodiscard]] std::optional<Unavailable> missing() const {
    for (const RecordedCall& call : calls_) {
      const auto type = call.shape ? type_of(*call.shape) : std::nullopt;
      if (!type || hardware_.gpu.peak.contains(*type)) continue;
      return Unavailable{"no " + std::string(name_of(*type)) + " rate is known for " +
                         hardware_.gpu.name};
    }
    for (const WorkItem& item : work_.items) {
      const auto* message = std::get_if<RecordedMessage>(&item.what);
      if (message == nullptr || message->ranks < 2) continue;
      if (!laws_.know_collectives()) {
        return Unavailable{"neither a link nor a PCIe generation is known for " +
                           hardware_.gpu.name};
      }
      if (place_of(item, *message).nodes() > 1 && !links_.know_network()) {
        return Unavailable{"no network between nodes is usual with " + hardware_.gpu.name};
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] GroupPlace place_of(const WorkItem& item, const RecordedMessage& message) const {
    return place_of_message(message, work_.operators[item.op].rank_stride, hardware_.linked_gpus());
  }

  void price_all(double load) {
    prices_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      prices_.push_back(price_of(work_.items[i], calls_[i], load));
    }
  }

  [[nodiscard]] CallPrice price_of(const WorkItem& item, const RecordedCall& call,
                                   double load) const {
    if (const auto* message = std::get_if<RecordedMessage>(&item.what)) {
      if (message->ranks < 2) return laws_.price_of_empty();
      return links_.price(kind_of(message->kind), place_of(item, *message),
                          message->bytes.as_double());
    }
    // A datasheet may not have the generation of PCIe.
    const bool is_transfer = call.shape && std::holds_alternative<TransferShape>(*call.shape);
    const bool has_law = call.shape && (!is_transfer || laws_.know_transfers());
    if (!has_law) return laws_.price_of_empty();
    CallPrice price = laws_.price(*call.shape, load);
    const auto kernels = static_cast<double>(call.kernels);
    const double least = laws_.price_of_empty().expected;
    for (double* end : {&price.fast, &price.expected, &price.slow}) {
      *end = std::max(*end / kernels, least);
    }
    return price;
  }

  /// The type whose rate a call needs; none of those that are bound by memory.
  static std::optional<DType> type_of(const KernelShape& shape) {
    if (const auto* product = std::get_if<MatmulShape>(&shape)) return product->operand;
    if (const auto* attention = std::get_if<AttentionShape>(&shape)) return attention->dtype;
    return std::nullopt;
  }

  const RecordedWork& work_;
  const Hardware& hardware_;
  GpuLaws laws_;
  Links links_;
  std::vector<RecordedCall> calls_;
  std::vector<CallPrice> prices_;
};

/// One item. An operator's kernels share its call, which the first of them has.
struct Piece {
  const RecordedCall& call;
  double seconds;
  bool is_first;
};

void add_piece(const Piece& piece, RecordedWorkTime& sum) {
  ++sum.calls;
  sum.seconds += Seconds(piece.seconds);
  if (!piece.is_first) return;
  sum.flops += piece.call.flops;
  sum.bytes += piece.call.bytes;
}

/// Sums by name, in the order in which the names come.
class Sums {
 public:
  void add(std::string_view name, const Piece& piece) {
    const auto [found, is_new] = places_.try_emplace(name, sums_.size());
    if (is_new) {
      sums_.emplace_back().name = name;
      longest_.push_back(-1);
    }
    add_piece(piece, sums_[found->second]);
    // A copy between host and device among an operator's kernels does not make it one.
    const bool is_sent =
        piece.call.kind == WorkClass::copy || piece.call.kind == WorkClass::message;
    const double weight = is_sent ? 0 : piece.seconds;
    if (weight <= longest_[found->second]) return;
    longest_[found->second] = weight;
    sums_[found->second].kind = piece.call.kind;
  }

  [[nodiscard]] std::vector<RecordedWorkTime> in_order() const { return sums_; }
  /// Longest first.
  [[nodiscard]] std::vector<RecordedWorkTime> sorted() const {
    std::vector<RecordedWorkTime> times = sums_;
    std::ranges::stable_sort(times, std::ranges::greater(), &RecordedWorkTime::seconds);
    return times;
  }

 private:
  std::vector<RecordedWorkTime> sums_;
  std::vector<double> longest_;                     // by sum, of one piece: its kind is the sum's
  std::map<std::string_view, std::size_t> places_;  // in `sums_`; the names outlive it
};

class ModuleSums {
 public:
  explicit ModuleSums(const RecordedWork& work) : sums_(work.modules.size()) {}

  void add(std::size_t module, std::string_view phase, const Piece& piece) {
    add_piece(piece, phase == "backward" ? sums_[module].backward : sums_[module].forward);
  }
  [[nodiscard]] std::vector<RecordedModuleTime> sorted() && {
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].module = i;
    std::erase_if(sums_, [](const RecordedModuleTime& sum) {
      return sum.module == 0 || sum.forward.calls + sum.backward.calls == 0;
    });
    std::ranges::stable_sort(sums_, std::ranges::greater(), &RecordedModuleTime::seconds);
    return std::move(sums_);
  }

 private:
  std::vector<RecordedModuleTime> sums_;
};

/// An item's phase is the next that ends: "backward" up to the mark "step2.backward". Behind the
/// last phase that ends, and where no step has any, it is "rest".
std::vector<std::string_view> phases_of(const RecordedWork& work) {
  constexpr std::string_view kRest = "rest";
  std::vector<std::string_view> phases(work.items.size());
  std::string_view phase = kRest;
  for (std::size_t i = work.items.size(); i-- > 0;) {
    if (const auto* mark = std::get_if<WorkMark>(&work.items[i].what)) {
      const auto name = split_phase(mark->name);
      phase = name && name->phase != "unfinished" ? name->phase : kRest;
    }
    phases[i] = phase;
  }
  return phases;
}

/// The name that an item's work is listed under: its operator's, else what it is.
std::string_view listed_as(const RecordedWork& work, const WorkItem& item) {
  if (const auto* message = std::get_if<RecordedMessage>(&item.what)) return name_of(message->kind);
  if (item.op != 0 && work.operators[item.op].name != "?") return work.operators[item.op].name;
  if (const auto* kernel = std::get_if<RecordedKernel>(&item.what)) {
    return work.kernels[kernel->name];
  }
  return std::holds_alternative<RecordedProduct>(item.what) ? "product" : "copy";
}

void sum_up(const RecordedWork& work, const RecordedPrices& prices, RecordedTime& time) {
  const ItemSeconds seconds = prices.seconds(Outlook::expected);
  const std::vector<std::string_view> phases = phases_of(work);
  Sums of_phases;
  Sums kinds;
  Sums operators;
  ModuleSums modules(work);
  std::set<std::string> unknown;
  std::vector<bool> seen(work.operators.size());
  std::map<std::size_t, double> streams;
  std::map<std::pair<Provenance, std::string_view>, double> origins;
  for (std::size_t i = 0; i < work.items.size(); ++i) {
    const WorkItem& item = work.items[i];
    if (!is_work(item)) continue;
    const RecordedCall& call = prices.calls()[i];
    // Each product is a call of its own.
    const bool shares = std::holds_alternative<RecordedKernel>(item.what) && item.op != 0;
    const bool is_first = !shares || !seen[item.op];
    if (shares) seen[item.op] = true;
    const Piece piece{call, seconds.device[i], is_first};
    of_phases.add(phases[i], piece);
    kinds.add(name_of(call.kind), piece);
    operators.add(listed_as(work, item), piece);
    modules.add(item.module, phases[i], piece);
    ++time.launches;
    time.host += Seconds(seconds.host[i]);
    if (is_first) time.flops += call.flops;
    streams[item.stream] += seconds.device[i];
    if (call.kind == WorkClass::unknown) unknown.emplace(listed_as(work, item));
    const LawOrigin& origin = prices.price(i).origin;
    origins[{origin.provenance, origin.sibling}] += seconds.device[i];
  }
  for (const auto& [stream, busy] : streams) time.device = std::max(time.device, Seconds(busy));
  time.phases = of_phases.in_order();
  time.kinds = kinds.sorted();
  time.operators = operators.sorted();
  time.modules = work.modules;
  time.module_times = std::move(modules).sorted();
  time.unknown.assign(unknown.begin(), unknown.end());
  const auto most =
      std::ranges::max_element(origins, {}, [](const auto& entry) { return entry.second; });
  if (most != origins.end()) time.origin = {most->first.first, most->first.second};
}

/// The rate of the type that most products are of; nothing where it is not known.
std::optional<FlopsPerSecond> peak_of(const std::vector<RecordedCall>& calls, const GpuSpec& gpu) {
  std::map<DType, Flops> types;
  for (const RecordedCall& call : calls) {
    const auto* product = call.shape ? std::get_if<MatmulShape>(&*call.shape) : nullptr;
    if (product != nullptr) types[product->operand] += call.flops;
  }
  const auto most =
      std::ranges::max_element(types, {}, [](const auto& entry) { return entry.second; });
  if (most == types.end()) return std::nullopt;
  const auto fact = gpu.peak.find(most->first);
  return fact == gpu.peak.end() ? std::nullopt : std::optional(fact->second.value);
}

}  // namespace

std::string_view name_of(WorkClass kind) {
  switch (kind) {
    case WorkClass::product:
      return "products";
    case WorkClass::attention:
      return "attention";
    case WorkClass::convolution:
      return "convolutions";
    case WorkClass::memory:
      return "bound by memory";
    case WorkClass::message:
      return "messages";
    case WorkClass::copy:
      return "transfers";
    case WorkClass::unknown:
      return "not known";
  }
  unreachable("every class of work has a name");
}

std::variant<RecordedTime, Unavailable> time_of(const RecordedWork& work, const Hardware& hardware,
                                                const SourceMargin& published) {
  if (!hardware.gpu.memory_bandwidth) {
    return Unavailable{"no memory bandwidth is known for " + hardware.gpu.name};
  }
  RecordedPrices prices(work, hardware);
  if (auto reason = prices.missing()) return *std::move(reason);
  prices.price_items();
  RecordedTime time;
  time.of = work.of;
  time.cut_off = work.cut_off;
  const double step = period_of(work, prices.seconds(Outlook::expected));
  time.step = Seconds(step);
  time.low = std::min(Seconds(period_of(work, prices.seconds(Outlook::fast))),
                      Seconds(step * (1 - published.low)));
  time.high = std::max(Seconds(period_of(work, prices.seconds(Outlook::slow))),
                       Seconds(step * (1 + published.high)));
  sum_up(work, prices, time);
  time.peak = peak_of(prices.calls(), hardware.gpu);
  if (time.peak && step > 0) {
    time.utilisation = time.flops.as_double() / (time.peak->value() * step);
  }
  return time;
}

RecordedStepTime time_of(const std::optional<RecordedWork>& work, const Hardware& hardware,
                         const SourceMargin& published) {
  if (!work || work->items.empty()) return {};
  auto time = time_of(*work, hardware, published);
  if (auto* known = std::get_if<RecordedTime>(&time)) return std::move(*known);
  return std::get<Unavailable>(std::move(time));
}

}  // namespace memest
