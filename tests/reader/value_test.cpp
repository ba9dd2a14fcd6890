#include "reader/text/value.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

namespace memest {
namespace {

std::shared_ptr<const SourceText> text_of(std::string text) {
  return std::make_shared<const SourceText>(SourceText{"a.yaml", std::move(text)});
}

/// `line:column+length message` of the first diagnostic; "ok" for a value.
std::string first_error(const Checked<Value>& result) {
  if (result.ok()) return "ok";
  const Diagnostic& first = result.diagnostics().front();
  return std::to_string(first.span.line) + ":" + std::to_string(first.span.column) + "+" +
         std::to_string(first.span.length) + " " + first.message;
}
std::string yaml_error(std::string text) { return first_error(parse_yaml(text_of(text))); }
std::string json_error(std::string text) { return first_error(parse_json(text_of(text))); }

std::string place(const SourceSpan& span) {
  return std::to_string(span.line) + ":" + std::to_string(span.column) + "+" +
         std::to_string(span.length);
}

std::string repeated(const std::string& piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

}  // namespace

TEST_CASE("a YAML tree knows the place of every token") {
  const Checked<Value> result = parse_yaml(text_of(
      "# a comment\nmodel:\n  heads: 010\n  name: 'a # b'\nlist: [1, {two: null}]\nempty:\n"));
  REQUIRE(result.ok());
  const Value& root = result.value();
  const Value& model = *root.find("model");
  CHECK(place(root.members[0].key_span) == "2:1+5");
  CHECK(place(model.span) == "3:3+5");
  CHECK(model.find("heads")->text == "010");
  CHECK(place(model.find("heads")->span) == "3:10+3");
  CHECK(model.find("name")->quoted);
  CHECK(model.find("name")->text == "a # b");
  CHECK(place(model.find("name")->span) == "4:9+7");
  const Value& list = *root.find("list");
  CHECK(place(list.span) == "5:7+1");
  CHECK(place(list.items[1].span) == "5:11+1");
  CHECK(list.items[1].find("two")->kind == ValueKind::null);
  CHECK(place(list.items[1].find("two")->span) == "5:17+4");
  CHECK(root.find("empty")->kind == ValueKind::null);
  CHECK(place(root.find("empty")->span) == "6:1+5");
  CHECK(root.find("absent") == nullptr);
}

TEST_CASE("what anchors within anchors keep is bounded") {
  std::string text = "a: ";
  for (int i = 0; i < 20; ++i) text += "&x" + std::to_string(i) + " [";
  text += repeated("1, ", 6000) + repeated("]", 20) + "\n";
  CHECK(yaml_error(text).ends_with(" the anchors hold more than 100000 values"));
}

TEST_CASE("every duplicate key of forty thousand is told, with the line of the first") {
  const Checked<Value> result = parse_yaml(text_of("{" + repeated("a: 1, ", 39999) + "a: 1}"));
  REQUIRE(result.diagnostics().size() == 39999);
  CHECK(result.diagnostics().back().hint == "it is first set in line 1");
}

TEST_CASE("an alias has the value and the place of its anchor") {
  const Checked<Value> result = parse_yaml(text_of("a: &x {n: 1}\nb: *x\nc: &y 12\nd: *y\n"));
  REQUIRE(result.ok());
  CHECK(place(result.value().find("b")->find("n")->span) == "1:11+1");
  CHECK(place(result.value().find("d")->span) == "3:7+2");
}

TEST_CASE("what YAML may not hold is refused at its place") {
  CHECK(yaml_error("") == "0:0+0 the file is empty");
  CHECK(yaml_error("  \n\n") == "0:0+0 the file is empty");
  CHECK(yaml_error("# only this\n") == "0:0+0 the file holds comments only");
  CHECK(yaml_error(std::string("a: \0b", 5)) == "0:0+0 this is a binary file, not text");
  CHECK(yaml_error("a: b\xff\n") == "1:5+0 this is not UTF-8 text");
  CHECK(yaml_error("a: \xed\xa0\x80\n") == "1:4+0 this is not UTF-8 text");
  CHECK(yaml_error("a:\n\tb: 1\n") == "2:1+1 a tab as indentation");
  CHECK(yaml_error("a:\n  \tb: 1\n") == "2:3+1 a tab as indentation");
  CHECK(yaml_error("a: 1\nb: 2\na: 3\n") == "3:1+1 duplicate key 'a'");
  CHECK(yaml_error("a: 1\n---\nb: 2\n") == "2:1+0 a second document begins here");
  CHECK(yaml_error("a: &x [*x]\n") == "1:8+2 an anchor that contains itself");
  CHECK(yaml_error("a: !!int 3\n") == "1:4+5 tags are not supported");
  CHECK(yaml_error("a: &x {b: 1}\nc: {<<: *x}\n") == "2:5+2 merge keys are not supported");
  CHECK(yaml_error("[a]: 1\n").find("a key must be a word") != std::string::npos);
  CHECK(yaml_error("a: [1, 2\n").find("this is not YAML") != std::string::npos);
  CHECK(yaml_error("a: b: c\n").find("1:5+1 this is not YAML") == 0);
  CHECK(yaml_error("a: *nowhere\n").find("1:4+1 this is not YAML") == 0);
}

TEST_CASE("every duplicate of a text is told in one run") {
  const Checked<Value> result = parse_yaml(text_of("a: 1\na: 2\nb: {c: 1, c: {d: 2}}\n"));
  REQUIRE_FALSE(result.ok());
  REQUIRE(result.diagnostics().size() == 2);
  CHECK(result.diagnostics()[1].hint == "it is first set in line 3");
}

TEST_CASE("towers, bombs and giants end in one sentence") {
  const std::string depth = "nested more than 64 levels deep";
  CHECK(yaml_error(repeated("[", 10'000)).find(depth) != std::string::npos);
  CHECK(yaml_error(repeated("[", 100) + repeated("]", 100)).find(depth) != std::string::npos);
  CHECK(yaml_error(repeated("- ", 10'000) + "a\n").find(depth) != std::string::npos);
  CHECK(json_error(repeated("[", 10'000)).find(depth) != std::string::npos);
  CHECK(json_error(repeated("{\"a\":", 10'000)).find(depth) != std::string::npos);
  CHECK(yaml_error(repeated("[", 64) + repeated("]", 64)) == "ok");
  CHECK(json_error(repeated("[", 64) + repeated("]", 64)) == "ok");

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    const std::string alias = "*a" + std::to_string(level - 1);
    bomb += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [" + alias +
            repeated(", " + alias, 9) + "]\n";
  }
  CHECK(yaml_error(bomb).find("more than 100000 values") != std::string::npos);
  const std::string fat = "a: &a " + repeated("x", 1'000'000) + "\nb: [*a, *a, *a, *a, *a]\n";
  CHECK(yaml_error(fat).find("2:17+2 more than") == 0);
  CHECK(yaml_error(repeated("#", 5'000'000)) == "0:0+0 the text is larger than 4 MiB");
  CHECK(json_error("[" + repeated("1,", 100'001) + "1]").find("more than 100000 values") !=
        std::string::npos);
}

TEST_CASE("JSON is read as RFC 8259 has it, and nothing beyond") {
  const Checked<Value> result = parse_json(
      text_of("{\n \"a\": [1, -2.5e+3, true, null],\n \"b\\u00e9\\n\": \"\\ud83d\\ude00\"}"));
  REQUIRE(result.ok());
  const Value& root = result.value();
  CHECK(place(root.members[0].key_span) == "2:2+3");
  CHECK(root.find("a")->items[1].text == "-2.5e+3");
  CHECK(place(root.find("a")->items[1].span) == "2:11+7");
  CHECK(root.find("a")->items[3].kind == ValueKind::null);
  CHECK(root.find("b\xc3\xa9\n")->text == "\xf0\x9f\x98\x80");
  CHECK(root.find("b\xc3\xa9\n")->quoted);

  for (const char* good : {"0", "-0", "1E9", "\"\"", "[]", "{}", " true ", "[[],{}]"}) {
    INFO(good);
    CHECK(json_error(good) == "ok");
  }
  for (const char* bad : {"01",
                          "-",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "[1,]",
                          "{\"a\":1,}",
                          "{a: 1}",
                          "{\"a\" 1}",
                          "[1 2]",
                          "'a'",
                          "nul",
                          "tru e",
                          "NaN",
                          "\"\\x\"",
                          "\"\\u12g4\"",
                          "\"\\ud800\"",
                          "\"\\udc00\"",
                          "\"a\nb\"",
                          "\"a\tb\"",
                          "\"open",
                          "[",
                          "{",
                          "{\"a\"",
                          "{\"a\":",
                          "[1",
                          "1 2",
                          "// c\n1",
                          "\xef\xbb\xbf{}",
                          "{\"a\":1,\"a\":2}",
                          "--1",
                          "[,1]",
                          "\"\\"}) {
    INFO(bad);
    CHECK(json_error(bad) != "ok");
  }
  CHECK(json_error("{\"a\": 1,\n \"a\": 2}") == "2:2+3 duplicate key 'a'");
  CHECK(json_error("{\"rope_theta\": 010}") == "1:16+3 a number with leading zeros");
  CHECK(json_error("[1,\n2,]") == "2:2+1 a comma before the closing bracket");
}

}  // namespace memest
