#include "memest/reader/read_choices.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "memest/spec/framework.hpp"
#include "reader/job/read_job.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

const Value* written_in(const Value& root, std::string_view key) {
  const Value* training = root.find("training");
  return training == nullptr ? nullptr : training->find(key);
}

bool is_mapping(const Value* value) {
  return value != nullptr && value->kind == ValueKind::mapping;
}

/// Whether the spec says which implementation it is.
bool names_one(const Value* implementation) {
  return implementation != nullptr &&
         (!is_mapping(implementation) || implementation->find("name") != nullptr);
}

std::string implementation_setting(const Value* written, const ImplementationChoice& choice) {
  const std::string name(name_of(choice.framework));
  const bool compiles = choice.compile != CompileScope::off;
  if (!is_mapping(written)) {
    return compiles ? "training.implementation={name: " + name + ", compile: blocks}"
                    : "training.implementation=" + name;
  }
  return "training.implementation={name: " + name + (compiles ? ", compile: blocks}" : "}");
}

class ChoiceReader {
 public:
  ChoiceReader(Value root, std::string name) : root_(std::move(root)), name_(std::move(name)) {}

  /// The spec as it stands.
  static ImplementationChoice as_written(const Job& job) {
    ImplementationChoice choice;
    if (const ForwardSpec* forward = job.forward()) {
      choice.framework = forward->implementation.framework;
      choice.compile = forward->implementation.compile;
    }
    choice.job = job;
    return choice;
  }

  void add(Framework framework, std::vector<ImplementationChoice>& choices) const {
    const Value* written = written_in(root_, "implementation");
    const bool says = is_mapping(written) && written->find("compile") != nullptr;
    choices.push_back(read(framework, CompileScope::off));
    if (row_of(framework).compiles_blocks && !says)
      choices.push_back(read(framework, CompileScope::blocks));
  }

 private:
  ImplementationChoice read(Framework framework, CompileScope compile) const {
    ImplementationChoice choice{
        .framework = framework, .compile = compile, .settings = {}, .job = {}, .refusal = {}};
    choice.settings.push_back(implementation_setting(written_in(root_, "implementation"), choice));
    if (const auto precision = own_precision(framework)) {
      choice.settings.push_back("training.precision=" + *precision);
    }
    Value root = root_;
    for (const std::string& setting : choice.settings) {
      merge(root, parse_override({"--implementation", setting}).value());
    }
    const Checked<Job> job = read_job(std::move(root), name_);
    if (job.ok()) {
      choice.job = job.value();
      choice.compile = job.value().training->implementation.compile;  // what the spec writes stays
    } else {
      choice.refusal = sentence_of(job.diagnostics());
    }
    return choice;
  }

  [[nodiscard]] std::optional<std::string> own_precision(Framework framework) const {
    const Value* written = written_in(root_, "precision");
    if (written == nullptr) return std::nullopt;
    for (const PrecisionName& name : row_of(framework).precisions) {
      if (name.written == written->text) return std::string(name.own);
    }
    return std::nullopt;
  }

  static std::string sentence_of(const Diagnostics& diagnostics) {
    const auto error = std::ranges::find(diagnostics, Severity::error, &Diagnostic::severity);
    return error->message + (error->hint.empty() ? "" : " (" + error->hint + ")");
  }

  Value root_;
  std::string name_;
};

/// Models and passes that one implementation alone knows.
bool is_one_choice(const Job& job, const std::vector<std::string>& names) {
  return !job.training || job.model.family == Family::layer_list ||
         (names.empty() && !std::holds_alternative<DecoderSpec>(job.model.architecture));
}

Diagnostic of_flag(std::string message, std::string hint) {
  return {Severity::error, {}, std::move(message), std::move(hint)};
}

Checked<std::vector<Framework>> frameworks_of(const std::vector<std::string>& names) {
  std::vector<Framework> chosen;
  std::vector<std::string> known;
  for (const Framework framework : frameworks()) {
    if (!row_of(framework).trains_layer_lists) known.emplace_back(name_of(framework));
  }
  Diagnostics errors;
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) {
      chosen.push_back(*framework_named(name));
      continue;
    }
    const std::string hint = suggestion(name, known);
    errors.push_back(of_flag("--implementation knows no '" + name + "'",
                             hint.empty() ? "it knows " + joined(known) : hint));
  }
  if (!errors.empty()) return errors;
  if (!chosen.empty()) return chosen;
  std::ranges::copy_if(frameworks(), std::back_inserter(chosen),
                       [](Framework framework) { return row_of(framework).is_compared; });
  return chosen;
}

}  // namespace

Checked<std::vector<ImplementationChoice>> read_choices(const ReadRequest& request,
                                                        const std::vector<std::string>& names) {
  const Checked<std::vector<Framework>> chosen = frameworks_of(names);
  if (!chosen.ok()) return chosen.diagnostics();
  Checked<Value> root = read_tree(request);
  if (!root.ok()) return root.diagnostics();
  const std::string name = stem_of(request.files.front());
  Diagnostics warnings = root.diagnostics();
  const bool written = names_one(written_in(root.value(), "implementation"));
  if (written && !names.empty()) {
    return of_flag(
        "--implementation chooses among those that the spec leaves open, and it writes "
        "'training.implementation'",
        "--free training.implementation frees it");
  }
  const ChoiceReader reader(root.value(), name);
  const Checked<Job> job = read_job(std::move(root).value(), name);
  if (!job.ok() && written) return job.diagnostics();
  std::vector<ImplementationChoice> choices;
  if (written || (job.ok() && is_one_choice(job.value(), names))) {
    choices.push_back(ChoiceReader::as_written(job.value()));
    append(job.diagnostics(), warnings);
    return {std::move(choices), std::move(warnings)};
  }
  for (const Framework framework : chosen.value()) reader.add(framework, choices);
  const auto known = [](const ImplementationChoice& choice) { return choice.job.has_value(); };
  if (std::ranges::any_of(choices, known)) {
    if (job.ok()) {
      append(job.diagnostics(), warnings);
    }
    return {std::move(choices), std::move(warnings)};
  }
  if (!job.ok()) return job.diagnostics();
  return of_flag("no implementation takes the spec: " + choices.front().refusal,
                 "--implementation names others");
}

}  // namespace memest
