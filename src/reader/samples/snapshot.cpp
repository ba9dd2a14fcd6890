#include "reader/samples/snapshot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reader/samples/pickle.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

// As far as an allocator trace goes.
constexpr Bytes kWithoutEnd(std::int64_t{1} << 50U);
constexpr std::int64_t kLargestAddress = std::int64_t{1} << 62U;
constexpr const char* kHowToRecord =
    "torch.cuda.memory._record_memory_history() before the run, "
    "torch.cuda.memory._dump_snapshot(FILE) after it";

struct HistoryAction {
  std::string_view name;
  std::optional<TraceEventKind> kind;  ///< none: it tells nothing of memory
};
// TraceEntry::HistoryAction as torch/csrc/cuda/Module.cpp spells it.
constexpr std::array<HistoryAction, 10> kActions = {{
    {"alloc", TraceEventKind::allocate},
    {"free_requested", TraceEventKind::free_when_done},
    {"free_completed", TraceEventKind::free},
    {"oom", TraceEventKind::out_of_memory},
    {"segment_alloc", TraceEventKind::segment_obtained},
    {"segment_free", TraceEventKind::segment_returned},
    {"segment_map", TraceEventKind::mapped},
    {"segment_unmap", TraceEventKind::unmapped},
    {"snapshot", std::nullopt},
    {"user_defined", std::nullopt},
}};

/// A stack's frame for people: the innermost of the program and its libraries, outside of torch.
struct StackFrame {
  std::string_view name;
  std::string_view file;
  std::int64_t line = 0;

  [[nodiscard]] bool is_python() const { return file.ends_with(".py"); }
  [[nodiscard]] bool is_of_torch() const { return file.find("/torch/") != std::string_view::npos; }

  /// C++ or C, as stacks="all" has them.
  [[nodiscard]] bool is_native() const {
    return name.find("::") != std::string_view::npos || file == "??" || file.ends_with(".c") ||
           file.ends_with(".S");
  }

  /// "MmBackward0" of "torch::autograd::generated::MmBackward0::apply(...)"; else empty.
  [[nodiscard]] std::string_view autograd_node() const {
    constexpr std::string_view kNodes = "torch::autograd::generated::";
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (!name.starts_with(kNodes)) return {};
    const std::string_view rest = name.substr(kNodes.size());
    const std::string_view node = rest.substr(0, rest.find_first_not_of(kLetters));
    return node.find("Backward") == std::string_view::npos ? std::string_view() : node;
  }

