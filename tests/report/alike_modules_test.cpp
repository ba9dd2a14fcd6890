// Modules that are alike as one row.
#include "report/record/alike_modules.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace memest {
namespace {

/// Modules, each of a class and with a value.
using Named = std::vector<std::pair<RecordedModule, std::int64_t>>;

std::vector<std::string> rows_of(const Named& named) {
  std::vector<NumberedModule> modules;
  for (const auto& [module, value] : named) modules.push_back({module, value});
  std::vector<std::string> rows;
  for (const AlikeModules& alike : alike_modules(modules)) rows.push_back(alike.name);
  return rows;
}

TEST_CASE("layers of a list whose modules are alike are one row") {
  const Named named = {{{"MLP", "h.0.mlp"}, 1}, {{"Norm", "h.0.norm"}, 1}, {{"MLP", "h.1.mlp"}, 1},
                       {{"MLP", "h.2.mlp"}, 1}, {{"MLP", "h.4.mlp"}, 1},   {{"MLP", "h.3.mlp"}, 2},
                       {{"Head", "head"}, 1}};
  CHECK(rows_of(named) == std::vector<std::string>{"h.0..2,4.mlp", "h.0.norm", "h.3.mlp", "head"});
}

TEST_CASE("parts of a sequence that are of several classes are not alike") {
  const Named named = {{{"Linear", "0"}, 1}, {{"GELU", "1"}, 1}, {{"Linear", "2"}, 1}};
  CHECK(rows_of(named) == std::vector<std::string>{"0,2", "1"});
}

TEST_CASE("lists within lists are one row, and each module is in one") {
  Named named;
  for (int layer = 0; layer < 3; ++layer) {
    for (int expert = 0; expert < 8; ++expert) {
      named.push_back({{"Expert", "layers." + std::to_string(layer) + ".experts." +
                                      std::to_string(expert) + ".w1"},
                       1});
    }
  }
  std::vector<NumberedModule> modules;
  for (const auto& [module, value] : named) modules.push_back({module, value});
  const std::vector<AlikeModules> rows = alike_modules(modules);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].name == "layers.0..2.experts.0..7.w1");
  CHECK(std::set(rows[0].members.begin(), rows[0].members.end()).size() == named.size());
}

}  // namespace
}  // namespace memest
