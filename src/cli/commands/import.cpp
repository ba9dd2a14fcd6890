#include "memest/reader/import.hpp"

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/report/import_report.hpp"

namespace memest {

Outcome run_import(const Arguments& arguments, const Surroundings& surroundings) {
  const Checked<ImportedJob> imported =
      import_job(request_of(arguments, arguments.words),
                 arguments.text_only ? ConfigPart::text : ConfigPart::whole);
  if (!imported.ok()) return refused(imported.diagnostics());
  const ImportedJob& job = imported.value();
  // The text is a file: a spec that commands take.
  if (arguments.format == Format::text) return {ExitCode::yes, job.spec, imported.diagnostics()};
  return {ExitCode::yes, formatted(report_import(job), arguments.format, surroundings.out),
          imported.diagnostics()};
}

}  // namespace memest
