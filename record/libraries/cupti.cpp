// CUPTI has nothing to trace: a profiler is told that it is not supported, in words.

#include "abi/calls.hpp"

using namespace memest::record;

MEMEST_CALL Status cuptiGetResultString(Status status, const char** text) {
  *text = status == kSuccess ? "CUPTI_SUCCESS" : "not supported by memest record";
  return kSuccess;
}
