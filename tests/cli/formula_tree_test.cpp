// The formulas of `memest explain --format json` as trees: a program that knows nothing of memest
// evaluates and prints them, and gets the value and the text.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "memest/units/int128.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using nlohmann::json;

/// An exact value, the denominator positive.
struct Ratio {
  Int128 above = 0;
  Int128 below = 1;
};

Ratio plus(Ratio left, Ratio right) {
  if (left.below == right.below) return {left.above + right.above, left.below};
  return {left.above * right.below + right.above * left.below, left.below * right.below};
}

Ratio times(Ratio left, Ratio right) {
  return {left.above * right.above, left.below * right.below};
}

Ratio value_of(const json& tree) {
  if (tree.contains("number")) return {tree["number"].get<std::int64_t>()};
  if (tree.contains("value")) return {static_cast<Int128>(tree["value"].get<std::uint64_t>())};
  const std::string op = tree["op"];
  const json& of = tree["of"];
  Ratio result = value_of(of[0]);
  if (op == "negative") return {-result.above, result.below};
  if (op == "quotient") return times(result, {value_of(of[1]).below, value_of(of[1]).above});
  if (op == "ceiling") {
    const Int128 whole = result.above / result.below;
    return {result.above % result.below > 0 ? whole + 1 : whole};
  }
  if (op == "power") {
    Ratio power{1};
    for (std::int64_t i = 0; i < of[1]["number"]; ++i) power = times(power, result);
    return power;
  }
  for (std::size_t i = 1; i < of.size(); ++i) {
    result = op == "sum" ? plus(result, value_of(of[i])) : times(result, value_of(of[i]));
  }
  return result;
}

std::string op_of(const json& tree) { return tree.value("op", ""); }

std::string superscript(std::int64_t power) {
  const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char digit : std::to_string(power)) text += digits[digit - '0'];
  return text;
}

std::string text_of_tree(const json& tree) {
  if (tree.contains("number")) return std::to_string(tree["number"].get<std::int64_t>());
  if (tree.contains("letter")) return tree["letter"];
  if (tree.contains("name")) return tree["name"];
  const json& of = tree["of"];
  const std::string op = op_of(tree);
  const std::string first = text_of_tree(of[0]);
  if (op == "ceiling") return first;
  if (op == "negative") return "-" + first;
  if (op == "power") return first + superscript(of[1]["number"]);
  if (op == "quotient") {
    const std::string below = text_of_tree(of[1]);
    return first + (op_of(of[1]) == "product" ? "/(" + below + ")" : "/" + below);
  }
  std::string text;
  for (const json& part : of) {
    const bool is_less = op == "sum" && op_of(part) == "negative" && !text.empty();
    if (!text.empty()) text += op == "product" ? "·" : is_less ? " - " : " + ";
    const std::string word = text_of_tree(is_less ? part["of"][0] : part);
    text += op == "product" && op_of(part) == "sum" ? "(" + word + ")" : word;
  }
  return text;
}

TEST_CASE("a tree's value is the number, and its text is the formula") {
  const std::string command = GENERATE(
      "gpt2", "llama-3-8b --gpu h100 --gpus 8 --set parallelism.zero=2", "gemma-2-9b", "resnet-50",
      "mixtral-8x7b --gpu h100 --gpus 8 --set parallelism.tensor=8 --set parallelism.data=1 "
      "--set training.implementation=megatron --set training.precision=megatron "
      "--set parallelism.sequence=true",
      "llama-3-8b --set training.implementation=textbook --set training.recompute=full "
      "--set training.seq_len=1000");
  const Ran ran = run_shell("memest explain " + command + " --format json");
  INFO(command << "\n" << ran.err);
  const json answer = json::parse(ran.out);
  std::size_t trees = 0;
  for (const json& number : answer["numbers"]) {
    const json& tree = number["tree"];
    if (tree.is_null()) {
      CHECK(number["tree_unavailable"] == "the formula is words");
      continue;
    }
    INFO(number.dump(2));
    ++trees;
    const Ratio value = value_of(tree);
    CHECK(value.above % value.below == 0);
    if (!number["value"].is_null()) {
      CHECK(value.above / value.below == static_cast<Int128>(number["value"].get<std::uint64_t>()));
    }
    // The rule of a count stands behind a colon.
    const std::string formula = number["formula"];
    const std::string text = text_of_tree(tree);
    CHECK((formula == text || formula.starts_with(text + ": ")));
  }
  CHECK(trees >= 5);
}

}  // namespace
}  // namespace memest
