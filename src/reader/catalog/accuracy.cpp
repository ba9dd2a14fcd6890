#include "memest/reader/accuracy.hpp"

#include <algorithm>

#include "reader/catalog/catalog_files.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

Metric metric_of(const Value& entry) {
  const std::string name = text_at(entry, "metric");
  for (const Metric metric : all_metrics()) {
    if (name_of(metric) == name) return metric;
  }
  unreachable("a metric that the file's check accepts");
}

std::optional<double> share_at(const Value& entry, std::string_view key) {
  return as_quantity(entry.find(key), Dimension::share);
}

AccuracyLine line_of(const Value& entry) {
  return {.metric = metric_of(entry),
          .median = share_at(entry, "median"),
          .maximum = share_at(entry, "maximum"),
          .equal = flag_at(entry, "equal"),
          .least_rows = count_at(entry, "least_rows"),
          .span = entry.find("metric")->span};
}

KnownMiss miss_of(const Value& entry) {
  return {.id = text_at(entry, "id"),
          .metric = metric_of(entry),
          .reason = text_at(entry, "reason"),
          .ceiling = share_at(entry, "ceiling"),
          .span = entry.find("id")->span};
}

KnownGroupMiss group_miss_of(const Value& entry) {
  return {.group = text_at(entry, "group"),
          .metric = metric_of(entry),
          .reason = text_at(entry, "reason"),
          .ceiling = share_at(entry, "ceiling").value_or(0),
          .span = entry.find("group")->span};
}

NotPredicted not_predicted_of(const Value& entry) {
  return {.metric = metric_of(entry),
          .reason = text_at(entry, "reason"),
          .span = entry.find("metric")->span};
}

/// A line says how far a row may be off, or that it is equal; not both, and not nothing.
void check_lines(const std::vector<AccuracyLine>& lines, Diagnostics& diagnostics) {
  for (const AccuracyLine& line : lines) {
    const bool second = std::any_of(lines.data(), &line, [&](const AccuracyLine& other) {
      return other.metric == line.metric;
    });
    if (second) {
      diagnostics.push_back(
          error_at(line.span, "a second line for " + quote(name_of(line.metric))));
    }
    const bool bounded = line.median || line.maximum;
    if (bounded == line.equal) {
      diagnostics.push_back(
          error_at(line.span, "a line has 'equal: true', or 'median', 'maximum' or both"));
    }
  }
}

}  // namespace

Checked<AccuracyLines> read_accuracy_lines(const std::string& path) {
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return source.diagnostics();
  return read_accuracy_lines(source.value());
}

Checked<AccuracyLines> read_accuracy_lines(const std::shared_ptr<const SourceText>& source) {
  const Checked<Value> file = parse_yaml(source);
  if (!file.ok()) return file.diagnostics();
  if (file.value().kind != ValueKind::mapping) {
    return error_at(file.value().span, "a file of lines is a mapping of keys");
  }
  Diagnostics diagnostics;
  check_table(file.value(), accuracy_file_keys(), {source, 0, 0, 0}, diagnostics);
  if (!diagnostics.empty()) return diagnostics;
  AccuracyLines lines{.lines = entries_of(file.value(), "lines", line_of),
                      .misses = entries_of(file.value(), "known_misses", miss_of),
                      .group_misses = entries_of(file.value(), "known_group_misses", group_miss_of),
                      .not_predicted = entries_of(file.value(), "not_predicted", not_predicted_of)};
  check_lines(lines.lines, diagnostics);
  if (!diagnostics.empty()) return diagnostics;
  return lines;
}

}  // namespace memest
