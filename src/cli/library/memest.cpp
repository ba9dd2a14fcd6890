#include "cli/library/memest.h"

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/guard.hpp"
#include "cli/overwritten.hpp"
#include "cli/version/version.hpp"
#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

/// The strings that the C struct, its base, points into.
struct OwnedAnswer : memest_answer {
  OwnedAnswer(const Outcome& outcome)
      : memest_answer{}, owned_text(outcome.out), owned_diagnostics(json_of(outcome.diagnostics)) {
    exit_code = static_cast<int>(outcome.code);
    text = owned_text.c_str();
    diagnostics = owned_diagnostics.c_str();
  }

  std::string owned_text;
  std::string owned_diagnostics;
};

Outcome answer_of(std::span<const std::string> words,
                  std::vector<std::shared_ptr<const SourceText>> texts) {
  const std::string name = words.empty() ? std::string() : words.front();
  const Command* command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  Checked<Arguments> parsed = parse_arguments(*command, words.subspan(1));
  if (!parsed.ok()) return {ExitCode::bad_input, "", parsed.diagnostics()};
  Arguments arguments = std::move(parsed).value();
  arguments.texts = std::move(texts);
  if (arguments.help) return {ExitCode::yes, help_page(*command, kTextColumns), {}};
  if (Diagnostics mistakes = find_overwritten(*command, arguments); !mistakes.empty()) {
    return {ExitCode::bad_input, "", std::move(mistakes)};
  }
  Outcome outcome = command->run(
      arguments, {.out = {}, .err = {}, .version = build_facts().version, .words = words});
  write_files(outcome, arguments);
  return outcome;
}

}  // namespace
}  // namespace memest

const memest_answer* memest_ask(const memest_question* question) {
  const std::span words(question->words, question->word_count);
  const std::span texts(question->texts, question->text_count);
  try {
    const memest::Outcome outcome = memest::guarded([&] {
      std::vector<std::shared_ptr<const memest::SourceText>> sources;
      for (const memest_text& text : texts) {
        sources.push_back(
            std::make_shared<const memest::SourceText>(memest::SourceText{text.name, text.text}));
      }
      return memest::answer_of(std::vector<std::string>(words.begin(), words.end()),
                               std::move(sources));
    });
    return std::make_unique<memest::OwnedAnswer>(outcome).release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void memest_free(const memest_answer* answer) {
  delete static_cast<const memest::OwnedAnswer*>(answer);
}

const char* memest_version() { return memest::build_facts().version.data(); }
