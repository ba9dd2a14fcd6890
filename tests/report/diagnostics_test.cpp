#include "memest/report/diagnostics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>

#include "memest/report/display.hpp"

namespace memest {
namespace {

std::shared_ptr<const SourceText> source(std::string text) {
  return std::make_shared<const SourceText>(SourceText{"bad.yaml", std::move(text)});
}

Diagnostic at(std::shared_ptr<const SourceText> text, std::int32_t line, std::int32_t column,
              std::int32_t length) {
  return {Severity::error, {std::move(text), line, column, length}, "no such thing", ""};
}

TEST_CASE("an error shows its line, carets under the token, and the hint") {
  Diagnostic error = at(source("model:\n  layers: 32\n  hiden_size: 4096\n"), 3, 3, 10);
  error.message = "unknown key 'hiden_size'";
  error.hint = "did you mean 'hidden_size'?";
  CHECK(render({error}, {}) ==
        "bad.yaml:3:3: error: unknown key 'hiden_size'\n"
        "  3 |   hiden_size: 4096\n"
        "    |   ^~~~~~~~~~\n"
        "    = hint: did you mean 'hidden_size'?\n");
}

TEST_CASE("without a source there is no excerpt, without a line no line number") {
  CHECK(render({{Severity::error, {}, "sizes overflow", ""}}, {}) == "error: sizes overflow\n");
  CHECK(
      render({{Severity::warning, {source("x"), 0, 0, 0}, "the file is empty", "run memest init"}},
             {}) == "bad.yaml: warning: the file is empty\n    = hint: run memest init\n");
}

TEST_CASE("of each text the first hundred are shown, and how many more there are") {
  const auto text = source("a: ");
  const Diagnostics many(150, at(text, 1, 1, 1));
  const std::string out = render(many, {});
  CHECK(out.ends_with("bad.yaml: note: 50 more like these are not shown\n"));
  std::size_t shown = 0;
  for (auto found = out.find("no such thing"); found != std::string::npos;
       found = out.find("no such thing", found + 1)) {
    ++shown;
  }
  CHECK(shown == kMostOfAText);
  const Diagnostics few(100, at(text, 1, 1, 1));
  CHECK(render(few, {}).find("not shown") == std::string::npos);
}

TEST_CASE("a token of length zero, or past the end of its line, gets one caret") {
  CHECK(render({at(source("a: "), 1, 4, 0)}, {}) ==
        "bad.yaml:1:4: error: no such thing\n  1 | a: \n    |    ^\n");
  CHECK(render({at(source("a:\r\nb: 1"), 1, 9, 5)}, {}) ==
        "bad.yaml:1:9: error: no such thing\n  1 | a:\n    |   ^\n");
}

TEST_CASE(
    "carets stand under their characters after tabs and UTF-8, and count columns, not bytes") {
  CHECK(render({at(source("\tΦé: größe"), 1, 8, 7)}, {}) ==
        "bad.yaml:1:8: error: no such thing\n"
        "  1 |     Φé: größe\n"
        "    |         ^~~~~\n");
  CHECK(render({at(source("名: x"), 1, 6, 1)}, {}) ==
        "bad.yaml:1:6: error: no such thing\n  1 | 名: x\n    |     ^\n");
}

TEST_CASE("nothing of the source reaches the terminal raw") {
  Diagnostic error = at(source("a\x1b[31m: \xff\u202e!"), 1, 9, 1);
  error.message = "bad \x07 key";
  const std::string text = render({error}, {});
  CHECK(text ==
        "bad.yaml:1:9: error: bad \\x07 key\n"
        "  1 | a\\x1b[31m: \\xff\\u{202e}!\n"
        "    |            ^~~~\n");
}

TEST_CASE("without UTF-8 the excerpt is ASCII and the carets still stand right") {
  RenderOptions ascii;
  ascii.unicode = false;
  CHECK(render({at(source("Φ: ö x"), 1, 8, 1)}, ascii) ==
        "bad.yaml:1:8: error: no such thing\n  1 | Phi: ? x\n    |        ^\n");
}

TEST_CASE("long lines are cut around the token and every line fits") {
  const std::string line = std::string(500, 'a') + "TOKEN" + std::string(5'000'000, 'b');
  for (const std::int32_t column : {1, 50, 95, 501, 505, 100'000, 5'000'505}) {
    Diagnostic error = at(source(line), 1, column, 5);
    error.message = std::string(80, 'm') + " and " + std::string(60, 'n');
    error.hint = "one of " + std::string(70, 'p') + ", " + std::string(70, 'q');
    std::istringstream lines(render({error}, {}));
    std::string excerpt;
    for (std::string text; std::getline(lines, text);) {
      CHECK(display_width(text) <= kTextColumns);
      const std::size_t caret = text.find('^');
      if (caret != std::string::npos && column == 501) CHECK(excerpt.substr(caret, 5) == "TOKEN");
      excerpt = text;
    }
  }
}

TEST_CASE("a token longer than the window is underlined as far as it is seen") {
  const std::string text = render({at(source("key: " + std::string(300, 'x')), 1, 6, 300)}, {});
  std::istringstream lines(text);
  std::string head, excerpt, carets;
  std::getline(lines, head);
  std::getline(lines, excerpt);
  std::getline(lines, carets);
  CHECK(excerpt.substr(0, 11) == "  1 | key: ");
  CHECK(excerpt.substr(excerpt.size() - 3) == "...");
  CHECK(carets.size() == excerpt.size() - 3);
}

TEST_CASE("colour changes no character") {
  Diagnostic error = at(source("a: 1"), 1, 1, 1);
  error.hint = "try b";
  RenderOptions color;
  color.color = true;
  std::string text = render({error}, color);
  CHECK(text.find("\x1b[1;31m") != std::string::npos);
  for (std::size_t at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
    text.erase(at, text.find('m', at) - at + 1);
  }
  CHECK(text == render({error}, {}));
}

}  // namespace
}  // namespace memest
