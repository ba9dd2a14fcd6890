#include "device/running.hpp"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace memest::record {
namespace {

using Lock = std::lock_guard<std::mutex>;

struct Call {
  std::uint64_t handle = 0;
  std::uint32_t module = 0;
  bool evaluates = false;
  bool in_node = false;
};

thread_local std::vector<Call> calls;
thread_local std::uint64_t ranges = 0;
thread_local bool has_modules = false;

/// Nodes by the sequence numbers that they have in the thread that is told its modules.
struct Nodes {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::uint32_t> modules;
};

/// Never destroyed, as memory().
Nodes& nodes() {
  static auto* const made = new Nodes;
  return *made;
}

/// The last operator that is told the number of the next node is the one that makes it.
void note_maker(std::uint64_t sequence, std::uint32_t module) {
  const Lock lock(nodes().mutex);
  nodes().modules[sequence] = module;
}

std::uint32_t maker_of(std::uint64_t sequence) {
  const Lock lock(nodes().mutex);
  const auto found = nodes().modules.find(sequence);
  return found == nodes().modules.end() ? 0 : found->second;
}

Call inner_call() { return calls.empty() ? Call{} : calls.back(); }

}  // namespace

void enter_range(const Range& range) {
  ++ranges;
  Call call = inner_call();
  const bool is_node = call.evaluates && range.sequence;
  // What a range of the program's own runs belongs to the operator around it.
  if (range.handle != 0) call.handle = range.handle;
  call.evaluates = range.evaluates;
  if (is_node) {
    // A node within a node is of a graph that this thread has made, of no module that is told.
    call.module = call.in_node ? 0 : maker_of(*range.sequence);
    call.in_node = true;
    calls.back().module = call.module;  // gradients are summed behind the node
  } else if (range.sequence && call.in_node) {
    call.module = 0;  // nodes run without grad mode: a forward is computed anew
  } else if (range.sequence && has_modules) {
    note_maker(*range.sequence, call.module);
  }
  calls.push_back(call);
}

void leave_range() {
  if (!calls.empty()) calls.pop_back();
}

void enter_module(std::uint32_t module) {
  has_modules = true;
  Call call = inner_call();
  call.module = module;
  calls.push_back(call);
}

void leave_module() { leave_range(); }

std::uint64_t current_operator() { return inner_call().handle; }
std::uint32_t current_module() { return inner_call().module; }
std::uint64_t entered_ranges() { return ranges; }

void forget_nodes() {
  const Lock lock(nodes().mutex);
  nodes().modules.clear();
}

}  // namespace memest::record
