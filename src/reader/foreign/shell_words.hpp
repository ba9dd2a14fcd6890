// The words of a shell script, before anything is expanded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memest {

enum class PieceKind : std::uint8_t {
  text,        ///< as it stands
  variable,    ///< $NAME, ${NAME}, ${NAME:-otherwise}, ${NAME[@]}
  arithmetic,  ///< $((TP * PP))
  output       ///< $(command): nobody runs it
};

/// A part of a word.
struct ShellPiece {
  PieceKind kind = PieceKind::text;
  std::string text;       ///< of a variable its name, of an expression what is within
  std::string otherwise;  ///< of ${NAME:-otherwise}
  bool quoted = false;
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// A word; an operator (`;`, `|`, `(`, a line's end) is one without pieces.
struct ShellWord {
  std::vector<ShellPiece> pieces;
  std::string op;
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string plain;  ///< the text of all pieces as written, without quotes
};

/// All words of `text`; comments but for `#SBATCH` lines are left out. A quote that nobody closes
/// ends with the text.
std::vector<ShellWord> shell_words(std::string_view text);

}  // namespace memest
