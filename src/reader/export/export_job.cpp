#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/export.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/framework.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/target.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

Diagnostic unavailable(std::string message, std::string hint = {}) {
  return {Severity::error, {}, std::move(message), std::move(hint), true};
}

std::vector<std::string> values_of(std::string_view bars) {
  std::vector<std::string> values;
  while (!bars.empty()) {
    const std::size_t bar = std::min(bars.find('|'), bars.size());
    values.emplace_back(bars.substr(0, bar));
    bars.remove_prefix(std::min(bar + 1, bars.size()));
  }
  return values;
}

const ExportTarget* find_target(std::string_view name) {
  const auto targets = all_export_targets();
  const auto found = std::ranges::find(targets, name, &ExportTarget::name);
  return found == targets.end() ? nullptr : *found;
}

/// How the key would have to be written.
std::string hint_of(const ExportRow& row, const std::vector<std::string>& values) {
  if (values.size() > 1) return "what it has: " + joined(values);
  if (values.front() == "none") return "leave '" + std::string(row.own) + "' out";
  return "--set " + std::string(row.own) + "=" + values.front() + " asks for such a job";
}

/// Refuses the keys that the program has no word for, by name.
Diagnostics check_held(const Job& job, const ExportTarget& target) {
  Diagnostics refused;
  for (const std::span<const ExportRow> table : target.rows) {
    for (const ExportRow& row : table) {
      if (row.values.empty()) continue;
      const std::string value = text_of_key(job, row.own);
      const std::vector<std::string> values = values_of(row.values);
      if (std::ranges::find(values, value) != values.end()) continue;
      const auto refuse = row.use == ExportUse::held ? no_word_for : not_written_yet;
      refused.push_back(refuse(target.program, row.own, value, hint_of(row, values)));
    }
  }
  return refused;
}

bool is_beside(const ExportTarget& target, std::string_view own) {
  return std::ranges::any_of(target.rows, [own](std::span<const ExportRow> table) {
    const auto row = std::ranges::find(table, own, &ExportRow::own);
    return row != table.end() && row->use == ExportUse::beside;
  });
}

ModelSpec made_model(const Job& job, const ExportTarget& target) {
  return target.as_made == nullptr ? job.model : target.as_made(job);
}

/// Where the written job, read back, is another one: by the first key that differs.
std::optional<Diagnostic> check_same(const Job& job, const Job& back, const ExportTarget& target) {
  const std::string program(target.program);
  const std::string_view part = differing_part(made_model(job, target), made_model(back, target));
  if (!part.empty()) {
    return unavailable(
        program + " has no model like this one: the " + std::string(part) + " would be another",
        "of it, what its files can say is less");
  }
  for (const JobKey& key : job_keys()) {
    const std::string here = key.text(job);
    const std::string there = key.text(back);
    if (here == there || is_beside(target, key.name)) continue;
    return unavailable(program + " would run another job: '" + std::string(key.name) + "' is " +
                           there + " there, and " + here + " here",
                       "such a job has '" + std::string(key.name) + ": " + there + "'");
  }
  return std::nullopt;
}

/// Reads a whole job's file as any other of its kind.
std::optional<Diagnostic> read_back(const Job& job, const ExportedFile& file,
                                    const ExportTarget& target) {
  ReadRequest request{.files = {file.name}};
  request.texts.push_back(std::make_shared<const SourceText>(SourceText{file.name, file.text}));
  // Such files name no GPU type, and what it runs decides what they may ask for.
  const std::string& gpu = job.hardware.gpu.slug;
  if (find_gpu(gpu).ok()) request.overrides.push_back({"--gpu", "hardware.gpu=" + gpu});
  const Checked<Job> back = read_job(request);
  if (back.ok()) return check_same(job, back.value(), target);
  const auto error = std::ranges::find(back.diagnostics(), Severity::error, &Diagnostic::severity);
  expect(error != back.diagnostics().end(), "a job that is refused without a reason");
  if (!error->unavailable) {
    return unavailable(std::string(target.program) + " has no such job: " + error->message,
                       error->hint);
  }
  return unavailable(error->message, error->hint);
}

