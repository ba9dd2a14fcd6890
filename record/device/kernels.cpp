#include "device/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/contents.hpp"
#include "device/settings.hpp"
#include "device/streams.hpp"
#include "device/work.hpp"

namespace memest::record {
namespace {

/// Programs branch on `(x == y).all()`, `x.sum() == n`, `isnan(x).any()`: what such a kernel leaves
/// is answered as in a healthy program.
enum class Logic { none, all, any, equal };

/// nonzero() counts before it selects (Nonzero.cu): CUB's sum over NonZeroOp is one kernel, or one
/// whose blocks' sums a second adds up.
enum class Count { none, whole, in_blocks, of_blocks };

/// What is known of a kernel by its name.
struct KnownKernel {
  const char* name = "";
  Logic logic = Logic::none;
  bool elementwise = false;
  bool mask = false;  ///< its output is of bools, as of x <= y and x.bool()
  Count count = Count::none;
};

using KnownKernels = std::unordered_map<const void*, KnownKernel>;

/// Written while libraries are loaded, which the loader does one at a time; only read afterwards.
KnownKernels& known_kernels() {
  static auto* const kernels = new KnownKernels;
  return *kernels;
}

/// Whether a mangled name begins with this template of at::native, static ("L") or not. There are a
/// hundred thousand names, and their beginning settles most.
bool is_of(std::string_view name, std::string_view kernel) {
  constexpr std::string_view kNamespace = "_ZN2at6native";
  if (!name.starts_with(kNamespace)) return false;
  name.remove_prefix(kNamespace.size());
  if (name.starts_with('L')) name.remove_prefix(1);
  return name.starts_with(kernel);
}

/// PyTorch's kernels over one contiguous output (CUDALoops.cuh); their arguments are the count of
/// elements, the functor, and pointers, of which the first is the output's.
bool is_elementwise(std::string_view name) {
  return is_of(name, "29vectorized_elementwise_kernel") ||
         is_of(name, "27unrolled_elementwise_kernel");
}

/// Of PyTorch's kernels: and_kernel_cuda and or_kernel_cuda (ReduceLogicKernel.cu) are all() and
/// any(), CompareEqFunctor (CompareEQKernel.cu) is == and !=.
Logic logic_of(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (is_elementwise(name)) return has("CompareEqFunctor") ? Logic::equal : Logic::none;
  if (!is_of(name, "13reduce_kernel")) return Logic::none;
  if (has("15and_kernel_cuda")) return Logic::all;
  return has("14or_kernel_cuda") ? Logic::any : Logic::none;
}

/// CompareFunctor (CompareKernels.cu) is <, <=, > and >=; a copy is by its output's type (Copy.cu).
bool is_mask(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (!is_elementwise(name)) return false;
  return has("14CompareFunctorI") || (has("23direct_copy_kernel_cuda") && has("EUlbE_"));
}

Count count_of(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  const bool is_last = has("DeviceReduceSingleTileKernel");
  if (!is_last && !has("18DeviceReduceKernel")) return Count::none;
  if (!has("9NonZeroOpI")) return is_last ? Count::of_blocks : Count::none;
  return is_last ? Count::whole : Count::in_blocks;
}

/// The elements whose sum in blocks this thread has begun.
thread_local std::int32_t counted_in_blocks = 0;

/// Leaves the count of all elements where a count ends. CUB's sums have the input, the output and
/// the number of elements as arguments; that of one kernel is below 2^31.
bool keeps_all(Count count, void** arguments) {
  const std::int32_t begun = std::exchange(counted_in_blocks, 0);
  if (count == Count::none || !settings().masks_keep_all) return false;
  std::int32_t elements = 0;
  std::memcpy(&elements, arguments[2], sizeof elements);
  if (count == Count::in_blocks) {
    counted_in_blocks = elements;
    return false;
  }
  if (count == Count::of_blocks) elements = begun;
  if (elements == 0) return false;
  void* output = nullptr;
  std::memcpy(&output, arguments[1], sizeof output);
  contents().kernel_ran(false);
  contents().assume(output, &elements, sizeof elements);
  return true;
}

/// CompareEqFunctor as a kernel's argument: which of == and != it is, behind it the scalar operand
/// where there is one.
struct Comparison {
  int is_not_equal;
  union {
    float single;
    std::uint16_t half;
  };
  double number;

  /// isinf(x) is `x.abs() == inf`; in fp16 and bf16 infinity has these bits.
  [[nodiscard]] bool with_infinity() const {
    constexpr std::uint16_t kHalf = 0x7c00;
    constexpr std::uint16_t kBrainHalf = 0x7f80;
    const auto magnitude = static_cast<std::uint16_t>(half & 0x7fffU);
    return std::isinf(single) || std::isinf(number) || magnitude == kHalf ||
           magnitude == kBrainHalf;
  }
};

/// Tensors are equal, and nothing is infinite.
bool result_of(Logic logic, void** arguments) {
  switch (logic) {
    case Logic::all:
      return true;
    case Logic::equal: {
      Comparison comparison;  // arguments: count, functor, pointers
      std::memcpy(&comparison, arguments[1], sizeof comparison);
      return (comparison.is_not_equal == 0) != comparison.with_infinity();
    }
    case Logic::any:
    case Logic::none:
      return false;
  }
  return false;  // no other value is made
}

/// Kernels that modules have, which are loaded while others run.
struct ModuleKernels {
  std::mutex mutex;
  std::unordered_map<Handle, std::string> names;
};

ModuleKernels& module_kernels() {
  static auto* const kernels = new ModuleKernels;
  return *kernels;
}

/// Lives as long as the process: names are never taken back.
const char* module_kernel_name(const void* kernel) {
  ModuleKernels& kernels = module_kernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  const auto found = kernels.names.find(const_cast<Handle>(kernel));
  return found == kernels.names.end() ? "kernel" : found->second.c_str();
}

}  // namespace

void register_kernel(const void* stub, const char* mangled_name) {
  known_kernels()[stub] = {mangled_name, logic_of(mangled_name), is_elementwise(mangled_name),
                           is_mask(mangled_name), count_of(mangled_name)};
}

void name_kernel(Handle kernel, const char* name) {
  ModuleKernels& kernels = module_kernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.names.try_emplace(kernel, name);
}

void launch(const Launch& call, void** arguments) {
  const auto found = known_kernels().find(call.kernel);
  const bool is_known = found != known_kernels().end();
  if (work().watches()) {
    const char* const name = is_known ? found->second.name : module_kernel_name(call.kernel);
    work().kernel(name, call.grid, call.block, call.stream);
  }
  if (!is_known) return contents().kernel_ran(false);
  const KnownKernel& kernel = found->second;
  if (keeps_all(kernel.count, arguments)) return;
  const bool result = result_of(kernel.logic, arguments);
  if (!kernel.elementwise) return contents().kernel_ran(result);
  constexpr std::size_t kLargestElement = 16;
  int count = 0;
  void* output = nullptr;
  std::memcpy(&count, arguments[0], sizeof count);
  std::memcpy(&output, arguments[2], sizeof output);
  contents().kernel_wrote(output, static_cast<std::size_t>(count) * kLargestElement, result);
  // A single bool is a condition, no mask.
  if (kernel.mask && count > 1 && settings().masks_keep_all) {
    const std::vector<char> kept(static_cast<std::size_t>(count), 1);
    contents().assume(output, kept.data(), kept.size());
  }
}

void library_ran(const char* function, Handle library) {
  if (function != nullptr && work().watches()) {
    work().library(function, streams().of_library(library));
  }
  contents().kernel_ran(false);
}

}  // namespace memest::record
