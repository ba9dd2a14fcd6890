#include "memest/diag/expect.hpp"
#include "memest/report/diagnostics.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

std::string_view word_of(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  unreachable("a severity beyond the enum");
}

Json counted(std::int32_t value) { return value > 0 ? Json(value) : Json(nullptr); }

Json json_of(const Diagnostic& diagnostic) {
  const SourceSpan& span = diagnostic.span;
  Json row{{"severity", word_of(diagnostic.severity)}, {"message", diagnostic.message}};
  row["hint"] = diagnostic.hint.empty() ? Json(nullptr) : Json(diagnostic.hint);
  row["file"] = span.source ? Json(span.source->name) : Json(nullptr);
  row["line"] = counted(span.line);
  row["column"] = counted(span.column);
  row["length"] = counted(span.length);
  row["text"] = render({diagnostic}, {});
  return row;
}

}  // namespace

std::string json_of(const Diagnostics& diagnostics) {
  Json rows = Json::array();
  for (const Diagnostic& diagnostic : diagnostics) rows.push_back(json_of(diagnostic));
  return printed(rows);
}

}  // namespace memest