Diagnostics check_asked(const Job& job, const ExportTarget& target) {
  if (!job.training) {
    return {
        mistake("nothing is trained here: " + std::string(target.program) + " is told how to train",
                "a spec to export has a section 'training'")};
  }
  if (const std::optional<Diagnostic> other = target.mistake(job)) return {*other};
  if (!std::holds_alternative<DecoderSpec>(job.model.architecture) && target.whole) {
    return {unavailable(std::string(target.program) + " has no model like this one",
                        "its models are decoders")};
  }
  if (!launched_ranks(job)) {
    return {mistake(std::to_string(job.parallelism.ranks()) + " GPUs are no whole nodes of " +
                        std::to_string(job.hardware.gpus_per_node),
                    "--set hardware.gpus_per_node=N says how many a node has")};
  }
  return check_held(job, target);
}

}  // namespace

std::span<const ExportTarget* const> all_export_targets() {
  static const std::array targets = {&accelerate_export(), &deepspeed_export(),
                                     &torchtitan_export(), &megatron_export()};
  return targets;
}

std::vector<std::string_view> export_targets() {
  std::vector<std::string_view> names;
  for (const ExportTarget* target : all_export_targets()) names.push_back(target->name);
  return names;
}

Checked<ExportedJob> export_job(const Job& job, std::string_view target_name) {
  const ExportTarget* target = find_target(target_name);
  if (target == nullptr) {
    std::vector<std::string> known;
    for (const std::string_view name : export_targets()) known.emplace_back(name);
    return mistake("jobs are not written for " + quote(target_name), "--to takes " + joined(known));
  }
  if (Diagnostics refused = check_asked(job, *target); !refused.empty()) return refused;
  Checked<ExportedJob> exported = target->write(job);
  if (!exported.ok() || !target->whole) return exported;
  for (const ExportedFile& file : exported.value().files) {
    if (const auto differs = read_back(job, file, *target)) return *differs;
  }
  return exported;
}

Diagnostic no_word_for(std::string_view program, std::string_view own, std::string_view value,
                       std::string_view hint) {
  return unavailable(
      std::string(program) + " has no '" + std::string(own) + ": " + std::string(value) + "'",
      std::string(hint));
}

Diagnostic not_written_yet(std::string_view program, std::string_view own, std::string_view value,
                           std::string_view hint) {
  return unavailable_at(
      {}, "'" + std::string(own) + ": " + std::string(value) + "' for " + std::string(program),
      std::string(hint));
}

std::optional<Diagnostic> other_framework(const Job& job, std::string_view name,
                                          std::string_view implementation) {
  const std::string_view own = name_of(job.training->implementation.framework);
  if (own == implementation) return std::nullopt;
  return mistake(
      "this job is of the implementation " + quote(own) + ", and " + std::string(name) +
          " runs those of " + quote(implementation),
      "--set training.implementation=" + std::string(implementation) + " asks for that job");
}

std::optional<LaunchedRanks> launched_ranks(const Job& job) {
  const std::int64_t ranks = job.parallelism.ranks();
  const std::int64_t of_node = std::max<std::int64_t>(job.hardware.gpus_per_node, 1);
  if (ranks <= of_node) return LaunchedRanks{1, ranks};
  if (ranks % of_node != 0) return std::nullopt;
  return LaunchedRanks{ranks / of_node, of_node};
}

std::string environment_prefix(const Job& job) {
  const std::string options = environment_text_of(job.allocator);
  if (options.empty()) return {};
  const bool plain =
      options.find('>') == std::string::npos && options.find('[') == std::string::npos;
  return "PYTORCH_ALLOC_CONF=" + (plain ? options : "'" + options + "'") + " ";
}

std::string torchrun_of(const Job& job) {
  const LaunchedRanks ranks = launched_ranks(job).value_or(LaunchedRanks{});
  std::string command = "torchrun --nproc_per_node " + std::to_string(ranks.of_node);
  if (ranks.nodes == 1) return command;
  return command + " --nnodes " + std::to_string(ranks.nodes) +
         " --rdzv_backend c10d --rdzv_endpoint HOST:29500";
}

}  // namespace memest
