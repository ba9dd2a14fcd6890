#include <optional>
#include <variant>

#include "cli/command.hpp"
#include "cli/spec.hpp"
#include "memest/diag/expect.hpp"
#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/gpus/catalog_report.hpp"

namespace memest {

Outcome run_models(const Arguments& arguments, const Surroundings& surroundings) {
  std::vector<NamedModel> models;
  for (const std::string& name : model_names()) {
    const Checked<Job> job = read_job({{name}, {}});
    expect(job.ok(), "every preset is a spec");
    const auto graph = lower(job.value().model, policy_of(job.value()));
    const auto* missing = std::get_if<Unavailable>(&graph);
    models.push_back(
        {name, job.value().model, missing == nullptr ? std::nullopt : std::optional(*missing)});
  }
  return {ExitCode::yes, formatted(report_models(models), arguments.format, surroundings.out), {}};
}

}  // namespace memest
