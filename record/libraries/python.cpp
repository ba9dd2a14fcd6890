// Calls of one function of Python's, as the interpreter tells a profiler (PyEval_SetProfile): the
// program's other calls cost a comparison, and none is changed. The interface is CPython's
// (Include/cpython/pystate.h), of which nothing is linked.

#include <dlfcn.h>

#include "abi/calls.hpp"

namespace {

using Object = void*;
enum Event : int { call = 0, return_ = 3 };  // PyTrace_CALL, PyTrace_RETURN
using CallListener = void (*)(Object frame, int is_call);

struct Watched {
  Object code = nullptr;
  CallListener listener = nullptr;
  Object (*code_of)(Object frame) = nullptr;
  void (*release)(Object) = nullptr;
};
Watched watched;

}  // namespace

/// Whether calls of functions with this code object can be told; the listener is one of Python's.
MEMEST_CALL int memest_record_watch_calls(Object code, CallListener listener) {
  watched.code_of = reinterpret_cast<Object (*)(Object)>(dlsym(RTLD_DEFAULT, "PyFrame_GetCode"));
  watched.release = reinterpret_cast<void (*)(Object)>(dlsym(RTLD_DEFAULT, "Py_DecRef"));
  watched.code = code;
  watched.listener = listener;
  return watched.code_of != nullptr && watched.release != nullptr ? 1 : 0;
}

/// The function of profiling (Py_tracefunc).
MEMEST_CALL int memest_record_profile(Object, Object frame, int event, Object) {
  if (event != call && event != return_) return 0;
  Object const code = watched.code_of(frame);
  watched.release(code);
  if (code == watched.code) watched.listener(frame, event == call ? 1 : 0);
  return 0;
}
