// `--gpus`: the GPUs of a job, whatever its files say.
#pragma once

#include <cstdint>

#include "memest/diag/diagnostic.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The GPUs of a flag, and the data-parallel ranks that the other ranks of the job leave of them.
class GpusOfFlag {
 public:
  GpusOfFlag(std::int64_t gpus, Value& root);

  /// Drops both keys as the files write them.
  void forget();

  /// Writes both keys. Ranks that do not divide the GPUs are a mistake.
  void write(Diagnostics& diagnostics);

 private:
  void put(const char* section, const char* key, std::int64_t number);

  std::int64_t gpus_;
  Value& root_;
  SourceSpan span_;
};

}  // namespace memest
