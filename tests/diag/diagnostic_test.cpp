#include "memest/diag/diagnostic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

namespace memest {
namespace {

const std::vector<std::string> kKeys = {"hidden_size", "heads", "head_dim", "layers"};

TEST_CASE("a slip finds the name that was meant") {
  CHECK(nearest_name("hiden_size", kKeys) == "hidden_size");
  CHECK(nearest_name("head", kKeys) == "heads");
  CHECK(nearest_name("layer", kKeys) == "layers");
  CHECK(nearest_name("haeds", kKeys) == "heads");
}

TEST_CASE("two swapped letters are one slip") {
  CHECK(nearest_name("plna", {"explain", "plan"}) == "plan");
  CHECK(nearest_name("--gpsu", {"--gpu", "--gpus"}) == "--gpu");
}

TEST_CASE("a word far from every name suggests nothing") {
  CHECK(nearest_name("colour", kKeys).empty());
  CHECK(nearest_name("", kKeys).empty());
}

TEST_CASE("a failed Checked has diagnostics and no value") {
  const Checked<int> failed(Diagnostic{Severity::error, {}, "no", ""});
  CHECK_FALSE(failed.ok());
  CHECK(failed.diagnostics().size() == 1);
  CHECK_THROWS_AS(failed.value(), InternalError);
  CHECK_THROWS_AS(Checked<int>(Diagnostics{}), InternalError);
}

TEST_CASE("a value may carry warnings") {
  const Checked<int> value(7, {Diagnostic{Severity::warning, {}, "old key", ""}});
  CHECK(value.ok());
  CHECK(value.value() == 7);
  CHECK(value.diagnostics().size() == 1);
}

TEST_CASE("a broken expectation names its sentence and file, without folders") {
  using Catch::Matchers::ContainsSubstring;
  using Catch::Matchers::MessageMatches;
  CHECK_THROWS_MATCHES(
      expect(false, "layers are counted once"), InternalError,
      MessageMatches(ContainsSubstring("layers are counted once (diagnostic_test.cpp:")));
}

}  // namespace
}  // namespace memest
