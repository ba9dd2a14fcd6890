// NVTX: PyTorch tells a tool which operator a thread runs (torch.autograd.profiler.emit_nvtx), and
// this library is the tool. NVTX_INJECTION64_PATH names it; the interface is nvtxTypes.h's.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "abi/calls.hpp"
#include "device/work.hpp"

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

/// "aten::mm, seq = 13, op_id = 8" (torch/csrc/profiler/util.cpp, getNvtxStr).
int push(const char* message) {
  constexpr char kOperator[] = "op_id = ";
  const char* const found = std::strstr(message, kOperator);
  // A range of the program's own is no operator: what it runs belongs to the one around it.
  enter_operator(found == nullptr ? current_operator()
                                  : std::strtoull(found + sizeof kOperator - 1, nullptr, 10));
  return 0;
}

int pop() {
  leave_operator();
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
