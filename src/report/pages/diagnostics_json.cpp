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

Json json_of(const Diagnostic& diagnostic) {
  Json json{{"severity", word_of(diagnostic.severity)}, {"message", diagnostic.message}};
  if (!diagnostic.hint.empty()) json["hint"] = diagnostic.hint;
  const SourceSpan& span = diagnostic.span;
  if (span.source != nullptr) {
    json["file"] = span.source->name;
    json["line"] = span.line;
    json["column"] = span.column;
    json["length"] = span.length;
  }
  json["unavailable"] = diagnostic.unavailable;
  json["text"] = render({diagnostic}, {});
  return json;
}

Json list_of(const Diagnostics& diagnostics) {
  Json list = Json::array();
  for (const Diagnostic& diagnostic : diagnostics) list.push_back(json_of(diagnostic));
  return list;
}

}  // namespace

std::string json_of(const Diagnostics& diagnostics) { return printed(list_of(diagnostics)); }

std::string refusal_json(int exit_code, const Diagnostics& diagnostics) {
  Json json = new_answer();
  json["exit_code"] = exit_code;
  json["diagnostics"] = list_of(diagnostics);
  return text_of(json);
}

}  // namespace memest
