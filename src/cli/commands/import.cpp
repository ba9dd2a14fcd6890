#include "memest/reader/import.hpp"

#include "cli/command.hpp"
#include "cli/spec.hpp"

namespace memest {

Outcome run_import(const Arguments& arguments, const Surroundings&) {
  const Checked<ImportedJob> imported =
      import_job(request_of(arguments, arguments.words),
                 arguments.text_only ? ConfigPart::text : ConfigPart::whole);
  if (!imported.ok()) return refused(imported.diagnostics());
  return {ExitCode::yes, imported.value().spec, imported.diagnostics()};
}

}  // namespace memest
