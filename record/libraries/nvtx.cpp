// NVTX: PyTorch tells a tool which operator a thread runs (torch.autograd.profiler.emit_nvtx), and
// this library is the tool. NVTX_INJECTION64_PATH names it; the interface is nvtxTypes.h's.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "abi/calls.hpp"
#include "device/running.hpp"

namespace memest::record {
namespace {

using Function = void (*)();

/// NvtxExportTableCallbacks.
struct Callbacks {
  std::size_t size;
  int (*functions_of)(int module, Function*** table, unsigned* size);
};

enum ExportTable : std::uint32_t { callbacks = 1 };
enum Module : int { core = 1 };
/// NvtxCallbackIdCore.
enum CoreFunction : unsigned { range_push = 9, range_pop = 11 };

template <std::size_t kSize>
std::optional<std::uint64_t> number_behind(const char* message, const char (&key)[kSize]) {
  const char* const found = std::strstr(message, key);
  if (found == nullptr) return std::nullopt;
  return std::strtoull(found + kSize - 1, nullptr, 10);
}

/// "aten::mm, seq = 13, op_id = 8" (torch/csrc/profiler/util.cpp, getNvtxStr).
int push(const char* message) {
  constexpr char kEvaluates[] = "autograd::engine::evaluate_function";
  Range range;
  // A range of the program's own is no operator.
  if (const auto handle = number_behind(message, ", op_id = ")) {
    range.handle = *handle;
    range.sequence = number_behind(message, ", seq = ");
    range.evaluates = std::strncmp(message, kEvaluates, sizeof kEvaluates - 1) == 0;
  }
  enter_range(range);
  return 0;
}

int pop() {
  leave_range();
  return 0;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL int InitializeInjectionNvtx2(const void* (*export_table)(std::uint32_t)) {
  const auto* const table = static_cast<const Callbacks*>(export_table(callbacks));
  Function** functions = nullptr;
  unsigned size = 0;
  if (table == nullptr || table->functions_of(core, &functions, &size) == 0) return 0;
  if (size <= range_pop) return 0;
  *functions[range_push] = reinterpret_cast<Function>(&push);
  *functions[range_pop] = reinterpret_cast<Function>(&pop);
  return 1;
}
