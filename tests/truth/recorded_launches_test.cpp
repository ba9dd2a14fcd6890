// How many kernels the host launches, held to PyTorch's profiler on an H200.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/record.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

/// Rows of device_launches.csv by the record's id.
std::map<std::string, OpLaunches> recorded_launches() {
  std::ifstream file(MEMEST_TRUTH_FOLDER "/device_launches.csv");
  std::map<std::string, OpLaunches> rows;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    std::string id;
    OpLaunches launches;
    row >> id >> launches.forward >> launches.backward;
    rows.emplace(id, launches);
  }
  return rows;
}

OpLaunches counted_launches(const Graph& graph, const Job& job) {
  OpLaunches sum;
  for (const OpWork& op : work_of(graph, job).ops) {
    sum.forward += op.executions * op.launches.forward;
    sum.backward += op.executions * op.launches.backward;
  }
  return sum;
}

TEST_CASE("A step launches as many kernels as PyTorch's profiler saw on an H200") {
  const auto rows = recorded_launches();
  const auto records = read_records(MEMEST_TRUTH_FOLDER "/device.records.jsonl.gz");
  REQUIRE(records.ok());
  std::vector<double> forward;
  std::vector<double> backward;
  for (const Record& record : records.value()) {
    const auto row = rows.find(record.id);
    if (row == rows.end() || !record.job) continue;
    const auto graph = lower(record.job->model, policy_of(*record.job));
    if (!std::holds_alternative<Graph>(graph)) continue;
    const OpLaunches counted = counted_launches(std::get<Graph>(graph), *record.job);
    const double misses_forward = counted.forward / row->second.forward - 1;
    const double misses_backward = counted.backward / row->second.backward - 1;
    UNSCOPED_INFO(record.id << ": " << 100 * misses_forward << " % forward, "
                            << 100 * misses_backward << " % backward");
    forward.push_back(std::abs(misses_forward));
    backward.push_back(std::abs(misses_backward));
  }
  REQUIRE(forward.size() == 27);
  for (std::vector<double>* misses : {&forward, &backward}) {
    std::sort(misses->begin(), misses->end());
    CHECK((*misses)[13] <= 0.03);
    CHECK((*misses)[24] <= 0.15);
    CHECK(misses->back() <= 0.30);
  }
}

}  // namespace
}  // namespace memest
