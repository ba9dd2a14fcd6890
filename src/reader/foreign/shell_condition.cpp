#include "reader/foreign/shell_condition.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

struct WholeTest {
  std::string_view op;
  bool (*holds)(std::int64_t, std::int64_t);
};
constexpr WholeTest kWholeTests[] = {
    {"-eq", [](std::int64_t a, std::int64_t b) { return a == b; }},
    {"-ne", [](std::int64_t a, std::int64_t b) { return a != b; }},
    {"-gt", [](std::int64_t a, std::int64_t b) { return a > b; }},
    {"-ge", [](std::int64_t a, std::int64_t b) { return a >= b; }},
    {"-lt", [](std::int64_t a, std::int64_t b) { return a < b; }},
    {"-le", [](std::int64_t a, std::int64_t b) { return a <= b; }},
};

}  // namespace

std::optional<bool> judge_condition(const std::vector<ExpandedWord>& words) {
  std::vector<ExpandedWord> test;
  for (const ExpandedWord& word : words) {
    if (word.text != "[" && word.text != "]" && word.text != "[[" && word.text != "]]") {
      test.push_back(word);
    }
  }
  if (words.empty() || (words[0].text != "[" && words[0].text != "[[")) return std::nullopt;
  bool wanted = true;
  if (!test.empty() && test[0].text == "!") {
    wanted = false;
    test.erase(test.begin());
  }
  if (std::ranges::any_of(test, &ExpandedWord::unknown)) return std::nullopt;
  if (test.size() == 1 && test[0].text == "-z") return wanted;  // -z of an unset variable
  if (test.size() == 1 && test[0].text == "-n") return !wanted;
  if (test.size() == 2 && test[0].text == "-z") return test[1].text.empty() == wanted;
  if (test.size() == 2 && test[0].text == "-n") return !test[1].text.empty() == wanted;
  if (test.size() != 3) return std::nullopt;
  const std::string& op = test[1].text;
  const std::string& left = test[0].text;
  const std::string& right = test[2].text;
  if (op == "=" || op == "==") return (left == right) == wanted;
  if (op == "!=") return (left != right) == wanted;
  const auto a = integer_of(left);
  const auto b = integer_of(right);
  const auto* const row = std::ranges::find(kWholeTests, op, &WholeTest::op);
  if (!a || !b || row == std::end(kWholeTests)) return std::nullopt;
  return row->holds(*a, *b) == wanted;
}

}  // namespace memest
