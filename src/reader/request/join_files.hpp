// Files of other programs that decide one job together: training arguments, the launcher's file and
// DeepSpeed's become one tree.
#pragma once

#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "reader/foreign/dialect.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A file of a request.
struct RequestFile {
  ForeignSpec spec = {};             ///< of a spec or a preset
  const Dialect* dialect = nullptr;  ///< of another program's file, whose tree it is
  Value tree = {};
};

/// Puts each file that is a section of another's tree into that one, and reads those that a file
/// names. Sections that are files have no line.
void join_files(std::vector<RequestFile>& files, Diagnostics& diagnostics);

}  // namespace memest
