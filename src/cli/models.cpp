#include <utility>

#include "command.hpp"
#include "memest/diag/expect.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/catalog_report.hpp"
#include "spec.hpp"

namespace memest {

Outcome run_models(const Arguments& arguments, const Surroundings& surroundings) {
  std::vector<NamedModel> models;
  for (const std::string& name : model_names()) {
    Checked<Job> job = read_job({{name}, {}});
    expect(job.ok(), "every preset is a spec");
    models.push_back({name, std::move(job).value().model});
  }
  return {ExitCode::yes, formatted(report_models(models), arguments.format, surroundings.out), {}};
}

}  // namespace memest
