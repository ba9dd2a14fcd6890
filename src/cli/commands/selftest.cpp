#include "memest/kernels/selftest.hpp"

#include <string>
#include <utility>

#include "cli/command.hpp"
#include "cli/device/device.hpp"
#include "cli/machine/interrupt.hpp"
#include "cli/machine/progress.hpp"
#include "cli/machine/terminal.hpp"
#include "cli/spec.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/report/gpus/selftest_report.hpp"

namespace memest {
namespace {

/// A processor: seconds instead of minutes, and nothing that a busy machine could fail.
SelftestSettings host_settings() {
  SelftestSettings settings;
  settings.rows = 128;
  settings.columns = 4096;
  settings.largest_matmul = 512;
  settings.ruler = {.shortest = Seconds(0.002), .longest = Seconds(0.02), .least_samples = 3};
  settings.judges_times = false;
  return settings;
}

struct Interrupted {};

}  // namespace

Outcome run_selftest(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<std::shared_ptr<OpenDevice>> open = open_device(arguments);
  if (!open.ok()) return refused(open.diagnostics());
  OpenDevice& device = *open.value();
  const bool is_host = arguments.device == DeviceKind::host;
  SelftestSettings settings = is_host ? host_settings() : SelftestSettings{};
  if (!is_host) settings.datasheet = &device.device.gpu;

  SelftestAnswer answer;
  answer.device = device.device.facts.name;
  answer.gpu = device.device.gpu.slug;
  answer.ceilings = find_ceilings(answer.gpu);
  const InterruptWatch watch;
  std::string under_way;  // what a device that fails was asked for
  try {
    ProgressLine line(render_options_of(StandardStream::err, arguments.color), arguments.quiet);
    std::size_t done = 0;
    answer.selftest = selftest_of(*device.backend, settings, [&](const KernelShape& shape) {
      if (InterruptWatch::interrupted()) throw Interrupted();
      under_way = text_of(shape);
      line.show(done++, under_way);
    });
  } catch (const EnvironmentError& error) {
    throw EnvironmentError(under_way + ": " + error.what());
  } catch (const Interrupted&) {
    return {ExitCode::interrupted, "", {{Severity::warning, {}, "interrupted", "", false}}};
  }
  const Report report = report_selftest(answer, question_of(arguments, {}, surroundings));
  return {answer.selftest.passed() ? ExitCode::yes : ExitCode::no,
          formatted(report, arguments.format, surroundings.out), open.diagnostics()};
}

}  // namespace memest
