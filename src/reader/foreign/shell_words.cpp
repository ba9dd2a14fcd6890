#include "reader/foreign/shell_words.hpp"

#include <algorithm>
#include <cstdint>

namespace memest {
namespace {

constexpr std::string_view kOperators = "\n;|&()<>";

bool is_variable_sign(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class ShellLexer {
 public:
  explicit ShellLexer(std::string_view text) : text_(text) {}

  std::vector<ShellWord> run() {
    while (at_ < text_.size()) step();
    end_word();
    return std::move(words_);
  }

 private:
  [[nodiscard]] bool at(std::string_view part) const {
    return text_.substr(at_, part.size()) == part;
  }

  void step() {
    const char c = text_[at_];
    if (at("\\\n") || at("\\\r\n")) {
      at_ += at("\\\n") ? 2 : 3;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
      ++at_;
    } else if (c == '#' && !in_word_) {
      skip_comment();
    } else if (kOperators.find(c) != std::string_view::npos) {
      // 2>&1: the number is the stream's.
      const bool is_stream = (c == '>' || c == '<') && in_word_ &&
                             word_.plain.find_first_not_of("0123456789") == std::string::npos;
      if (is_stream) in_word_ = false;
      end_word();
      words_.push_back({{}, std::string(1, c), at_, 1, {}});
      ++at_;
    } else {
      read_piece();
    }
  }

  void skip_comment() {
    // A batch system reads its own comments.
    constexpr std::string_view kBatch = "#SBATCH";
    if (at(kBatch)) {
      // Its words are parted by blanks alone.
      const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
      while (at_ < line_end) {
        const std::size_t end = std::min(text_.find_first_of(" \t\r\n", at_), line_end);
        if (end > at_) {
          begin_word();
          add_text(text_.substr(at_, end - at_), at_, false);
          at_ = end;
          end_word();
        }
        at_ += at_ < line_end ? 1 : 0;
      }
      return;
    }
    at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void read_piece() {
    begin_word();
    const char c = text_[at_];
    if (c == '\'') return read_single_quoted();
    if (c == '"') return read_double_quoted();
    if (c == '$' || c == '`') return read_expansion(false);
    if (c == '\\' && at_ + 1 < text_.size()) ++at_;
    add_text(text_.substr(at_, 1), at_, false);
    ++at_;
  }

  void read_single_quoted() {
    const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
    add_text(text_.substr(at_ + 1, end - at_ - 1), at_ + 1, true);
    at_ = std::min(end + 1, text_.size());
  }

  void read_double_quoted() {
    add_text({}, at_ + 1, true);
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      if (text_[at_] == '$' || text_[at_] == '`') {
        read_expansion(true);
      } else if (at("\\\n")) {
        at_ += 2;
      } else {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        add_text(text_.substr(at_, 1), at_, true);
        ++at_;
      }
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  void read_expansion(bool quoted) {
    const std::size_t begin = at_;
    ShellPiece piece{.text = {}, .otherwise = {}, .quoted = quoted, .offset = begin};
    if (at("`")) {
      at_ = std::min(text_.find('`', at_ + 1), text_.size() - 1) + 1;
      piece.kind = PieceKind::output;
    } else if (at("$((")) {
      at_ = std::min(text_.find("))", at_), text_.size());
      piece.kind = PieceKind::arithmetic;
      piece.text = text_.substr(begin + 3, at_ - begin - 3);
      at_ = std::min(at_ + 2, text_.size());
    } else if (at("$(")) {
      close_brackets('(', ')');
      piece.kind = PieceKind::output;
    } else if (at("${")) {
      close_brackets('{', '}');
      name_in_braces(text_.substr(begin + 2, at_ - begin - 3), piece);
    } else {
      read_name(piece);
    }
    piece.length = at_ - begin;
    if (piece.kind == PieceKind::output) piece.text = text_.substr(begin, piece.length);
    word_.plain += text_.substr(begin, piece.length);
    word_.pieces.push_back(std::move(piece));
  }

  /// Steps behind the bracket that closes the one behind the dollar sign.
  void close_brackets(char open, char close) {
    int depth = 0;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close && --depth == 0) {
        ++at_;
        return;
      }
    }
  }

  void read_name(ShellPiece& piece) {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && is_variable_sign(text_[at_])) ++at_;
    if (at_ == begin && at_ < text_.size() &&
        std::string_view("@*#?").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    piece.kind = at_ == begin ? PieceKind::text : PieceKind::variable;
    piece.text = at_ == begin ? "$" : text_.substr(begin, at_ - begin);
  }

  static void name_in_braces(std::string_view inside, ShellPiece& piece) {
    std::size_t end = 0;
    while (end < inside.size() && is_variable_sign(inside[end])) ++end;
    std::string_view rest = inside.substr(end);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) rest.remove_prefix(3);
    piece.kind = PieceKind::variable;
    piece.text = inside.substr(0, end);
    if (rest.empty()) return;
    for (const std::string_view sign : {":-", ":=", "-", "="}) {
      if (!rest.starts_with(sign)) continue;
      piece.otherwise = rest.substr(sign.size());
      for (const char quote : {'"', '\''}) {
        const std::string& other = piece.otherwise;
        if (other.size() > 1 && other.front() == quote && other.back() == quote) {
          piece.otherwise = other.substr(1, other.size() - 2);
        }
      }
      return;
    }
    piece.kind = PieceKind::output;  // ${#NAME}, ${NAME%.sh}: nobody computes it
  }

  void begin_word() {
    if (in_word_) return;
    in_word_ = true;
    word_ = {};
    word_.offset = at_;
  }

  /// Adds to the piece before where the text goes on behind it.
  void add_text(std::string_view text, std::size_t offset, bool quoted) {
    std::vector<ShellPiece>& pieces = word_.pieces;
    word_.plain += text;
    const bool goes_on = !pieces.empty() && pieces.back().kind == PieceKind::text &&
                         pieces.back().quoted == quoted &&
                         pieces.back().offset + pieces.back().length == offset;
    if (!goes_on) {
      pieces.push_back({PieceKind::text, std::string(text), {}, quoted, offset, text.size()});
      return;
    }
    pieces.back().text += text;
    pieces.back().length += text.size();
  }

  void end_word() {
    if (!in_word_) return;
    in_word_ = false;
    word_.length = at_ - word_.offset;
    words_.push_back(std::move(word_));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool in_word_ = false;
  ShellWord word_;
  std::vector<ShellWord> words_;
};

}  // namespace

std::vector<ShellWord> shell_words(std::string_view text) { return ShellLexer(text).run(); }

}  // namespace memest
