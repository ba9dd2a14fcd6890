#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/reader/write_spec.hpp"

namespace memest {

Outcome run_import(const Arguments& arguments, const Surroundings&) {
  const Checked<ImportedModel> imported = import_hf_config_file(
      arguments.words[0], arguments.text_only ? ConfigPart::text : ConfigPart::whole);
  if (!imported.ok()) return refused(imported.diagnostics());
  return {ExitCode::yes, write_spec(imported.value()), imported.diagnostics()};
}

}  // namespace memest
