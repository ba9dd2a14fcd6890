// Any bytes as a spec file, behind the reader: what is a job is estimated, planned and written out.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/plan/estimate.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/estimate_report.hpp"
#include "memest/report/plan_report.hpp"
#include "memest/units/int128.hpp"

namespace {

using namespace memest;

void expect_answer(const Report& report) {
  expect(!report.json.empty() && !report.page.parts.empty(), "an answer that says nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz.yaml", std::string(data, data + size)});
  try {
    const Checked<Job> job = read_job(source);
    if (!job.ok()) return 0;
    const Question question;
    expect_answer(report_estimate(job.value(), estimate_job(job.value()), question));
    PlanRequest request;
    request.job = job.value();
    request.gpus = {job.value().hardware.gpu};
    request.counts = {1, 4};
    expect_answer(report_plan(request, search_plans(request), question, {}));
  } catch (
      const OverflowError&) {  // sizes whose product leaves 64 bits: the tool answers in a sentence
  }
  return 0;
}
