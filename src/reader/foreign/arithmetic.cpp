#include "reader/foreign/arithmetic.hpp"

#include <algorithm>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

bool is_name_sign(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

using Whole = std::optional<std::int64_t>;

/// Left and right joined by one of + - * / %; nothing where it has no whole value in 64 bits.
Whole apply(char sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (sign) {
    case '+':
      return __builtin_add_overflow(left, right, &result) ? Whole() : result;
    case '-':
      return __builtin_sub_overflow(left, right, &result) ? Whole() : result;
    case '*':
      return __builtin_mul_overflow(left, right, &result) ? Whole() : result;
    default:
      break;
  }
  // -2^63 / -1 leaves 64 bits, and languages round negative quotients differently.
  if (right <= 0 || left < 0) return std::nullopt;
  return sign == '/' ? left / right : left % right;
}

class Expression {
 public:
  Expression(std::string_view text, const ValueOfName& names) : text_(text), names_(names) {}

  Whole whole() {
    const Whole value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  static constexpr int kMostNested = 64;

  Whole sum(int depth) {
    Whole value = product(depth);
    for (skip(); value && next_is("+-"); skip()) {
      const char sign = text_[at_++];
      const Whole right = product(depth);
      value = right ? apply(sign, *value, *right) : std::nullopt;
    }
    return value;
  }

  Whole product(int depth) {
    Whole value = atom(depth);
    for (skip(); value && next_is("*/%"); skip()) {
      const char sign = text_[at_++];
      if (sign == '/' && next_is("/")) ++at_;
      const Whole right = atom(depth);
      value = right ? apply(sign, *value, *right) : std::nullopt;
    }
    return value;
  }

  Whole atom(int depth) {
    skip();
    if (depth > kMostNested) return std::nullopt;
    if (next_is("(")) {
      ++at_;
      const Whole value = sum(depth + 1);
      skip();
      if (!next_is(")")) return std::nullopt;
      ++at_;
      return value;
    }
    if (next_is("$")) ++at_;
    const bool braced = next_is("{");
    if (braced) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_sign(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (braced && !next_is("}")) return std::nullopt;
    if (braced) ++at_;
    if (word.empty()) return std::nullopt;
    return word.front() >= '0' && word.front() <= '9' ? integer_of(word) : names_(word);
  }

  [[nodiscard]] bool next_is(std::string_view signs) const {
    return at_ < text_.size() && signs.find(text_[at_]) != std::string_view::npos;
  }
  void skip() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }

  std::string_view text_;
  const ValueOfName& names_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_whole(std::string_view expression, const ValueOfName& names) {
  return Expression(expression, names).whole();
}

}  // namespace memest
