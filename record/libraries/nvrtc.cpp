// NVRTC: compiles nothing. PyTorch compiles some kernels while a program runs (prod, gcd, many
// special functions) and loads what came out through the driver, which looks into no binary.

#include "abi/calls.hpp"
#include "device/handles.hpp"

namespace memest::record {
namespace {

Status one_byte(std::size_t* size) {
  *size = 1;
  return kSuccess;
}

Status nothing(char* text) {
  *text = '\0';
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL const char* nvrtcGetErrorString(Status) { return "error of NVRTC"; }
MEMEST_CALL Status nvrtcCreateProgram(Handle* program, const char*, const char*, int,
                                      const char* const*, const char* const*) {
  return make(program);
}
MEMEST_CALL Status nvrtcDestroyProgram(Handle*) { return kSuccess; }
MEMEST_CALL Status nvrtcAddNameExpression(Handle, const char*) { return kSuccess; }
MEMEST_CALL Status nvrtcCompileProgram(Handle, int, const char* const*) { return kSuccess; }
MEMEST_CALL Status nvrtcGetLoweredName(Handle, const char*, const char** name) {
  *name = "kernel";
  return kSuccess;
}
MEMEST_CALL Status nvrtcGetCUBINSize(Handle, std::size_t* size) { return one_byte(size); }
MEMEST_CALL Status nvrtcGetCUBIN(Handle, char* text) { return nothing(text); }
MEMEST_CALL Status nvrtcGetPTXSize(Handle, std::size_t* size) { return one_byte(size); }
MEMEST_CALL Status nvrtcGetPTX(Handle, char* text) { return nothing(text); }
MEMEST_CALL Status nvrtcGetProgramLogSize(Handle, std::size_t* size) { return one_byte(size); }
MEMEST_CALL Status nvrtcGetProgramLog(Handle, char* text) { return nothing(text); }
