#include "reader/foreign/shell_script.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "reader/foreign/arithmetic.hpp"
#include "reader/foreign/shell_condition.hpp"
#include "reader/foreign/shell_words.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/text.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostWords = 20'000;  ///< of all commands, variables expanded

using Words = std::vector<ExpandedWord>;

bool is_blank_sign(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// "NAME" of NAME=value and NAME+=value; empty where the word is no assignment.
std::string_view assigned_name(std::string_view word) {
  std::size_t end = 0;
  const auto is_sign = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  while (end < word.size() && is_sign(word[end])) ++end;
  const std::string_view rest = word.substr(end);
  const bool assigns = rest.starts_with("=") || rest.starts_with("+=");
  return assigns && end > 0 && (word[0] < '0' || word[0] > '9') ? word.substr(0, end)
                                                                : std::string_view();
}

class ScriptRunner {
 public:
  explicit ScriptRunner(const LineIndex& lines)
      : lines_(lines), words_(shell_words(lines.source()->text)) {}

  ShellScript run() {
    while (at_ < words_.size()) run_command();
    return std::move(script_);
  }

 private:
  /// An `if`, a loop or a `case`, and whether its commands count.
  struct Block {
    std::string_view end;           ///< "fi", "done" or "esac"
    bool active = true;             ///< the branch that is read counts
    bool decided = false;           ///< a branch before counted, or nobody can tell which does
    std::string_view warning = {};  ///< where nobody can tell: said once a branch would set a name
    std::size_t place = 0;          ///< its first word
  };

  [[nodiscard]] bool is_active() const { return std::ranges::all_of(blocks_, &Block::active); }

  [[nodiscard]] bool is_at(std::string_view op) const {
    return at_ < words_.size() && words_[at_].op == op;
  }

  [[nodiscard]] bool is_keyword(std::string_view word) const {
    return at_ < words_.size() && words_[at_].op.empty() && words_[at_].plain == word;
  }

  void run_command() {
    const ShellWord& word = words_[at_];
    if (!word.op.empty() || word.plain == "then" || word.plain == "do" || word.plain == "{" ||
        word.plain == "}" || word.plain == "!") {
      ++at_;
      return;
    }
    if (word.plain == "if") return open_if();
    if (word.plain == "elif" || word.plain == "else") return next_branch();
    if (word.plain == "for" || word.plain == "while" || word.plain == "until") {
      return open_unread("done");
    }
    if (word.plain == "case") return open_unread("esac");
    if (!blocks_.empty() && word.plain == blocks_.back().end) {
      blocks_.pop_back();
      ++at_;
      return;
    }
    if (word.plain == "fi" || word.plain == "done" || word.plain == "esac") {
      ++at_;
      return;
    }
    if (is_active()) return run_simple();
    skip_command();
  }

  void skip_command() {
    const bool sets = !assigned_name(words_[at_].plain).empty() || is_keyword("export");
    if (sets) warn_of_blocks();
    ++at_;
    while (at_ < words_.size() && !is_at("\n") && !is_at(";")) ++at_;
  }

  void warn_of_blocks() {
    for (Block& block : blocks_) {
      if (block.warning.empty()) continue;
      const ShellWord& word = words_[block.place];
      script_.warnings.push_back({Severity::warning, lines_.span(word.offset, word.length),
                                  std::string(block.warning),
                                  "write the values that hold as plain assignments"});
      block.warning = {};
    }
  }

  void open_unread(std::string_view end) {
    blocks_.push_back({end, false, true,
                       is_active()
                           ? "a loop or a case is not followed: its commands are passed over"
                           : std::string_view(),
                       at_});
    ++at_;
    while (at_ < words_.size() && !is_at("\n") && !is_at(";")) ++at_;
  }

  void open_if() {
    blocks_.push_back({"fi", true, false, {}, at_});
    ++at_;
    decide();
  }

  void next_branch() {
    const bool has_condition = is_keyword("elif");
    ++at_;
    if (blocks_.empty()) return;
    Block& block = blocks_.back();
    if (!block.decided && has_condition) return decide();
    block.active = !block.decided;
    block.decided = true;
    if (!has_condition) return;
    while (at_ < words_.size() && !is_at("\n") && !is_at(";")) ++at_;
  }

  /// Reads the condition behind `if` or `elif`: tests with && or || between them.
  void decide() {
    blocks_.back().active = true;
    const bool counts = is_active();
    std::vector<Words> tests(1);
    std::vector<char> joints;
    while (at_ < words_.size() && !is_at("\n") && !is_at(";") && !is_keyword("then")) {
      const ShellWord& word = words_[at_++];
      if (word.op.empty()) {
        if (counts) expand(word, tests.back());
      } else if (is_at(word.op)) {
        joints.push_back(word.op[0]);
        tests.emplace_back();
      }
    }
    if (!counts) {
      blocks_.back().active = false;
      return;
    }
    std::optional<bool> holds = judge_condition(tests[0]);
    for (std::size_t i = 0; i < joints.size(); ++i) {
      const std::optional<bool> next = judge_condition(tests[i + 1]);
      const bool settles = joints[i] == '|';  // true || anything, false && anything
      if (holds == settles || next == settles) {
        holds = settles;
      } else if (!holds || !next) {
        holds.reset();
      }
    }
    Block& block = blocks_.back();
    block.active = holds.value_or(false);
    block.decided = holds.value_or(true);
    if (!holds) {
      block.warning = "nothing in the file decides this condition: its branches are passed over";
    }
  }

  void run_simple() {
    const bool exports = is_keyword("export");
    if (exports || is_keyword("local") || is_keyword("declare") || is_keyword("readonly")) ++at_;
    ShellCommand command;
    while (at_ < words_.size() && words_[at_].op.empty()) {
      const std::string_view name = assigned_name(words_[at_].plain);
      if (!name.empty() && command.words.empty()) {
        assign(std::string(name), exports);
        continue;
      }
      expand(words_[at_++], command.words);
    }
    // A file that is written to or read from is no word of the command.
    while (is_at(">") || is_at("<")) {
      ++at_;
      if (is_at("&") || is_at(">")) ++at_;
      if (at_ < words_.size() && words_[at_].op.empty()) ++at_;
    }
    if (command.words.empty()) return;
    flush_temporaries();
    script_.commands.push_back(std::move(command));
  }

  void assign(const std::string& name, bool exports) {
    const ShellWord& word = words_[at_++];
    const std::size_t begin = word.offset;
    const bool adds = word.plain.substr(name.size()).starts_with("+=");
    const std::size_t equals = name.size() + (adds ? 2 : 1);
    Words value;
    if (word.plain.size() == equals && is_at("(") &&
        words_[at_].offset == word.offset + word.length) {
      for (++at_; at_ < words_.size() && !is_at(")"); ++at_) {
        if (words_[at_].op.empty()) expand(words_[at_], value);
      }
      ++at_;
    } else {
      ShellWord right = word;
      drop_front(right, equals);
      value.push_back(joined_word(right));
      if (adds && !variables_[name].empty()) {
        ExpandedWord& before = variables_[name].back();
        for (WordOrigin& origin : value[0].origins) origin.begin += before.text.size();
        value[0].origins.insert(value[0].origins.begin(), before.origins.begin(),
                                before.origins.end());
        value[0].text = before.text + value[0].text;
        variables_[name].pop_back();
      }
    }
    ExpandedWord key{name, lines_.span(begin, name.size())};
    // A variable before a command is of that command's environment.
    if (!value.empty()) assigned_.emplace_back(std::move(key), value.front());
    if (exports) flush_temporaries();
    Words& variable = variables_[name];
    if (!adds) variable.clear();
    variable.insert(variable.end(), value.begin(), value.end());
    if (!exports && (at_ >= words_.size() || !words_[at_].op.empty())) assigned_.clear();
  }

  void flush_temporaries() {
    for (auto& pair : assigned_) script_.exports.push_back(std::move(pair));
    assigned_.clear();
  }

  static void drop_front(ShellWord& word, std::size_t count) {
    for (ShellPiece& piece : word.pieces) {
      if (count == 0) return;
      const std::size_t part = std::min(count, piece.text.size());
      piece.text.erase(0, part);
      piece.offset += part;
      piece.length -= std::min(piece.length, part);
      word.offset += part;
      word.length -= std::min(word.length, part);
      count -= part;
    }
  }

  [[nodiscard]] ExpandedWord word_at(std::string text, const ShellPiece& piece,
                                     bool unknown = false) const {
    return {std::move(text), lines_.span(piece.offset, piece.length), unknown, {{0, piece.offset}}};
  }

  /// The words that a piece stands for: a variable may be several.
  Words words_of(const ShellPiece& piece) {
    switch (piece.kind) {
      case PieceKind::text:
        return {word_at(piece.text, piece)};
      case PieceKind::output:
        return {word_at(piece.text, piece, true)};
      case PieceKind::arithmetic: {
        const auto known = [this](std::string_view name) {
          const auto found = variables_.find(std::string(name));
          return found == variables_.end() || found->second.empty()
                     ? std::nullopt
                     : integer_of(found->second.front().text);
        };
        const auto whole = evaluate_whole(piece.text, known);
        if (whole) return {word_at(std::to_string(*whole), piece)};
        return {word_at("$((" + piece.text + "))", piece, true)};
      }
      case PieceKind::variable:
        break;
    }
    const auto found = variables_.find(piece.text);
    if (found != variables_.end() && (piece.otherwise.empty() || !is_empty(found->second))) {
      return found->second;
    }
    if (!piece.otherwise.empty()) return otherwise_of(piece);
    // A script without arguments: its own are empty.
    const bool is_argument =
        piece.text.size() == 1 && !(piece.text[0] >= 'A' && piece.text[0] <= 'z');
    return {word_at(is_argument ? "" : "$" + piece.text, piece, !is_argument)};
  }

  static bool is_empty(const Words& words) {
    return std::ranges::all_of(words, [](const ExpandedWord& word) { return word.text.empty(); });
  }

  Words otherwise_of(const ShellPiece& piece) {
    if (!piece.otherwise.starts_with("$")) return {word_at(piece.otherwise, piece)};
    std::string name = piece.otherwise.substr(1);
    std::erase_if(name, [](char c) { return c == '{' || c == '}'; });
    const auto found = variables_.find(name);
    if (found != variables_.end()) return found->second;
    return {word_at(piece.otherwise, piece, true)};
  }

  /// The word as one, as on the right of an assignment.
  ExpandedWord joined_word(const ShellWord& word) {
    ExpandedWord result{"", lines_.span(word.offset, word.length)};
    for (const ShellPiece& piece : word.pieces) {
      std::string text;
      for (const ExpandedWord& part : words_of(piece)) {
        if (!text.empty()) text += ' ';
        for (const WordOrigin& origin : part.origins) {
          result.origins.push_back(
              {result.text.size() + text.size() + origin.begin, origin.offset});
        }
        text += part.text;
        result.unknown = result.unknown || part.unknown;
        if (word.pieces.size() == 1 && piece.kind == PieceKind::variable) result.span = part.span;
      }
      result.text += text;
    }
    return result;
  }

  /// Adds the words that `word` becomes: a variable alone may be many, and without quotes its text
  /// is parted at blanks.
  void expand(const ShellWord& word, Words& into) {
    const bool alone = word.pieces.size() == 1 && word.pieces[0].kind == PieceKind::variable;
    const bool in_quotes = word.pieces.size() == 2 && word.pieces[0].text.empty() &&
                           word.pieces[0].kind == PieceKind::text &&
                           word.pieces[1].kind == PieceKind::variable;
    if (in_quotes || alone) {
      for (const ExpandedWord& one : words_of(word.pieces.back())) {
        add_parted(one, word.pieces.back().quoted, into);
      }
      return;
    }
    const bool quoted = std::ranges::any_of(word.pieces, &ShellPiece::quoted);
    add_parted(joined_word(word), quoted, into);
  }

  void add_parted(const ExpandedWord& word, bool quoted, Words& into) {
    const bool has_blank = std::ranges::any_of(word.text, is_blank_sign);
    if (count_ > kMostWords) return;
    if (quoted || !has_blank) {
      ++count_;
      if (!word.text.empty() || quoted) into.push_back(word);
      return;
    }
    for (std::size_t i = 0; i < word.text.size();) {
      if (is_blank_sign(word.text[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < word.text.size() && !is_blank_sign(word.text[end])) ++end;
      into.push_back(
          {word.text.substr(i, end - i), span_within(lines_, word, i, end), word.unknown});
      ++count_;
      i = end;
    }
  }

  const LineIndex& lines_;
  std::vector<ShellWord> words_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
  std::map<std::string, Words> variables_;
  std::vector<std::pair<ExpandedWord, ExpandedWord>> assigned_;
  std::vector<Block> blocks_;
  ShellScript script_;
};

}  // namespace

SourceSpan span_within(const LineIndex& lines, const ExpandedWord& word, std::size_t begin,
                       std::size_t end) {
  const auto after = std::ranges::upper_bound(word.origins, begin, {}, &WordOrigin::begin);
  if (after == word.origins.begin()) return word.span;
  const WordOrigin& origin = *std::prev(after);
  return lines.span(origin.offset + begin - origin.begin, end - begin);
}

ShellScript run_script(const SourcePointer& source) {
  const LineIndex lines(source);
  return ScriptRunner(lines).run();
}

}  // namespace memest
