#include "cli/spec.hpp"

#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/plan/recompute_budget.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

constexpr std::string_view kShellSafe =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=:,+@%-";

Diagnostic too_many(const char* flag) {
  return {Severity::error,
          {},
          std::string(flag) + " takes one value here: the command answers for one configuration",
          "memest plan compares several"};
}

/// Where recompute is a budget, the plan of checkpoints that it asks for.
Checked<Job> with_recompute(Checked<Job> read) {
  auto answer = with_recompute_in_budget(read.value());
  if (auto* job = std::get_if<Job>(&answer)) return {std::move(*job), read.diagnostics()};
  if (const auto* why = std::get_if<Unavailable>(&answer)) {
    return Diagnostic{Severity::error, {}, why->sentence, "", true};
  }
  const auto& over = std::get<OverBudget>(answer);
  const TriedRecompute& smallest = over.smallest;
  return Diagnostic{
      Severity::error,
      {},
      "no plan of checkpoints keeps the job within the budget of " + binary_text(over.budget),
      "the least is " + binary_text(smallest.taken) +
          ", with recompute: " + spec_value_of(smallest.recompute)};
}

}  // namespace

ReadRequest request_of(const Arguments& arguments, const std::vector<std::string>& files) {
  ReadRequest request{files};
  for (const std::string& text : arguments.overrides) request.overrides.push_back({"--set", text});
  if (arguments.text_only) request.overrides.push_back({"--text-only", "model.text_only=true"});
  for (const std::string& key : arguments.freed) request.freed.push_back({"--free", key});
  request.texts = arguments.texts;
  return request;
}

Arguments with_memory(Arguments arguments) {
  const auto set = [&](const char* key, const std::string& size) {
    if (!size.empty()) arguments.overrides.push_back(std::string(key) + "=" + size);
  };
  set("hardware.memory", arguments.memory);
  set("hardware.host_memory", arguments.host_memory);
  return arguments;
}

Checked<Job> read_configuration(const Arguments& arguments, const std::vector<std::string>& files) {
  Diagnostics errors;
  if (arguments.gpus.size() > 1) errors.push_back(too_many("--gpu"));
  if (arguments.counts.size() > 1) errors.push_back(too_many("--gpus"));
  if (!errors.empty()) return errors;
  ReadRequest request = request_of(arguments, files);
  for (const std::string& gpu : arguments.gpus) {
    request.overrides.push_back({"--gpu", "hardware.gpu=" + gpu});
  }
  if (!arguments.counts.empty()) request.gpus = arguments.counts.front();
  Checked<Job> job = read_job(request);
  return job.ok() ? with_recompute(std::move(job)) : job;
}

Question question_of(const Arguments& arguments, const std::vector<std::string>& files,
                     const Surroundings& surroundings) {
  std::string spec;
  const auto add = [&spec](const std::string& word) { spec += (spec.empty() ? "" : " ") + word; };
  for (const std::string& file : files) add(shell_quoted(file));
  for (const std::string& gpu : arguments.gpus) add("--gpu " + shell_quoted(gpu));
  for (const std::int64_t count : arguments.counts) add("--gpus " + std::to_string(count));
  for (const std::string& key : arguments.freed) add("--free " + shell_quoted(key));
  for (const std::string& override_ : arguments.overrides) add("--set " + shell_quoted(override_));
  if (arguments.text_only) add("--text-only");
  Question question{std::move(spec), std::string(surroundings.version)};
  question.with_json = arguments.format == Format::json;
  return question;
}

std::string formatted(const Report& report, Format format, const RenderOptions& options) {
  switch (format) {
    case Format::text:
      return text_of(report.page, options);
    case Format::json:
      return report.json;
    case Format::markdown:
      return markdown_of(report.page);
    case Format::csv:
      return csv_of(report.records);
    case Format::github:
    case Format::junit:
      break;
  }
  unreachable("a format that the command's flags do not allow");
}

Outcome refused(Diagnostics diagnostics) {
  const ExitCode code = is_unavailable(diagnostics) ? ExitCode::not_known : ExitCode::bad_input;
  return {code, "", std::move(diagnostics)};
}

Outcome refused(const Unavailable& reason) {
  return refused({Diagnostic{Severity::error, {}, reason.sentence, "", true}});
}

std::string shell_quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kShellSafe) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char sign : word) {
    if (sign == '\'') {
      // A shell has no escape within single quotes: they end, an escaped one follows, and they
      // begin anew.
      quoted += "'\\''";
    } else {
      quoted += sign;
    }
  }
  return quoted + "'";
}

}  // namespace memest
