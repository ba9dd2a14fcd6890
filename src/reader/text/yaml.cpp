// YAML by yaml-cpp's events, so that depth, aliases and duplicates are under our control while the
// text is parsed.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include "reader/text/text.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

constexpr const char* kKeyHint = "a list or a mapping is none; is a bracket not closed?";

/// Ends the parse; `diagnostic` says why. Never leaves this file.
struct YamlRefusal {
  Diagnostic diagnostic;
};

/// A collection whose end has not come yet.
struct Open {
  Value value;
  YAML::anchor_t anchor = 0;
  bool awaits_value = false;  ///< of a mapping: the last member has its key only
  std::unordered_map<std::string, std::int32_t> keys;  ///< with the line that sets each first
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const LineIndex& lines, const TextKind& kind)
      : lines_(lines), kind_(kind), text_(lines.source()->text) {}

  [[nodiscard]] Value& root() { return root_; }
  [[nodiscard]] Diagnostics& errors() { return errors_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 1) {
      refuse(offset_of(mark), 0, "a second document begins here",
             "give each document its own file");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::size_t offset = token_offset(mark);
    const std::size_t length = null_length(offset);
    Value value;
    value.span = lines_.span(offset, length);
    if (length == 0 && !open_.empty() && open_.back().awaits_value) {
      value.span = open_.back().value.members.back().key_span;
    }
    add(std::move(value), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const std::size_t offset = token_offset(mark);
    refuse_tag(tag, mark);
    Value value;
    value.kind = ValueKind::scalar;
    value.text = text;
    // yaml-cpp (SingleDocParser::HandleNode) gives a scalar without a tag "?" where it is plain,
    // "!" where it is quoted.
    value.quoted = tag == "!";
    value.span = lines_.span(offset, scalar_length(offset, text));
    add(std::move(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      refuse(offset_of(mark), word_length(offset_of(mark)), "an anchor that contains itself", "");
    }
    alias_ = offset_of(mark);
    add(found->second, 0);
    alias_.reset();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, ValueKind::sequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, ValueKind::mapping);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  [[noreturn]] void refuse(std::size_t offset, std::size_t length, std::string message,
                           std::string hint) const {
    throw YamlRefusal{
        {Severity::error, lines_.span(offset, length), std::move(message), std::move(hint)}};
  }

  [[nodiscard]] std::size_t offset_of(const YAML::Mark& mark) const {
    return std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), text_.size());
  }

  /// Bytes of the word at `offset`.
  [[nodiscard]] std::size_t word_length(std::size_t offset) const {
    return std::min(text_.find_first_of(" \t\r\n,]}", offset), text_.size()) - offset;
  }

 private:
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ValueKind kind) {
    refuse_tag(tag, mark);
    const std::size_t offset = token_offset(mark);
    if (open_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      refuse(offset, 1, "nested more than " + std::to_string(kMaxDepth) + " levels deep", "");
    }
    if (!open_.empty() && open_.back().value.kind == ValueKind::mapping &&
        !open_.back().awaits_value) {
      refuse(offset, 1, "a key must be a word", kKeyHint);
    }
    Open opened;
    opened.value.kind = kind;
    opened.value.span = lines_.span(offset, first_token_length(offset));
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(std::move(closed.value), closed.anchor);
  }

  /// Puts a complete value where the text has it: root, next item, key or member.
  void add(Value value, YAML::anchor_t anchor) {
    count(value);
    if (anchor != 0) keep(anchor, value);
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.kind == ValueKind::sequence) {
      parent.value.items.push_back(std::move(value));
    } else if (parent.awaits_value) {
      parent.value.members.back().value = std::move(value);
      parent.awaits_value = false;
      if (parent.value.members.back().key_span.source == nullptr) {
        parent.value.members.pop_back();  // a duplicate, already reported
      }
    } else {
      add_key(parent, std::move(value));
    }
  }

  /// Anchors within anchors each keep a copy of what is in them: together no more than a document
  /// may hold.
  void keep(YAML::anchor_t anchor, const Value& value) {
    anchored_ += size_of(value);
    if (anchored_ > kind_.most_values) {
      throw YamlRefusal{
          {Severity::error, value.span,
           "the anchors hold more than " + std::to_string(kind_.most_values) + " values", ""}};
    }
    anchors_[anchor] = value;
  }

  static std::size_t size_of(const Value& value) {
    std::size_t size = 1;
    for (const Value& item : value.items) size += size_of(item);
    for (const Member& member : value.members) size += size_of(member.value);
    return size;
  }

  void add_key(Open& mapping, Value key) {
    if (key.kind != ValueKind::scalar) {
      throw YamlRefusal{{Severity::error, key.span, "a key must be a word", kKeyHint}};
    }
    if (key.text == "<<") {
      throw YamlRefusal{{Severity::error, key.span, "merge keys are not supported",
                         "give several files: they merge from left to right"}};
    }
    SourceSpan span = key.span;
    const auto [first, is_new] = mapping.keys.emplace(key.text, key.span.line);
    if (!is_new) {
      errors_.push_back({Severity::error, key.span, "duplicate key '" + key.text + "'",
                         "it is first set in line " + std::to_string(first->second)});
      span = {};
    }
    mapping.value.members.push_back({std::move(key.text), std::move(span), {}});
    mapping.awaits_value = true;
  }

  [[nodiscard]] bool is_full() const {
    return values_ > kind_.most_values || text_size_ > kind_.most_bytes;
  }

  /// Holds what aliases expand to within the limits: a value of `most_values` leaves at most.
  void count(const Value& value) {
    if (!alias_) {
      ++values_;
      text_size_ += value.text.size();
    } else {
      count_all(value);
    }
    if (is_full()) {
      throw YamlRefusal{{Severity::error,
                         alias_ ? lines_.span(*alias_, word_length(*alias_)) : value.span,
                         "more than " + std::to_string(kind_.most_values) + " values, or " +
                             std::to_string(kind_.most_bytes >> 20U) + " MiB of text",
                         alias_ ? "the aliases expand to too much" : ""}};
    }
  }
  void count_all(const Value& value) {
    if (is_full()) return;
    ++values_;
    text_size_ += value.text.size();
    for (const Value& item : value.items) count_all(item);
    for (const Member& member : value.members) {
      text_size_ += member.key.size();
      count_all(member.value);
    }
  }

  void refuse_tag(const std::string& tag, const YAML::Mark& mark) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(offset_of(mark), word_length(offset_of(mark)), "tags are not supported",
           "write the value alone");
  }

  /// yaml-cpp marks a value at its anchor; the token follows.
  [[nodiscard]] std::size_t token_offset(const YAML::Mark& mark) const {
    std::size_t offset = offset_of(mark);
    while (offset < text_.size() && text_[offset] == '&') {
      offset += word_length(offset);
      offset = std::min(text_.find_first_not_of(" \t\r\n", offset), text_.size());
    }
    return offset;
  }

  [[nodiscard]] std::size_t null_length(std::size_t offset) const {
    // yaml-cpp's IsNullString, by which a plain scalar becomes OnNull.
    for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (text_.substr(offset, word.size()) == word && word_length(offset) == word.size()) {
        return word.size();
      }
    }
    return 0;
  }

  [[nodiscard]] std::size_t first_token_length(std::size_t offset) const {
    if (offset >= text_.size()) return 0;
    const char first = text_[offset];
    if (first == '[' || first == '{' || first == '-') return 1;
    const std::size_t end = std::min(text_.find_first_of(":\r\n", offset), text_.size());
    return end - offset;
  }

  [[nodiscard]] std::size_t scalar_length(std::size_t offset, std::string_view value) const {
    if (offset >= text_.size()) return 0;
    const char quote = text_[offset];
    if (quote != '"' && quote != '\'') {
      const std::string_view rest = text_.substr(offset);
      return rest.substr(0, value.size()) == value ? value.size() : word_length(offset);
    }
    std::size_t end = offset + 1;
    while (end < text_.size() && text_[end] != quote) {
      end += quote == '"' && text_[end] == '\\' ? 2U : 1U;
    }
    return std::min(end + 1, text_.size()) - offset;
  }

  const LineIndex& lines_;
  const TextKind& kind_;
  std::string_view text_;
  Value root_;
  Diagnostics errors_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  std::optional<std::size_t> alias_;  ///< the alias that is being expanded
  std::size_t values_ = 0;
  std::size_t anchored_ = 0;  ///< values that the anchors keep
  std::size_t text_size_ = 0;
  int documents_ = 0;
};

