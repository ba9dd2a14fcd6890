#include "memest/reader/family_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

const std::string kFamily = R"(# allocator trace family 1
# total: 1000000000
# context: 500000
# conf: expandable_segments:True
# torch: 2.11.0+cu130
# rank: 3 of 8
# varied: batch=2,3,5
# varied: seq=512,640,896
# recorded: batch=2 seq=512
# recorded: batch=5 seq=896
# held out: batch=3 seq=640
p 0 train.py:3 <module>
@ 0
a 0 4096 0
p 1
@ 1
a 1 (3*batch*seq^2-16*seq)/4 1
@ 0
a 2 4096 0
= step1.forward
q 1
f 1
e
r
f 0
)";

Checked<RecordedFamily> read_text(const std::string& text) {
  return read_family(std::make_shared<const SourceText>(SourceText{"t.memrec", text}));
}

/// The family above with a line in the place of another.
std::string first_error(const std::string& line, const std::string& other) {
  std::string text = kFamily;
  const std::size_t at = text.find(line + "\n");
  REQUIRE(at != std::string::npos);
  text.replace(at, line.size(), other);
  const Checked<RecordedFamily> read = read_text(text);
  return read.ok() ? "ok" : render(read.diagnostics(), {});
}

TEST_CASE("a family is read as it is written") {
  const Checked<RecordedFamily> read = read_text(kFamily);
  REQUIRE(read.ok());
  const RecordedFamily& family = read.value();
  CHECK(family.names() == std::vector<std::string>{"batch", "seq"});
  CHECK(family.fitted == std::vector<SizePoint>{{2, 512}, {5, 896}});
  CHECK(family.held_out == SizePoint{3, 640});
  CHECK(family.torch == "2.11.0+cu130");
  CHECK(family.rank == "3 of 8");
  CHECK(family.trace.allocations == 3);
  CHECK(family.trace.settings.expandable_segments);
  CHECK(family.formulas.size() == 2);
  CHECK(family.formula_of == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(family.formulas[1].evaluate({2, 512}) == 3 * 2 * 512 * 512 / 4 - 4 * 512);
  CHECK(write_family(family) == kFamily);
}

TEST_CASE("formulas are of the names, exact, and nothing else") {
  const std::vector<std::string> names{"batch", "seq"};
  for (const char* text : {"512", "batch", "3*batch*seq^2+seq-7", "-batch+9", "(batch+1)/3"}) {
    const auto formula = parse_formula(text, names);
    REQUIRE(formula.has_value());
    CHECK(formula->text(names) == text);
  }
  CHECK(parse_formula("2*batch*3", names) == std::nullopt);
  for (const char* text :
       {"", "+3", "3*", "3batch", "batch seq", "width", "batch^", "batch^10", "batch^9*batch", "(batch", "(batch)/0",
        "(batch)", "batch/2", "3+", "0x10", "1.5", "99999999999999999999"}) {
    INFO(text);
    CHECK(parse_formula(text, names) == std::nullopt);
  }
}

TEST_CASE("what is varied is a name and whole numbers") {
  CHECK(parse_varied("batch=5,2").value().values == std::vector<std::int64_t>{5, 2});
  CHECK(parse_varied("_b1=1").value().name == "_b1");
  for (const char* text : {"", "batch", "batch=", "batch=1,", "batch=0", "batch=-1", "1b=2",
                           "batch=1.5", "ba tch=1", "batch=1 ", "batch=1099511627777"}) {
    INFO(text);
    CHECK(parse_varied(text) == std::nullopt);
  }
  CHECK(parse_size_value("batch=2,3") == std::nullopt);
  CHECK(parse_size_value("batch=2") == std::pair<std::string, std::int64_t>("batch", 2));
}

TEST_CASE("mistakes in a family are told at their place") {
  CHECK(first_error("a 0 4096 0", "a 0 4*width 0") ==
        "t.memrec:14:5: error: expected a size in bytes or a formula of batch and seq, not "
        "'4*width'\n 14 | a 0 4*width 0\n    |     ^~~~~~~\n");
  // Columns behind a formula are those of the file.
  CHECK(first_error("a 1 (3*batch*seq^2-16*seq)/4 1", "a 1 (3*batch*seq^2-16*seq)/4 x") ==
        "t.memrec:17:30: error: expected the number of a stream, not 'x'\n 17 | a 1 "
        "(3*batch*seq^2-16*seq)/4 x\n    |                              ^\n");
  CHECK(first_error("# held out: batch=3 seq=640", "#").find("does not say at which sizes") !=
        std::string::npos);
  CHECK(first_error("# recorded: batch=2 seq=512", "# recorded: seq=512 batch=2")
            .find("a point has a value of every size") != std::string::npos);
  CHECK(first_error("# varied: seq=512,640,896", "# varied: seq=640,512,896")
            .find("whole numbers that ascend") != std::string::npos);
  CHECK(first_error("# varied: seq=512,640,896", "# varied: batch=512,640")
            .find("'batch' is varied twice") != std::string::npos);
  CHECK(first_error("r", "o 512 0").find("no requests that failed") != std::string::npos);
  CHECK(first_error("f 0", "\ta 3").find("'a' is written a ID SIZE STREAM") != std::string::npos);
  CHECK(read_text("# allocator trace family 1\na 0 4*b 0\n").diagnostics().front().hint ==
        "'# varied: NAME=N,N,N' stands before the first event");
  CHECK(read_text("# allocator trace family 1\n").diagnostics().front().message ==
        "the family does not say what was varied");
}

}  // namespace
}  // namespace memest
