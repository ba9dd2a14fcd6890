#include "cli/spec.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/plan/recompute_budget.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/embedded_configs.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/report/html.hpp"
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

/// A run beside a spec may be a snapshot of many megabytes, which nobody reads on a page.
bool is_text(const std::string& text) {
  constexpr std::size_t kLargestSpec = 65536;
  constexpr std::string_view kGzip = "\x1f\x8b";
  return text.size() <= kLargestSpec && !text.starts_with(kGzip) && text.find('\0') == text.npos;
}

/// The specs that words of a command line name, as far as they can be read twice.
std::vector<GivenText> given_texts(const std::vector<std::string>& words) {
  std::vector<GivenText> texts;
  for (const std::string& word : words) {
    if (word == "-") {
      texts.push_back({"standard input", "# it can be read once, by the answer"});
    } else if (std::ifstream file(word); std::filesystem::is_regular_file(word) && file) {
      std::string text{std::istreambuf_iterator<char>(file), {}};
      if (is_text(text)) texts.push_back({word, std::move(text)});
    }
    for (const EmbeddedFile& preset : embedded_configs()) {
      if (preset.path == "models/" + word + ".yaml") {
        texts.push_back({std::string(preset.path), std::string(preset.text)});
      }
    }
  }
  return texts;
}

}  // namespace

ReadRequest request_of(const Arguments& arguments, const std::vector<std::string>& files) {
  ReadRequest request{files};
  for (const std::string& text : arguments.overrides) request.overrides.push_back({"--set", text});
  for (const std::string& size : arguments.at) request.overrides.push_back({"--at", "at." + size});
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

Checked<ReadRequest> configuration_request(const Arguments& arguments,
                                           const std::vector<std::string>& files) {
  Diagnostics errors;
  if (arguments.gpus.size() > 1) errors.push_back(too_many("--gpu"));
  if (arguments.counts.size() > 1) errors.push_back(too_many("--gpus"));
  if (!errors.empty()) return errors;
  ReadRequest request = request_of(arguments, files);
  for (const std::string& gpu : arguments.gpus) {
    request.overrides.push_back({"--gpu", "hardware.gpu=" + gpu});
  }
  if (!arguments.counts.empty()) request.gpus = arguments.counts.front();
  return request;
}

Checked<Job> read_configuration(const ReadRequest& request) {
  Checked<Job> job = read_job(request);
  return job.ok() ? with_recompute(std::move(job)) : job;
}

Checked<Job> read_configuration(const Arguments& arguments, const std::vector<std::string>& files) {
  const Checked<ReadRequest> request = configuration_request(arguments, files);
  return request.ok() ? read_configuration(request.value()) : request.diagnostics();
}

std::optional<Diagnostic> wrong_rank(const Arguments& arguments, const Job& job) {
  const auto refuse = [](const std::string& flag, const std::string& of, std::int64_t count) {
    return Diagnostic{Severity::error,
                      {},
                      flag + " takes a rank " + of + ", from 0 to " + std::to_string(count - 1),
                      ""};
  };
  const std::int64_t stages = job.parallelism.pipeline;
  if (arguments.rank < 0 || arguments.rank >= stages) {
    return refuse("--rank", "of the pipeline", stages);
  }
  const std::int64_t data_rank = arguments.data_rank.value_or(0);
  const std::int64_t count = data_ranks_of(job);
  if (data_rank >= 0 && data_rank < count) return std::nullopt;
  return refuse("--data-rank", "whose share of the states may be another's", count);
}

JobRank rank_of(const Arguments& arguments, const Job& job, bool recorded) {
  if (arguments.data_rank) return {arguments.rank, *arguments.data_rank};
  if (recorded) return {arguments.rank, 0};
  return {arguments.rank, worst_data_rank(job, arguments.rank)};
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
    case Format::html:
      return html_of(report, {});
    case Format::github:
    case Format::junit:
    case Format::sarif:
    case Format::gitlab:
      break;
  }
  unreachable("a format that the command's flags do not allow");
}

std::size_t threads_of(const Arguments& arguments) {
  if (arguments.threads) return static_cast<std::size_t>(*arguments.threads);
  // hardware_concurrency() is 0 where the number is not known.
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string browser_page(const Report& report, const Arguments& arguments,
                         const Surroundings& surroundings) {
  PageOrigin origin{.command = "memest", .version = std::string(surroundings.version)};
  for (const std::string& word : surroundings.words) origin.command += " " + shell_quoted(word);
  const Command* command = find_command(surroundings.words.front());
  if ((command->flags & kSpecFlags) != 0) origin.specs = given_texts(arguments.words);
  return html_of(report, origin);
}

std::string shown(const Report& report, const Arguments& arguments,
                  const Surroundings& surroundings) {
  if (arguments.format == Format::html) return browser_page(report, arguments, surroundings);
  return formatted(report, arguments.format, surroundings.out);
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
