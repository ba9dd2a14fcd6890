#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/report/gpus/catalog_report.hpp"

namespace memest {

Outcome run_optimizers(const Arguments& arguments, const Surroundings& surroundings) {
  return {ExitCode::yes,
          formatted(report_optimizers(all_optimizers()), arguments.format, surroundings.out),
          {}};
}

}  // namespace memest
