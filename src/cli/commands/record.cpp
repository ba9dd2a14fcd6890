#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/machine/interrupt.hpp"
#include "cli/record/null_device.hpp"
#include "cli/record/record_program.hpp"
#include "cli/record/vary.hpp"
#include "cli/spec.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/report/record_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The GPU of --gpu with the memory of --memory.
Checked<NullDevice> device_of(const Arguments& arguments) {
  const Checked<GpuSpec> gpu = find_gpu(arguments.gpu.empty() ? kDefaultGpu : arguments.gpu);
  if (!gpu.ok()) return gpu.diagnostics();
  std::optional<NullDevice> device = null_device_of(gpu.value());
  if (!device) {
    return mistake(gpu.value().name +
                       " cannot be pretended: memest record stands in for GPUs that "
                       "run CUDA",
                   "memest gpus lists them, with their compute capability");
  }
  if (!arguments.memory.empty()) {
    const ParsedBytes memory = parse_bytes(arguments.memory);
    if (memory.error || memory.value <= device->context) {
      return mistake("--memory takes a size as 80GiB, more than the context's " +
                         binary_text(device->context) + ", not '" + arguments.memory + "'",
                     "");
    }
    device->capacity = memory.value;
  }
  return *std::move(device);
}

/// Exit code 3 where nothing was recorded, or the program failed for a reason of its own.
ExitCode code_of(const ProgramRun& program) {
  if (ran_out(program)) return ExitCode::no;
  const bool whole = !program.processes.empty() && came_to_its_end(program);
  return whole ? ExitCode::yes : ExitCode::environment;
}

void refuse_real_gpu(const Arguments& arguments) {
  if (arguments.force || !has_real_gpu()) return;
  throw EnvironmentError(
      "this machine has a driver of NVIDIA's, and the program would find a device that computes "
      "nothing instead of its GPU: --force records it all the same");
}

}  // namespace

Outcome run_record(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<NullDevice> device = device_of(arguments);
  if (!device.ok()) return refused(device.diagnostics());
  refuse_real_gpu(arguments);
  // Ctrl-C reaches the program too, which ends by it: what it took until then is the answer.
  const InterruptWatch watch(SecondSignal::remembered);
  if (!arguments.varied.empty()) return run_varied(arguments, device.value(), surroundings);
  Outcome outcome;
  const Checked<ProgramRun> recorded = record_program(arguments, device.value(), outcome.files);
  if (!recorded.ok()) return refused(recorded.diagnostics());
  keep_named(outcome.files);
  const ProgramRun& program = recorded.value();
  const Question question = question_of(arguments, {}, surroundings);
  outcome.code = InterruptWatch::interrupted() ? ExitCode::interrupted : code_of(program);
  outcome.prints_answer = true;
  outcome.out = formatted(report_recording(program, question), arguments.format, surroundings.out);
  return outcome;
}

}  // namespace memest
