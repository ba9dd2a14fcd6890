#include "memest/report/tool_report.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memest/spec/framework.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

/// PyTorch's, and those of the frameworks: the program and its release.
std::vector<std::pair<std::string, std::string>> modelled_releases() {
  std::vector<std::pair<std::string, std::string>> releases{
      {"PyTorch", std::string(kRecordedTorch)}};
  for (const Framework framework : frameworks()) {
    const RecordedProgram& program = row_of(framework).recorded;
    std::pair<std::string, std::string> release(program.package, program.release);
    if (release.first.empty()) continue;
    if (std::ranges::find(releases, release) == releases.end()) {
      releases.push_back(std::move(release));
    }
  }
  return releases;
}

Json flag_json(const FlagFacts& flag) {
  Json json{{"name", flag.name}, {"value", flag.value}, {"help", flag.help}};
  if (!flag.words.empty()) json["words"] = flag.words;
  return json;
}

Json command_json(const CommandFacts& command) {
  Json json{{"name", command.name},
            {"summary", command.summary},
            {"words", command.words},
            {"description", command.description},
            {"example", command.example}};
  json["flags"] = Json::array();
  for (const FlagFacts& flag : command.flags) json["flags"].push_back(flag_json(flag));
  return json;
}

}  // namespace

std::string help_json(const ToolFacts& tool) {
  Json json = new_answer();
  json["memest"] = tool.version;
  json["commands"] = Json::array();
  for (const CommandFacts& command : tool.commands) {
    json["commands"].push_back(command_json(command));
  }
  json["exit_codes"] = Json::array();
  for (const ExitFacts& row : tool.exit_codes) {
    json["exit_codes"].push_back({{"code", row.code}, {"meaning", row.meaning}});
  }
  return text_of(json);
}

std::string version_text(const BuildFacts& build) {
  std::string text = "memest " + std::string(build.version) + "\n";
  const auto line = [&](std::string_view label, std::string_view value) {
    if (!value.empty()) text += std::string(label) + std::string(value) + "\n";
  };
  line("revision    ", build.revision);
  line("compiler    ", build.compiler);
  line("build       ", build.build_type);
  line("GPU module  ", build.has_gpu_module ? "yes" : "no");
  std::string releases;
  for (const auto& [program, release] : modelled_releases()) {
    releases += (releases.empty() ? "" : ", ") + program + " " + release;
  }
  line("models      ", releases);
  return text;
}

std::string version_json(const BuildFacts& build) {
  Json json = new_answer();
  json["memest"] = build.version;
  if (build.revision.empty()) {
    put_null(json, "revision", "the sources were built without their git repository");
  } else {
    json["revision"] = build.revision;
  }
  json["compiler"] = build.compiler;
  json["build_type"] = build.build_type;
  json["gpu_module"] = build.has_gpu_module;
  json["models"] = Json::array();
  for (const auto& [program, release] : modelled_releases()) {
    json["models"].push_back({{"program", program}, {"release", release}});
  }
  return text_of(json);
}

}  // namespace memest
