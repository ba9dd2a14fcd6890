#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/report/gpus/catalog_report.hpp"

namespace memest {

Outcome run_gpus(const Arguments& arguments, const Surroundings& surroundings) {
  if (arguments.words.empty()) {
    const Question question = question_of(arguments, {}, surroundings);
    return {ExitCode::yes,
            formatted(report_gpus(all_gpus(), all_prices(), question), arguments.format,
                      surroundings.out),
            {}};
  }
  const Checked<GpuSpec> gpu = find_gpu(arguments.words[0]);
  if (!gpu.ok()) return refused(gpu.diagnostics());
  return {ExitCode::yes,
          formatted(report_gpu(gpu.value(), all_prices()), arguments.format, surroundings.out),
          {}};
}

}  // namespace memest
