#include "memest/reader/recorded_job.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/family_text.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/job/read_allocator.hpp"
#include "reader/job/read_cluster.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/recorded/recording_sign.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

/// A recording is read as the spec that names it alone, in its own place.
std::shared_ptr<const SourceText> spec_of(const std::string& recording) {
  const std::string name = std::filesystem::path(recording).filename().string();
  std::string text = std::string(kRecordingKey) + ": '";
  for (const char letter : name) text += letter == '\'' ? "''" : std::string(1, letter);
  return std::make_shared<const SourceText>(SourceText{recording, text + "'\n"});
}

/// "batch=8" of each member, as --at has it.
std::vector<std::string> sizes_of(const Value* at, Diagnostics& diagnostics) {
  std::vector<std::string> sizes;
  if (at == nullptr) return sizes;
  for (const Member& member : at->members) {
    sizes.push_back(member.key + "=" + member.value.text);
    if (member.value.kind == ValueKind::scalar && parse_size_value(sizes.back())) continue;
    diagnostics.push_back(error_at(member.value.span, "a size is a whole number from 1 to 2^40",
                                   "as in {batch: 8, seq: 1024}"));
  }
  return sizes;
}

/// A path inside of a spec is part of the spec, so its mistake has a place there.
Checked<std::variant<Recording, RecordedFamily>> read_named(const Value& written,
                                                            const std::string& path) {
  try {
    return read_recording_or_family(path);
  } catch (const EnvironmentError& error) {
    return error_at(written.span, error.what(), "a path is relative to the file that names it");
  }
}

/// The GPU that stood there, as a spec would name it; nothing where the recording says none that is
/// known.
std::optional<Value> recorded_hardware(const RecordedJob& recorded) {
  const auto* recording = std::get_if<Recording>(&recorded.recorded);
  const std::string& gpu =
      recording != nullptr ? recording->gpu : std::get<RecordedFamily>(recorded.recorded).gpu;
  if (gpu.empty() || is_path(gpu) || !find_gpu(gpu).ok()) return std::nullopt;
  return parse_override({recorded.file, "hardware.gpu=" + gpu}).value();
}

Checked<RecordedJob> read_recorded(Value root) {
  Diagnostics diagnostics;
  check_table(root, recorded_spec_keys(), {root.span.source, 0, 0, 0}, diagnostics);
  if (!diagnostics.empty()) return diagnostics;
  RecordedJob recorded;
  const Value written = *root.find(kRecordingKey);
  recorded.file = path_beside(written.span, written.text);
  recorded.at = sizes_of(root.find("at"), diagnostics);
  auto read = read_named(written, recorded.file);
  if (!read.ok()) return read.diagnostics();
  recorded.recorded = std::move(read).value();
  recorded.names_gpu = find_path(root, "hardware.gpu") != nullptr;
  if (auto own = recorded_hardware(recorded)) {
    merge(*own, std::move(root));  // what the spec says replaces what the recording does
    root = *std::move(own);
  }
  Job job;
  read_cluster({.parallelism = nullptr, .hardware = root.find("hardware")}, job, diagnostics);
  recorded.hardware = std::move(job.hardware);
  recorded.budget = read_budget(root.find("budget"));
  if (const Value* allocator = root.find("allocator")) {
    recorded.settings = read_allocator(allocator, diagnostics);
    recorded.conf = environment_text_of(*recorded.settings);
    if (recorded.conf.empty()) recorded.conf = "default";
  }
  if (!diagnostics.empty()) return diagnostics;
  return recorded;
}

Diagnostic no_use(const std::string& flag) {
  return {Severity::error,
          {},
          "a recording is of one process, for which " + flag + " has no use",
          "it is asked with --gpu, --at and --set hardware, budget or allocator"};
}

}  // namespace

Checked<std::optional<RecordedJob>> find_recorded_job(const ReadRequest& request) {
  ReadRequest own = request;
  bool is_named = false;
  for (const std::string& file : request.files) {
    switch (sign_of(file, request)) {
      case RecordingSign::none:
        break;
      case RecordingSign::recording:
        own.texts.push_back(spec_of(file));
        is_named = true;
        break;
      case RecordingSign::spec:
        is_named = true;
        break;
    }
  }
  if (!is_named) return std::optional<RecordedJob>();
  if (request.gpus) return no_use("--gpus");
  if (!request.freed.empty()) return no_use("--free");
  Checked<Value> tree = read_tree(own);
  if (!tree.ok()) return tree.diagnostics();
  if (tree.value().find(kRecordingKey) == nullptr) return std::optional<RecordedJob>();
  Checked<RecordedJob> recorded = read_recorded(std::move(tree).value());
  if (!recorded.ok()) return recorded.diagnostics();
  return std::optional<RecordedJob>(std::move(recorded).value());
}

}  // namespace memest
