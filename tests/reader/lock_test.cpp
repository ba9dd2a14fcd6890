#include "memest/reader/lock.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "../draws.hpp"

namespace memest {
namespace {

std::shared_ptr<const SourceText> source_of(std::string text) {
  return std::make_shared<const SourceText>(SourceText{"memest.lock", std::move(text)});
}

/// `line:column message` of every mistake, a line each.
std::string mistakes_of(const std::string& text) {
  const Checked<Lock> lock = read_lock(source_of(text));
  std::string result;
  for (const Diagnostic& one : lock.diagnostics()) {
    result += std::to_string(one.span.line) + ":" + std::to_string(one.span.column) + " " +
              one.message + "\n";
  }
  return result;
}

/// Words that YAML, a path or a ledger may trip over.
std::string drawn_word(test::Draws& draws) {
  return draws.one_of<std::string>("device", "optimizer states: exp_avg, exp_avg_sq", "null",
                                   "true", "010", "~", "- a", "a #b", "\"quoted\" \\ back",
                                   "configs/über.yaml", "{}", "[0]", "x\ty", "74 GiB", " lead",
                                   "trail ", "a: b", "*star", "&and", "<<", "50 %", "-1", "");
}

std::string drawn_name(test::Draws& draws, std::size_t i) {
  return drawn_word(draws) + " " + std::to_string(i);
}

LockedValue drawn_value(test::Draws& draws) {
  const auto large = static_cast<std::int64_t>(draws.below(1U << 31U)) << draws.below(32);
  switch (draws.below(5)) {
    case 0:
      return large;
    case 1:
      return Bytes(large);
    case 2:
      return Flops(Int128{large} * large);
    case 3:
      return Seconds(draws.share() * draws.one_of(1e-9, 1.0, 1e9));
    default:
      return Dollars(draws.share() * 1e6);
  }
}

LockedSpec drawn_spec(test::Draws& draws) {
  LockedSpec spec;
  const auto times = [&](auto make) {
    for (std::size_t i = draws.below(4); i-- > 0;) make(i);
  };
  times([&](std::size_t i) { spec.rests_on.push_back({drawn_name(draws, i), drawn_word(draws)}); });
  times([&](std::size_t i) { spec.keys.push_back({drawn_name(draws, i), drawn_word(draws), {}}); });
  times([&](std::size_t i) { spec.figures.push_back({drawn_name(draws, i), drawn_value(draws)}); });
  times([&](std::size_t i) { spec.terms.push_back({drawn_name(draws, i), drawn_value(draws)}); });
  return spec;
}

constexpr const char* kEmptySpec = "rests_on: {}, keys: {}, figures: {}, terms: {}";

}  // namespace

TEST_CASE("a lock that is read gives back what was written") {
  test::Draws draws(18);
  for (int drawn = 0; drawn < 300; ++drawn) {
    Lock lock;
    lock.tolerance = draws.one_of(0.01, 0.05, 0.001, 0.0);
    for (std::size_t i = draws.below(3); i-- > 0;) {
      lock.specs.emplace(drawn_name(draws, i), drawn_spec(draws));
    }
    const std::string text = write_lock(lock);
    INFO(text);
    const Checked<Lock> read = read_lock(source_of(text));
    REQUIRE(read.ok());
    CHECK(read.value().tolerance == lock.tolerance);
    CHECK(read.value().specs.size() == lock.specs.size());
    for (const auto& [path, spec] : lock.specs) {
      REQUIRE(read.value().specs.contains(path));
      const LockedSpec& again = read.value().specs.at(path);
      CHECK(again.figures == spec.figures);
      CHECK(again.terms == spec.terms);
      CHECK(again.rests_on == spec.rests_on);
    }
    // The keys too, and the order of everything.
    CHECK(write_lock(read.value()) == text);
  }
}

TEST_CASE("a lock has a figure a line") {
  Lock lock;
  LockedSpec& spec = lock.specs["configs/a.yaml"];
  spec.rests_on = {{"memest", "0.1.0"}, {"gpu h100-sxm-80gb", "9a3cf1e2"}};
  spec.keys = {{"model", "gpt2", {}}, {"hardware.memory", "80 GiB", {}}};
  spec.figures = {{"device", Bytes(std::int64_t{7})}, {"step", Seconds(0.5)}};
  spec.terms = {{"weights (bf16)", Bytes(std::int64_t{3})}};
  const std::string text = write_lock(lock);
  CHECK(text.substr(text.find("format")) ==
        "format: 1\n"
        "tolerance: 1 %\n"
        "specs:\n"
        "  configs/a.yaml:\n"
        "    rests_on:\n"
        "      memest: 0.1.0\n"
        "      gpu h100-sxm-80gb: 9a3cf1e2\n"
        "    keys:\n"
        "      model: gpt2\n"
        "      hardware.memory: 80 GiB\n"
        "    figures:\n"
        "      device: 7 B\n"
        "      step: 0.5 s\n"
        "    terms:\n"
        "      \"weights (bf16)\": 3 B\n");
}

TEST_CASE("a lock that somebody edited wrongly is told where") {
  const std::string head = "format: 1\nspecs:\n  a.yaml: {";
  CHECK(mistakes_of(head + kEmptySpec + "}\n") == "");
  CHECK(mistakes_of(head + "rests_on: {}, keys: {}, figures: {device: 7 GiB}, terms: {}}\n") ==
        "3:54 no figure: '7 GiB'\n");
  CHECK(mistakes_of(head + "rests_on: {}, keys: {}, figures: {device: [7]}, terms: {}}\n") ==
        "3:54 one word is missing here\n");
  CHECK(mistakes_of("format: 1\nspecs: {a.yaml: 7}\n") == "2:17 a locked spec is a mapping\n");
  CHECK(mistakes_of("format: 2\nspecs: {}\n") ==
        "1:9 this is a lock of format 2; this memest reads 1\n");
  CHECK(mistakes_of("format: 1\ntolerence: 2 %\nspecs: {}\n") == "2:1 unknown key 'tolerence'\n");
  CHECK(mistakes_of("format: 1\ntolerance: 2\nspecs: {}\n") == "2:12 a share needs its unit\n");
  CHECK(mistakes_of("format: 1\nspecs: {}\n<<<<<<< HEAD\n") ==
        "3:1 a merge conflict begins here\n");
  CHECK(mistakes_of("- 1\n") == "1:1 a lock is a mapping of keys\n");
}

TEST_CASE("a lock holds more specs than a spec may have values") {
  Lock lock;
  LockedSpec spec;
  for (int i = 0; i < 100; ++i) {
    spec.terms.push_back({"term " + std::to_string(i), Bytes(std::int64_t{i})});
  }
  for (int i = 0; i < 1000; ++i) lock.specs.emplace(std::to_string(i) + ".yaml", spec);
  const Checked<Lock> read = read_lock(source_of(write_lock(lock)));
  REQUIRE(read.ok());
  CHECK(read.value().specs.size() == 1000);
}

}  // namespace memest
