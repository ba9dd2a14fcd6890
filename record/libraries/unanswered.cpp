// The many functions that need no answer: symbols/*.inc has their names, by library.
//
//   COMPUTES(name)       may run kernels: succeeds, and what was known of the memory is gone
//   RETURNS(name)        sets an option or waits: succeeds
//   CREATES(name)        writes a handle through its first argument
//   REFUSES(name, code)  asks what the null device does not know: fails with the library's code for
//                        "not supported", and the answer names it
//   ENDS(name)           cannot fail as its caller understands it: ends the program with a sentence

#include <string_view>

#include "abi/calls.hpp"
#include "device/handles.hpp"
#include "device/journal.hpp"
#include "device/kernels.hpp"

namespace memest::record {
namespace {

/// Whether a function's name says that it gives the device work, rather than to set something up.
constexpr bool runs_kernels(std::string_view name) {
  constexpr std::string_view kOthers[] = {"Create",  "Destroy",  "Set",      "Init",   "Check",
                                          "Version", "Finalize", "Register", "Update", "Populate",
                                          "Derive",  "Build",    "Alloc",    "Free",   "Logger"};
  for (const std::string_view other : kOthers) {
    if (name.find(other) != name.npos) return false;
  }
  return true;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

#define COMPUTES(name)                                           \
  MEMEST_CALL Status name(Handle library) {                      \
    library_ran(runs_kernels(#name) ? #name : nullptr, library); \
    return kSuccess;                                             \
  }
#define RETURNS(name) \
  MEMEST_CALL Status name() { return kSuccess; }
#define CREATES(name) \
  MEMEST_CALL Status name(Handle* handle) { return make(handle); }
#define REFUSES(name, code)   \
  MEMEST_CALL Status name() { \
    note_unanswered(#name);   \
    return code;              \
  }
#define ENDS(name) \
  MEMEST_CALL Status name() { give_up("the program calls " #name ", which cannot be pretended"); }

#include "symbols/cublas.inc"
#include "symbols/cublasLt.inc"
#include "symbols/cuda.inc"
#include "symbols/cudart.inc"
#include "symbols/cudnn.inc"
#include "symbols/cufft.inc"
#include "symbols/cufile.inc"
#include "symbols/cupti.inc"
#include "symbols/curand.inc"
#include "symbols/cusolver.inc"
#include "symbols/cusparse.inc"
#include "symbols/cusparseLt.inc"
#include "symbols/nccl.inc"
#include "symbols/nvml.inc"
#include "symbols/nvshmem.inc"
