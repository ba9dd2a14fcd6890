#include "memest/reader/read_choices.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "merge.hpp"
#include "read_job.hpp"
#include "scalar.hpp"
#include "source.hpp"

namespace memest {
namespace {

constexpr std::array kCompared = {Framework::transformers, Framework::torchtitan,
                                  Framework::megatron};
constexpr std::array kCompiling = {Framework::transformers, Framework::torchtitan,
                                   Framework::nanogpt};

/// What an implementation calls a precision that others have: the same types of weights,
/// gradients, masters and products, or the nearest that it trains in.
struct PrecisionRow {
  Framework framework;
  std::string_view written;
  std::string_view own;
};
constexpr std::array kPrecisions = {
    // --bf16 --grad-reduce-in-bf16, and with gradients in fp32 by default.
    PrecisionRow{Framework::megatron, "mixed", "megatron-bf16-grad"},
    PrecisionRow{Framework::megatron, "mixed-fp32-grad", "megatron"},
    PrecisionRow{Framework::megatron, "amp-bf16", "megatron"},
    PrecisionRow{Framework::megatron, "fsdp2-bf16", "megatron"},
    // torchtitan keeps fp32 weights and casts them unit by unit (training.mixed_precision_param).
    PrecisionRow{Framework::torchtitan, "mixed", "amp-bf16"},
    PrecisionRow{Framework::torchtitan, "mixed-fp32-grad", "amp-bf16"},
    PrecisionRow{Framework::torchtitan, "megatron", "amp-bf16"},
    PrecisionRow{Framework::torchtitan, "megatron-bf16-grad", "amp-bf16"},
    PrecisionRow{Framework::transformers, "megatron", "mixed-fp32-grad"},
    PrecisionRow{Framework::transformers, "megatron-bf16-grad", "mixed"},
};

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
  ImplementationChoice as_written(const Job& job) const {
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
    const bool compiles = std::ranges::find(kCompiling, framework) != kCompiling.end();
    if (compiles && !says) choices.push_back(read(framework, CompileScope::blocks));
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
    for (const PrecisionRow& row : kPrecisions) {
      if (row.framework == framework && row.written == written->text) return std::string(row.own);
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
  std::vector<Framework> frameworks;
  std::vector<std::string> known;
  for (const Framework framework : kFrameworks) {
    if (framework != Framework::plain) known.emplace_back(name_of(framework));
  }
  Diagnostics errors;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    if (found != known.end()) {
      frameworks.push_back(kFrameworks.at(static_cast<std::size_t>(found - known.begin())));
      continue;
    }
    const std::string hint = suggestion(name, known);
    errors.push_back(of_flag("--implementation knows no '" + name + "'",
                             hint.empty() ? "it knows " + joined(known) : hint));
  }
  if (!errors.empty()) return errors;
  if (frameworks.empty()) frameworks.assign(kCompared.begin(), kCompared.end());
  return frameworks;
}

}  // namespace

Checked<std::vector<ImplementationChoice>> read_choices(const ReadRequest& request,
                                                        const std::vector<std::string>& names) {
  const Checked<std::vector<Framework>> frameworks = frameworks_of(names);
  if (!frameworks.ok()) return frameworks.diagnostics();
  Checked<Value> root = read_tree(request);
  if (!root.ok()) return root.diagnostics();
  const std::string name = stem_of(request.files.front());
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
    choices.push_back(reader.as_written(job.value()));
    return {std::move(choices), job.diagnostics()};
  }
  for (const Framework framework : frameworks.value()) reader.add(framework, choices);
  const auto known = [](const ImplementationChoice& choice) { return choice.job.has_value(); };
  if (std::ranges::any_of(choices, known)) {
    return {std::move(choices), job.ok() ? job.diagnostics() : Diagnostics{}};
  }
  if (!job.ok()) return job.diagnostics();
  return of_flag("no implementation takes the spec: " + choices.front().refusal,
                 "--implementation names others");
}

}  // namespace memest