/// YAML forbids tabs as indentation; yaml-cpp accepts some and then reads another structure than
/// the one on the screen.
std::optional<Diagnostic> find_tab(const LineIndex& lines) {
  const std::string_view text = lines.source()->text;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t content = std::min(text.find_first_not_of(" \t", start), text.size());
    const std::size_t tab = text.substr(start, content - start).find('\t');
    const bool has_content = content < text.size() && text[content] != '\n' &&
                             text[content] != '\r' && text[content] != '#';
    if (tab != std::string_view::npos && has_content) {
      return Diagnostic{Severity::error, lines.span(start + tab, 1), "a tab as indentation",
                        "indent with spaces"};
    }
    const std::size_t end = text.find('\n', content);
    start = end == std::string_view::npos ? text.size() : end + 1;
  }
  return std::nullopt;
}

/// The scanner of yaml-cpp reads ahead through unclosed brackets before it tells of any, so that a
/// megabyte of them costs a gigabyte. Brackets inside of quotes count too: no spec has that many.
std::optional<Diagnostic> find_bracket_tower(const LineIndex& lines) {
  constexpr int kMaxBrackets = 16 * kMaxDepth;
  const std::string_view text = lines.source()->text;
  int brackets = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++brackets;
    if (text[i] == ']' || text[i] == '}') brackets = std::max(brackets - 1, 0);
    if (brackets > kMaxBrackets) {
      return Diagnostic{Severity::error, lines.span(i, 1),
                        "nested more than " + std::to_string(kMaxDepth) + " levels deep", ""};
    }
  }
  return std::nullopt;
}

