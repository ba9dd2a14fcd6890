#include "memest/report/roofline_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <variant>
#include <vector>

#include "report/estimate/roofline_chart.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

/// 1 TB/s, and a peak of 100 TFLOP/s by the ridge point.
Job job_on_round_gpu() {
  Job job;
  job.hardware.gpu.slug = "round";
  job.hardware.gpu.name = "Round GPU";
  job.hardware.gpu.memory_bandwidth.emplace().value = BytesPerSecond(1e12);
  return job;
}

OpTime op(const char* name, double flops, double bytes, double seconds) {
  OpTime result;
  result.block = "layer";
  result.op = name;
  result.seconds = Seconds(seconds);
  result.flops = flops;
  result.bytes = bytes;
  return result;
}

TimeEstimate step_of(std::vector<OpTime> ops) {
  TimeEstimate time;
  time.ridge_point = 100;
  for (const OpTime& one : ops) time.step += one.seconds;
  time.ops = std::move(ops);
  return time;
}

std::string share_of(const OpTime& one) {
  const Report report = report_roofline(job_on_round_gpu(), step_of({one}), {});
  REQUIRE(report.records.rows.size() == 1);
  return report.records.rows[0].cells[4];
}

TEST_CASE("the roof is the peak beyond the ridge, the bandwidth before it and without FLOPs",
          "[report]") {
  CHECK(share_of(op("beyond", 1e14, 1e11, 2)) == "50 %");
  CHECK(share_of(op("before", 1e12, 1e12, 4)) == "25 %");
  CHECK(share_of(op("stream", 0, 3e11, 1)) == "30 %");
}

TEST_CASE("what one operation is written as is one row, its products apart, and collectives none",
          "[report]") {
  const Report report =
      report_roofline(job_on_round_gpu(),
                      step_of({op("gelu", 0, 1e12, 2), op("gelu", 0, 1e12, 3),
                               op("gelu", 1e12, 1e12, 1), op("all_reduce", 0, 0, 9)}),
                      {});
  REQUIRE(report.records.rows.size() == 2);
  CHECK(report.records.rows[0].cells[5] == "5.00 s");
  CHECK(report.records.rows[1].cells[5] == "1.00 s");
}

TEST_CASE("the drawing has a named mark for every operation, those without FLOPs in their column",
          "[report]") {
  const std::string svg = roofline_svg(
      job_on_round_gpu(), step_of({op("a<b", 1e12, 1e10, 1), op("stream", 0, 5e11, 1)}));
  CHECK_THAT(svg, ContainsSubstring("<title>layer a&lt;b: 100 FLOP/B"));
  CHECK_THAT(svg,
             ContainsSubstring("<title>layer stream: counts no FLOPs, reaches 500 GB/s, 50 %"));
  CHECK_THAT(svg, ContainsSubstring(">layer a&lt;b</text>"));
  CHECK_THAT(svg, ContainsSubstring(">layer stream</text>"));
  CHECK_THAT(svg, ContainsSubstring(">no FLOPs</text>"));
}

TEST_CASE("what is drawn is what the table says", "[report]") {
  const Job job = job_on_round_gpu();
  const TimeEstimate time = step_of({op("a", 1e14, 1e11, 2), op("stream", 0, 5e11, 1)});
  const auto chart = std::get<MarkChart>(roofline_chart(roofline_of(job, time)).draw());
  REQUIRE(chart.series.size() == 1);
  const std::vector<ChartMark>& marks = chart.series[0].marks;
  CHECK(marks[0].x == 1000);
  CHECK(marks[0].y == 5e13);
  CHECK(marks[0].share == 2.0 / 3);
  // Half of the bandwidth: as far below the roof as on any other place left of the ridge.
  CHECK(marks[1].y == 0.5 * chart.x.low * 1e12);
}

}  // namespace
}  // namespace memest
