#include "reader/foreign/shell.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reader/foreign/shell_script.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

using WordSpan = std::span<const ExpandedWord>;

bool is_flag(std::string_view word) {
  // A negative number is a value.
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
}

bool is_script(const ExpandedWord& word) {
  return word.text.ends_with(".py") && !word.text.starts_with("-");
}

Value mapping_at(const SourceSpan& span) {
  Value value;
  value.kind = ValueKind::mapping;
  value.span = span;
  return value;
}

Value scalar_of(const ExpandedWord& word) {
  Value value;
  value.kind = ValueKind::scalar;
  value.text = word.text;
  value.span = word.span;
  return value;
}

void set_member(Value& mapping, std::string key, SourceSpan span, Value value) {
  const auto same = std::ranges::find(mapping.members, key, &Member::key);
  if (same != mapping.members.end()) mapping.members.erase(same);
  mapping.members.push_back({std::move(key), std::move(span), std::move(value)});
}

/// `--key value value` and `--key=value` as members.
void add_flags(WordSpan words, Value& mapping) {
  for (std::size_t i = 0; i < words.size();) {
    const ExpandedWord& flag = words[i++];
    if (!is_flag(flag.text)) continue;
    const std::size_t equals = flag.text.find('=');
    Value value;
    value.kind = ValueKind::scalar;
    value.text = "true";
    value.span = flag.span;
    if (equals != std::string::npos) {
      value.text = flag.text.substr(equals + 1);
    } else {
      std::size_t count = 0;
      for (; i < words.size() && !is_flag(words[i].text); ++i, ++count) {
        if (count == 1) {
          const Value first = std::exchange(value, mapping_at(value.span));
          value.kind = ValueKind::sequence;
          value.items.push_back(first);
        }
        if (count == 0) value = scalar_of(words[i]);
        if (count > 0) value.items.push_back(scalar_of(words[i]));
      }
    }
    set_member(mapping, flag.text.substr(0, equals), flag.span, std::move(value));
  }
}

std::size_t flags_behind(const ShellCommand& command) {
  const auto script = std::ranges::find_if(command.words, is_script);
  return static_cast<std::size_t>(std::count_if(
      script, command.words.end(), [](const ExpandedWord& word) { return is_flag(word.text); }));
}

/// The words of a command that another shell is told as one: bash -c "torchrun ...".
void part_words(const LineIndex& lines, ShellCommand& command) {
  std::vector<ExpandedWord> words;
  for (const ExpandedWord& word : command.words) {
    const bool holds_command = word.text.find(".py") != std::string::npos &&
                               word.text.find_first_of(" \n") != std::string::npos;
    if (!holds_command) {
      words.push_back(word);
      continue;
    }
    constexpr std::string_view kBlank = " \t\r\n\\";
    for (std::size_t i = word.text.find_first_not_of(kBlank); i != std::string::npos;) {
      const std::size_t end = std::min(word.text.find_first_of(kBlank, i), word.text.size());
      words.push_back({word.text.substr(i, end - i), span_within(lines, word, i, end)});
      i = word.text.find_first_not_of(kBlank, end);
    }
  }
  command.words = std::move(words);
}

void add_section(std::string_view key, Value section, Value& root) {
  if (section.members.empty()) return;
  const SourceSpan span = section.members.front().key_span;
  section.span = span;
  root.members.push_back({std::string(key), span, std::move(section)});
}

Value tree_of(ShellScript& script, const LineIndex& lines) {
  const SourcePointer& source = lines.source();
  Value root = mapping_at({source, 0, 0, 0});
  Value batch = mapping_at(root.span);
  for (ShellCommand& command : script.commands) {
    if (!command.words.empty() && command.words[0].text == "#SBATCH") {
      add_flags(command.words, batch);
    }
    part_words(lines, command);
  }
  const auto called = std::ranges::max_element(script.commands, {}, flags_behind);
  if (called != script.commands.end() && flags_behind(*called) > 0) {
    const WordSpan words = called->words;
    const auto program = std::ranges::find_if(words, is_script);
    const auto before = static_cast<std::size_t>(program - words.begin());
    add_flags(words.subspan(before + 1), root);
    Value launcher = mapping_at(root.span);
    add_flags(words.first(before), launcher);
    add_section("launcher", std::move(launcher), root);
    set_member(root, "script", program->span, scalar_of(*program));
  }
  Value environment = mapping_at(root.span);
  for (const auto& [name, value] : script.exports) {
    set_member(environment, name.text, name.span, scalar_of(value));
  }
  add_section("sbatch", std::move(batch), root);
  add_section("env", std::move(environment), root);
  return root;
}

}  // namespace

Checked<Value> parse_shell(const SourcePointer& source) {
  const LineIndex lines(source);
  if (std::optional<Diagnostic> fault = find_text_fault(lines)) return *std::move(fault);
  ShellScript script = run_script(source);
  Value root = tree_of(script, lines);
  return {std::move(root), std::move(script.warnings)};
}

}  // namespace memest