/// Explains yaml-cpp's words to the one who wrote the file.
Diagnostic explain(const YAML::Exception& error, const TreeBuilder& builder,
                   const LineIndex& lines) {
  std::string hint;
  std::string_view message = error.msg;
  // yaml-cpp 0.8 adds the anchor's name, which the carets show already.
  constexpr std::string_view kUnknownAnchor = "the referenced anchor is not defined";
  if (message.starts_with(kUnknownAnchor)) message = kUnknownAnchor;
  if (message.find("illegal map value") != std::string_view::npos) {
    hint = "a second ':' in the line, or a wrong indentation above it";
  } else if (message.find("end of map") != std::string_view::npos ||
             message.find("end of sequence") != std::string_view::npos) {
    hint = "a bracket that is not closed, or a wrong indentation";
  }
  return {Severity::error, lines.span(builder.offset_of(error.mark), 1),
          "this is not YAML: " + std::string(message), hint};
}

}  // namespace

Checked<Value> parse_yaml(const std::shared_ptr<const SourceText>& source) {
  return parse_yaml(source, kSpecText);
}

Checked<Value> parse_yaml(const std::shared_ptr<const SourceText>& source, const TextKind& kind) {
  const LineIndex lines(source);
  if (std::optional<Diagnostic> fault = find_text_fault(lines, kind)) return *std::move(fault);
  for (const auto find_fault : {find_tab, find_bracket_tower}) {
    if (std::optional<Diagnostic> fault = find_fault(lines)) return *std::move(fault);
  }
  TreeBuilder builder(lines, kind);
  try {
    std::istringstream stream(source->text);
    YAML::Parser parser(stream);
    bool any = false;
    while (parser.HandleNextDocument(builder)) any = true;
    if (!any) {
      return Diagnostic{Severity::error,
                        {source, 0, 0, 0},
                        "the file holds comments only",
                        "`memest init` writes a starter spec"};
    }
  } catch (const YamlRefusal& refusal) {
    builder.errors().push_back(refusal.diagnostic);
  } catch (const YAML::Exception& error) {
    builder.errors().push_back(explain(error, builder, lines));
  }
  if (!builder.errors().empty()) return std::move(builder.errors());
  return std::move(builder.root());
}

}  // namespace memest
