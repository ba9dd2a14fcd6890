// Techniques beside what no run of them was recorded with: refused by name, at the place of their
// key.
#pragma once

#include <span>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A technique that changes models or what runs beside them, and where it stands.
struct WrittenTechnique {
  const char* noun;
  const char* key;  ///< to leave out
  const Value& written;
};

/// Something beside which no run was recorded.
struct NotRecorded {
  bool (*asked)(const Job&);
  const char* where;
  const char* hint;  ///< empty: leave the technique out
};

/// Refuses `technique` for the first of `own`, or of what no technique of models was recorded with,
/// that `job` asks for.
void refuse_unrecorded(const WrittenTechnique& technique, std::span<const NotRecorded> own,
                       const Job& job, Diagnostics& diagnostics);

/// Refuses another release of PyTorch where no run under one was recorded.
void check_torch_release(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