  [[nodiscard]] std::string text() const {
    // An answer shows where, not on whose disk.
    const std::string_view base = is_python() ? file.substr(file.rfind('/') + 1) : file;
    std::string where(base);
    if (line > 0) where += ":" + std::to_string(line);
    return where + " " + std::string(name);
  }
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, const std::shared_ptr<const SourceText>& source)
      : pickle_(pickle), source_(source) {}

  Checked<AllocatorTrace> read() {
    trace_.file = source_->name;
    trace_.settings_text = "default";
    trace_.device_memory = kWithoutEnd;
    const std::optional<Id> entries = find_history();
    if (entries) {
      read_settings();
      const std::vector<Id>& items = pickle_.items(*entries);
      for (std::size_t i = 0; i < items.size() && !fault_; ++i) read_entry(items, i);
      read_segments();
    }
    if (fault_) return *std::move(fault_);
    return std::move(trace_);
  }

 private:
  using Id = Pickle::Id;

  void fail(std::string message, std::string hint = {}) {
    if (!fault_) fault_ = error_at({source_, 0, 0, 0}, std::move(message), std::move(hint));
  }

  std::optional<Id> find_history() {
    const auto traces = pickle_.find(pickle_.root(), "device_traces");
    if (!traces || !pickle_.find(pickle_.root(), "segments")) {
      fail("this pickle is no memory snapshot: it has no 'segments' and 'device_traces'",
           kHowToRecord);
      return {};
    }
    std::optional<Id> history;
    for (std::size_t i = 0; i < pickle_.items(*traces).size(); ++i) {
      const Id one = pickle_.items(*traces)[i];
      if (pickle_.items(one).empty()) continue;
      if (history) {
        fail("the snapshot has histories of several GPUs: of " + std::to_string(device_) + " and " +
                 std::to_string(i),
             "a run is one GPU's: each rank writes a snapshot of its own");
        return {};
      }
      device_ = static_cast<std::int64_t>(i);
      history = one;
    }
    if (!history) fail("the snapshot has no history of allocations", kHowToRecord);
    return history;
  }

  [[nodiscard]] std::optional<std::int64_t> integer(Id dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    return value ? pickle_.integer(*value) : std::nullopt;
  }
  [[nodiscard]] std::string_view text(Id dict, std::string_view key) const {
    const auto value = pickle_.find(dict, key);
    return value ? pickle_.text(*value).value_or("") : "";
  }

  /// The allocator's own state, which says what PYTORCH_CUDA_ALLOC_CONF came to.
  void read_settings() {
    const auto written = pickle_.find(pickle_.root(), "allocator_settings");
    if (!written) return;
    if (const std::string_view conf = text(*written, "PYTORCH_CUDA_ALLOC_CONF"); !conf.empty()) {
      trace_.settings_text = conf;
    }
    AllocatorSettings& settings = trace_.settings;
    settings.expandable_segments = integer(*written, "expandable_segments").value_or(0) != 0;
    const std::int64_t split = integer(*written, "max_split_size").value_or(-1);
    if (split > 0) settings.max_split_size = Bytes(split);
    const auto threshold = pickle_.find(*written, "garbage_collection_threshold");
    if (const double share = threshold ? pickle_.real(*threshold).value_or(0) : 0; share > 0) {
      settings.garbage_collection_threshold = share;
    }
    const auto divisions = pickle_.find(*written, "roundup_power2_divisions");
    for (std::size_t i = 0; divisions && i < kRoundingClasses; ++i) {
      settings.roundup_power2_divisions[i] =
          integer(*divisions, std::to_string(std::int64_t{1} << i)).value_or(0);
    }
  }

  void read_entry(const std::vector<Id>& items, std::size_t index) {
    const Id entry = items[index];
    const std::string_view name = text(entry, "action");
    const auto* const action = std::ranges::find(kActions, name, &HistoryAction::name);
    if (action == kActions.end()) {
      return fail("entry " + std::to_string(index + 1) + " of the history is a " + quote(name) +
                  ", which memest does not know");
    }
    if (!action->kind) return;
    TraceEvent event;
    event.kind = *action->kind;
    event.line = static_cast<std::int32_t>(index + 1);
    const auto size = integer(entry, "size");
    const bool fails = event.kind == TraceEventKind::out_of_memory;
    const auto place = integer(entry, fails ? "device_free" : "addr");
    const bool told = size && *size >= 0 && *size <= kWithoutEnd.value() && place && *place >= 0 &&
                      *place <= kLargestAddress;
    if (!told) {
      return fail("entry " + std::to_string(index + 1) + " of the history has no size and address");
    }
    event.size = Bytes(*size);
    event.stream = stream_of(integer(entry, "stream").value_or(0));
    if (fails) {
      trace_.device_memory =
          reserved_ + Bytes(std::clamp<std::int64_t>(*place, 0, kWithoutEnd.value()));
    } else if (is_segment_event(event.kind)) {
      event.number = *place;
      grow(event);
    } else if (event.kind == TraceEventKind::allocate) {
      event.number = trace_.allocations++;
      live_[*place] = event.number;
      note_place(entry);
    } else if (!is_there_to_free(items, index, event, *place)) {
      return;
    }
    trace_.events.push_back(event);
  }

  /// Sets the number of a free's block. None where it was there before the recording, or where the
  /// free is done by the next entry.
  bool is_there_to_free(const std::vector<Id>& items, std::size_t index, TraceEvent& event,
                        std::int64_t address) {
    const auto found = live_.find(address);
    const bool done = event.kind == TraceEventKind::free;
    if (found == live_.end()) {
      if (done) add_earlier(event.size);
      return false;
    }
    event.number = found->second;
    if (done) {
      awaited_.erase(event.number);
      live_.erase(found);
      return true;
    }
    if (!awaited_.insert(event.number).second) {
      fail("entry " + std::to_string(index + 1) + " of the history frees a block a second time");
      return false;
    }
    const bool at_once = index + 1 < items.size() &&
                         text(items[index + 1], "action") == "free_completed" &&
                         integer(items[index + 1], "addr") == address;
    return !at_once;
  }

  void grow(const TraceEvent& event) {
    const bool more =
        event.kind == TraceEventKind::segment_obtained || event.kind == TraceEventKind::mapped;
    more ? reserved_ += event.size : reserved_ -= event.size;
  }

  void add_earlier(Bytes size) {
    ++trace_.earlier.count;
    trace_.earlier.allocated += size;
  }

  /// By first appearance: a snapshot has the streams' addresses.
  std::int32_t stream_of(std::int64_t address) {
    const auto known = streams_.emplace(address, static_cast<std::int32_t>(streams_.size()));
    return known.first->second;
  }

  void note_place(Id entry) {
    const auto frames = pickle_.find(entry, "frames");
    if (!frames || pickle_.items(*frames).empty()) {
      // Stacks may be left out of some entries, as under context="state".
      if (!trace_.asked_at.empty()) trace_.asked_at.push_back(number_of_place(""));
      return;
    }
    while (trace_.asked_at.size() + 1 < static_cast<std::size_t>(trace_.allocations)) {
      trace_.asked_at.push_back(number_of_place(""));
    }
    const auto [known, is_new] = stacks_.emplace(*frames, 0);
    if (is_new) known->second = number_of_place(place_of(*frames));
    trace_.asked_at.push_back(known->second);
  }

  std::uint32_t number_of_place(std::string text) {
    const auto number = static_cast<std::uint32_t>(trace_.places.size());
    const auto [known, is_new] = places_.emplace(text, number);
    if (is_new) trace_.places.push_back(std::move(text));
    return known->second;
  }

  /// Takes the innermost Python frame outside of torch, in autograd's thread, which has none, its
  /// node, else the innermost frame of Python or of a recorder that knows neither; none of C++.
  [[nodiscard]] std::string place_of(Id frames) const {
    std::optional<StackFrame> best;
    std::string_view node;
    for (const Id id : pickle_.items(frames)) {
      const StackFrame frame{text(id, "name"), text(id, "filename"),
                             integer(id, "line").value_or(0)};
      if (frame.is_python() && !frame.is_of_torch()) return frame.text();
      if (node.empty()) node = frame.autograd_node();
      if (!best && (frame.is_python() || !frame.is_native())) best = frame;
    }
    if (!node.empty()) return std::string(node);
    return best ? best->text() : "";
  }

  /// Blocks that are there at the end and were not seen to come were there before.
  void read_segments() {
    Bytes end;
    for (const Id segment : pickle_.items(*pickle_.find(pickle_.root(), "segments"))) {
      if (integer(segment, "device").value_or(0) != device_) continue;
      end += Bytes(integer(segment, "total_size").value_or(0));
      const auto blocks = pickle_.find(segment, "blocks");
      if (!blocks) continue;
      for (const Id block : pickle_.items(*blocks)) {
        const auto address = integer(block, "address");
        const bool alive = text(block, "state") == "active_allocated";
        if (!alive || !address || live_.contains(*address)) continue;
        add_earlier(Bytes(integer(block, "size").value_or(0)));
      }
    }
    if (end > reserved_) trace_.earlier.reserved = end - reserved_;
  }

  const Pickle& pickle_;
  std::shared_ptr<const SourceText> source_;
  AllocatorTrace trace_;
  std::optional<Diagnostic> fault_;
  std::int64_t device_ = 0;
  Bytes reserved_;                                          // since the recording began
  std::unordered_map<std::int64_t, std::int64_t> live_;     // by address: the allocation
  std::unordered_set<std::int64_t> awaited_;                // allocations that wait for a stream
  std::unordered_map<std::int64_t, std::int32_t> streams_;  // by address: the number
  std::unordered_map<Id, std::uint32_t> stacks_;            // by list of frames: the place
  std::unordered_map<std::string, std::uint32_t> places_;
};

}  // namespace

bool is_pickle(std::string_view text) {
  constexpr char kProto = '\x80';
  constexpr char kMostProtocol = 5;
  return text.size() > 2 && text[0] == kProto && text[1] >= 2 && text[1] <= kMostProtocol;
}

Checked<AllocatorTrace> read_snapshot(const std::shared_ptr<const SourceText>& source) {
  const Checked<Pickle> pickle = Pickle::read(source);
  if (!pickle.ok()) return pickle.diagnostics();
  return SnapshotReader(pickle.value(), source).read();
}

}  // namespace memest
