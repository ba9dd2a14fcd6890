// The answer of `memest import`: a spec, and the fate of every key of the files that it came from.
#pragma once

#include "memest/reader/import.hpp"
#include "memest/report/report.hpp"

namespace memest {

Report report_import(const ImportedJob& job);

}  // namespace memest
