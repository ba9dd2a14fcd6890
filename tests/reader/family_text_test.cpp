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
# gpu: h100-sxm-80gb
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
# work: step2
w n 0 void scale(int, (anonymous)::x)
w o 1 f(x) bf16[(batch*seq),:64] {(2*batch)*fp32[8];1*fp32[((seq)/8)]} - > bf16[(batch*seq)]
w k 0 0 1 0 0 0 0 0
w g 0 0 1 14 14 tn 64 (batch*seq) 64 1
w = step2.forward
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

TEST_CASE("the work of a family has its numbers at a point") {
  const Checked<RecordedFamily> read = read_text(kFamily);
  REQUIRE(read.ok());
  const auto at = work_at(read.value(), {3, 640});
  REQUIRE(at.has_value());
  const RecordedWork& work = *at;
  CHECK(work.of == "step2");
  CHECK(work.kernels == std::vector<std::string>{"void scale(int, (anonymous)::x)"});
  const RecordedOperator& op = work.operators.at(1);
  CHECK(op.name == "f(x)");
  CHECK(op.tensors(0).at(0).shape == std::vector<std::int64_t>{3 * 640, 64});
  CHECK(op.tensors(0).at(0).stored == 3 * 640);
  CHECK(op.tensors(1).at(0).count == 6);
  CHECK(op.tensors(1).at(1).shape == std::vector<std::int64_t>{80});
  REQUIRE(work.items.size() == 3);
  CHECK(std::get<RecordedProduct>(work.items[1].what).n == 3 * 640);
  RecordedFamily without = read.value();
  without.work.reset();
  CHECK_FALSE(work_at(without, {3, 640}).has_value());
  without.no_work = "the work of a step parts";
  CHECK(write_family(without).ends_with("# no work: the work of a step parts\n"));
}

TEST_CASE("a recording's work is compared without what sizes change of its kernels") {
  const auto work = comparable_work(
      "# allocator trace 1\n# work: step2\nw n 0 b\nw n 1 a\nw k 0 0 2 1 640 1 1 128\n"
      "w k 0 0 2 1 320 1 1 128\nw k 0 0 3 1 1 1 1 128\nw k 0 0 3 0 8 1 1 32\n");
  REQUIRE(work.has_value());
  CHECK(work->of == "step2");
  CHECK(work->kernels == std::vector<std::string>{"a", "b"});
  CHECK(work->lines == std::vector<std::string>{"w k 0 0 2 0 0 0 0 0", "w k 0 0 3 0 0 0 0 0",
                                                "w k 0 0 3 1 0 0 0 0"});
  // Events are numbered as they are recorded: a handle that is taken again is another event.
  const auto events = comparable_work(
      "# work: step2\nw e 7 1\nw t 7 0\nw e 3 0\nw e 7 2\nw h event 7\nw t 3 1\nw t 9 1\n");
  CHECK(events->lines == std::vector<std::string>{"w e 0 1", "w t 0 0", "w e 1 0", "w e 2 2",
                                                  "w h event 2", "w t 1 1", "w t 3 1"});
  CHECK_FALSE(comparable_work("# allocator trace 1\n= step1.forward\n").has_value());
  CHECK_FALSE(comparable_work("# work: step2\nw = a\n# work: cut off\n").has_value());
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
       {"", "+3", "3*", "3batch", "batch seq", "width", "batch^", "batch^10", "batch^9*batch",
        "(batch", "(batch)/0", "(batch)", "batch/2", "3+", "0x10", "1.5", "99999999999999999999"}) {
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
        "t.memrec:15:5: error: expected a size in bytes or a formula of batch and seq, not "
        "'4*width'\n 15 | a 0 4*width 0\n    |     ^~~~~~~\n");
  // Columns behind a formula are those of the file.
  CHECK(first_error("a 1 (3*batch*seq^2-16*seq)/4 1", "a 1 (3*batch*seq^2-16*seq)/4 x") ==
        "t.memrec:18:30: error: expected the number of a stream, not 'x'\n 18 | a 1 "
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
  CHECK(first_error("w g 0 0 1 14 14 tn 64 (batch*seq) 64 1",
                    "w g 0 0 1 14 14 tn 64 (batch*width) 64 1") ==
        "t.memrec:31:1: error: this is no line of a step's work with formulas of what was varied\n"
        " 31 | w g 0 0 1 14 14 tn 64 (batch*width) 64 1\n"
        "    | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "    = hint: a number is written 4096, a formula (batch*seq)\n");
  CHECK(first_error("f 0", "\ta 3").find("'a' is written a ID SIZE STREAM") != std::string::npos);
  CHECK(read_text("# allocator trace family 1\na 0 4*b 0\n").diagnostics().front().hint ==
        "'# varied: NAME=N,N,N' stands before the first event");
  CHECK(read_text("# allocator trace family 1\n").diagnostics().front().message ==
        "the family does not say what was varied");
}

}  // namespace
}  // namespace memest
