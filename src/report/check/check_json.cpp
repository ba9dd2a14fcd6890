#include "report/check/check_json.hpp"

#include <string>
#include <string_view>
#include <variant>

#include "memest/diag/expect.hpp"
#include "report/check/check_text.hpp"
#include "report/check/moved_text.hpp"

namespace memest {
namespace {

std::string_view name_of(FileStatus status) {
  switch (status) {
    case FileStatus::within:
      return "within";
    case FileStatus::not_locked:
      return "not-locked";
    case FileStatus::moved:
      return "moved";
    case FileStatus::over:
      return "over";
    case FileStatus::not_known:
      return "not-known";
    case FileStatus::invalid:
      return "invalid";
  }
  unreachable("a file status beyond the enum");
}

Json json_of(const CheckedLine& checked) {
  const BudgetLine& line = checked.line;
  Json json{{"budget", memest::name_of(line.item)},
            {"status", memest::name_of(line.status)},
            {"unit", unit_of(line.item)},
            {"limit", line.limit}};
  if (line.status == BudgetStatus::unavailable) {
    put_null(json, "value", line.sentence);
    return json;
  }
  json["value"] = line.value;
  json["interval"] = {line.low, line.high};
  json["largest"] = Json::array();
  for (const BudgetShare& share : checked.shares) {
    json["largest"].push_back({{"name", share.name}, {"amount", share.amount}});
  }
  return json;
}

struct PutValue {
  Json& json;
  const std::string& key;

  void operator()(std::int64_t count) const { json[key] = count; }
  void operator()(Bytes bytes) const { put(json, key, bytes); }
  void operator()(Flops flops) const { put(json, key, flops); }
  void operator()(Seconds time) const { put(json, key, time.value()); }
  void operator()(Dollars money) const { put(json, key, money.value()); }
};

void put_side(Json& json, const std::string& key, const std::optional<LockedValue>& value) {
  if (!value) return put_null(json, key, "this side has no such figure");
  std::visit(PutValue{json, key}, *value);
}

Json json_of(const MovedFigure& figure) {
  Json json{{"name", figure.name}, {"unit", unit_of(figure.now ? *figure.now : *figure.locked)}};
  put_side(json, "locked", figure.locked);
  put_side(json, "value", figure.now);
  json["difference"] = figure.difference();
  return json;
}

Json json_of(const ChangedKey& changed) {
  Json json{{"key", changed.key}};
  const auto side = [&json](const char* key, const std::optional<std::string>& value) {
    if (!value) return put_null(json, key, "this side does not write the key");
    json[key] = *value;
  };
  side("locked", changed.locked);
  side("value", changed.now);
  json["line"] = changed.span.line;
  json["column"] = changed.span.column;
  if (changed.share) json["share"] = *changed.share;
  return json;
}

std::string_view name_of(const CheckedFile& file) {
  switch (file.lock) {
    case LockState::none:
      return "none";
    case LockState::held:
      return "held";
    case LockState::moved:
      return file.accepted ? "accepted" : "moved";
    case LockState::added:
      return file.accepted ? "accepted" : "not-locked";
  }
  unreachable("a lock's state beyond the enum");
}

Json json_of_lock(const CheckedFile& file) {
  Json json{{"state", name_of(file)},
            {"moved", Json::array()},
            {"terms", Json::array()},
            {"changed_keys", Json::array()},
            {"other_basis", file.moves.rests_on}};
  for (const MovedFigure& figure : file.moves.figures) json["moved"].push_back(json_of(figure));
  for (const MovedFigure& term : file.moves.terms) json["terms"].push_back(json_of(term));
  for (const ChangedKey& key : file.moves.keys) json["changed_keys"].push_back(json_of(key));
  return json;
}

Json json_of(const CheckedFile& file) {
  Json json{{"file", file.file},
            {"status", name_of(file.status())},
            {"has_budget", file.has_budget},
            {"budgets", Json::array()},
            {"errors", Json::array()}};
  for (const CheckedLine& checked : file.lines) json["budgets"].push_back(json_of(checked));
  for (const Diagnostic& error : shown_of(file.errors)) json["errors"].push_back(error.message);
  json["lock"] = json_of_lock(file);
  return json;
}

}  // namespace

Json json_of(const CheckedSpecs& specs, const Question& question) {
  Json json = new_answer();
  json["summary"] = summary_of(specs);
  json["totals"] = Json::object();
  for (const NamedCount& total : named_totals(totals_of(specs))) {
    json["totals"][std::string(total.name)] = total.count;
  }
  json["files"] = Json::array();
  for (const CheckedFile& file : specs.files) json["files"].push_back(json_of(file));
  json["passed_over"] = specs.passed_over;
  if (specs.lock.empty()) {
    put_null(json, "lock", "there is no lock file; `memest check --update` writes one");
  } else {
    json["lock"] = {{"file", specs.lock}, {"written", specs.updated}, {"gone", specs.gone}};
  }
  json["provenance"] = {
      {"method", "a replay where the program is followed event by event, else closed form"},
      {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace memest
