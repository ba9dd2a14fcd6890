#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memest/plan/validation.hpp"
#include "memest/spec/gpu/margin.hpp"

namespace memest {
namespace {

struct PublishedErrors {
  PublishedSummary summary;
  std::vector<double> errors;  ///< in full
};

class PublishedRuns {
 public:
  void add(const std::string& framework, const Comparison& comparison, bool in_full) {
    const auto [at, is_new] = collected_.try_emplace({framework, comparison.metric});
    PublishedErrors& row = at->second;
    if (is_new) row.summary = {.framework = framework, .metric = comparison.metric};
    ++row.summary.measured;
    if (!comparison.is_predicted()) return;
    ++row.summary.answered;
    if (!in_full) return;
    ++row.summary.in_full;
    if (comparison.equal()) ++row.summary.equal;
    if (std::isfinite(comparison.error())) row.errors.push_back(comparison.error());
  }

  [[nodiscard]] std::vector<PublishedSummary> summaries() && {
    std::vector<PublishedSummary> summaries;
    for (auto& [key, row] : collected_) {
      if (!row.errors.empty()) {
        row.summary.median_error = quantile(row.errors, 0.5);
        for (double& error : row.errors) error = std::abs(error);
        row.summary.median = quantile(row.errors, 0.5);
        row.summary.p90 = quantile(std::move(row.errors), 0.9);
      }
      summaries.push_back(std::move(row.summary));
    }
    return summaries;
  }

 private:
  std::map<std::pair<std::string, Metric>, PublishedErrors> collected_;
};

}  // namespace

std::vector<PublishedSummary> summarize_published(const std::vector<ValidatedRun>& runs) {
  PublishedRuns published;
  const auto add = [&](const std::string& framework, const std::vector<Comparison>& comparisons,
                       bool in_full) {
    for (const Comparison& comparison : comparisons) {
      published.add("", comparison, in_full);
      published.add(framework, comparison, in_full);
    }
  };
  for (const ValidatedRun& run : runs) {
    if (!run.source) continue;
    add(run.source->framework, run.comparisons, true);
    add(run.source->framework, run.approximate, false);
  }
  return std::move(published).summaries();
}

}  // namespace memest
