#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/diag/environment.hpp"
#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

Checked<AllocatorTrace> read_text(const std::string& text) {
  return read_trace(std::make_shared<const SourceText>(SourceText{"t.trace", text}));
}

AllocatorTrace trace_of(const std::string& lines) {
  return read_text("# allocator trace 1\n# total: 1000000000\n" + lines).value();
}

std::string first_error(const std::string& lines) {
  const Checked<AllocatorTrace> trace =
      read_text("# allocator trace 1\n# total: 1000000000\n" + lines);
  return trace.ok() ? "ok" : trace.diagnostics().front().message;
}

}  // namespace

TEST_CASE("a trace is its head, its events and its markers") {
  const AllocatorTrace trace = trace_of(
      "# case: v1\n# device: NVIDIA H200\n# capacity: 500000000\n"
      "# conf: max_split_size_mb:128, expandable_segments:True,pinned_num_register_threads:4\n"
      "S 7f0000000000 2097152 1\n"
      "a 5 512 1\n"
      "l 3\n"
      "q 5\r\n"
      "f 5\n"
      "= forward segments=1 retries=0\n"
      "e\n");
  CHECK(trace.name == "v1");
  CHECK(trace.device_memory == Bytes(1'000'000'000));
  CHECK(trace.capacity == Bytes(500'000'000));
  CHECK(trace.settings.max_split_size == Bytes(128 * kMiB));
  CHECK(trace.settings.expandable_segments);
  CHECK(trace.allocations == 1);
  REQUIRE(trace.events.size() == 7);
  CHECK(trace.events[0].kind == TraceEventKind::segment_obtained);
  CHECK(trace.events[0].number == 0x7f0000000000);
  CHECK(trace.events[0].line == 7);
  CHECK(trace.events[1].number == 0);  // the first allocation, whatever its ID
  CHECK(trace.events[1].size == Bytes(512));
  CHECK(trace.events[1].stream == 1);
  CHECK(trace.events[2].number == 3);
  CHECK(trace.events[3].kind == TraceEventKind::free_when_done);
  CHECK(trace.events[4].number == 0);
  REQUIRE(trace.markers.size() == 1);
  CHECK(trace.markers[0].name == "forward");
  CHECK(trace.markers[0].statistics[static_cast<std::size_t>(TracedStatistic::segments)] == 1);
  CHECK_FALSE(
      trace.markers[0].statistics[static_cast<std::size_t>(TracedStatistic::active)].has_value());
}

TEST_CASE("settings that are not set are PyTorch's own") {
  CHECK(trace_of("# conf: default\n").settings == AllocatorSettings());
  CHECK(trace_of("# conf:\n").settings == AllocatorSettings());
  CHECK(trace_of("# capacity: none\n").capacity == std::nullopt);
  RoundingDivisions divisions{};
  divisions[0] = 0;
  for (std::size_t i = 1; i < kRoundingClasses; ++i) divisions[i] = 2;
  CHECK(trace_of("# conf: roundup_power2_divisions:[>:2]\n").settings.roundup_power2_divisions ==
        divisions);
}

TEST_CASE("numbers beyond any device are refused") {
  CHECK(first_error("a 0 9223372036854775807 0\n") ==
        "expected a size in bytes, not '9223372036854775807'");
  CHECK(first_error("a 0 99999999999999999999 0\n") ==
        "expected a size in bytes, not '99999999999999999999'");
  CHECK(first_error("a 0 512 1001\n") == "expected the number of a stream, not '1001'");
  CHECK(first_error("S ffffffffffffffff 512 0\n") ==
        "expected a hexadecimal address, not 'ffffffffffffffff'");
}

TEST_CASE("a trace that is not there is the environment's failure") {
  CHECK_THROWS_AS(read_trace("no-such.trace.gz"), EnvironmentError);
  CHECK(read_trace(".").diagnostics().front().message == "this is a directory");
}

TEST_CASE("a recording tells the work of a step, with its operators") {
  const Checked<Recording> read = read_recording(std::make_shared<const SourceText>(
      SourceText{"run.memrec",
                 "# allocator trace 1\n# total: 1000000\n# work: step2\n"
                 "w o 1 aten::add bf16[4,:8,16] {2*fp32[8];int64[]} 0.5 - True > bf16[4,8,16]\n"
                 "w n 0 add_kernel<float>\n"
                 "w k 1 0 1 0 8 2 1 128\n"
                 "w g 0 3 1 14 0 nt+~ 16 32 64 2\n"
                 "w e 5 3\nw t 5 0\nw h stream 3\nw h all\n"
                 "w c 0 3 0 all_gather 4096 8\n"
                 "w m 0 0 0 h2d_pageable 64\n"
                 "w = step2.backward\n# work: cut off\n"}));
  REQUIRE(read.ok());
  REQUIRE(read.value().work);
  const RecordedWork& work = *read.value().work;
  CHECK(work.of == "step2");
  CHECK(work.cut_off);
  CHECK(work.kernels == std::vector<std::string>{"add_kernel<float>"});
  REQUIRE(work.operators.size() == 2);
  const RecordedOperator& add = work.operators[1];
  CHECK(add.name == "aten::add");
  REQUIRE(add.tensors(0).size() == 1);
  CHECK(add.tensors(0)[0].elements() == 4 * 8 * 16);
  CHECK(add.tensors(0)[0].bytes() == Bytes(2 * 4 * 16));
  REQUIRE(add.tensors(1).size() == 2);
  CHECK(add.tensors(1)[0].bytes() == Bytes(2 * 4 * 8));
  CHECK(add.tensors(1)[1].bytes() == Bytes(8));
  CHECK(add.number(2) == 0.5);
  CHECK(add.tensors(3).empty());
  CHECK(add.number(4) == 1);
  CHECK(add.results.size() == 1);
  REQUIRE(work.items.size() == 9);
  CHECK(work.items[0].thread == 1);
  CHECK(std::get<RecordedKernel>(work.items[0].what).grid[1] == 2);
  const auto& product = std::get<RecordedProduct>(work.items[1].what);
  CHECK(work.items[1].stream == 3);
  CHECK(product.operand == DType::bf16);
  CHECK(product.result == DType::fp32);
  CHECK(!product.transposes_a);
  CHECK(product.transposes_b);
  CHECK(product.accumulates);
  CHECK(product.tensor_float);
  CHECK(product.batch == 2);
  CHECK(std::get<EventAwaited>(work.items[3].what).event == 5);
  CHECK(std::get<HostWait>(work.items[4].what).target == HostWait::For::stream);
  CHECK(std::get<HostWait>(work.items[5].what).target == HostWait::For::device);
  CHECK(std::get<RecordedMessage>(work.items[6].what).ranks == 8);
  CHECK(std::get<RecordedCopy>(work.items[7].what).path == CopyPath::h2d_pageable);
  CHECK(std::get<WorkMark>(work.items[8].what).name == "step2.backward");
}

TEST_CASE("a line of work that says too little, or names what no line has told, is refused") {
  const auto mistake_of = [](const std::string& line) {
    const Checked<Recording> read = read_recording(std::make_shared<const SourceText>(SourceText{
        "run.memrec", "# allocator trace 1\n# total: 1000000\n# work: step2\n" + line + "\n"}));
    REQUIRE(!read.ok());
    return read.diagnostics().front().message;
  };
  CHECK(mistake_of("w x 1") == "unknown work '1'");
  CHECK(mistake_of("w k 0 0 0 0 1 1 1") ==
        "'w k' is written w k THREAD STREAM OPERATOR KERNEL X Y Z THREADS");
  CHECK(mistake_of("w k 0 0 0 7 1 1 1 128") == "no line has said what kernel 7 is");
  CHECK(mistake_of("w c 0 0 3 all_gather 4096 8") == "no line has said what operator 3 is");
  CHECK(mistake_of("w c 0 0 0 all_get 4096 8") == "unknown message 'all_get'");
  CHECK(mistake_of("w o 2 aten::add > bf16[4]") ==
        "the numbers of operators count up, and the next is 1");
  CHECK(mistake_of("w o 1 aten::add bf16[4,x] > bf16[4]") ==
        "expected a tensor as bf16[4,64], a number or -, not 'bf16[4,x]'");
  CHECK(mistake_of("w o 1 aten::add bf16[9223372036854775807,2]") ==
        "expected a tensor as bf16[4,64], a number or -, not 'bf16[9223372036854775807,2]'");
  CHECK(mistake_of("w m 0 0 0 d2d -4") == "expected a whole number, not '-4'");
  CHECK(mistake_of("w g 0 0 0 99 14 nt 1 1 1 1") == "unknown type of cudaDataType_t '99'");
  CHECK(mistake_of("w g 0 0 0 14 14 xy 1 1 1 1") == "a layout is tn, nn or nt, not 'xy'");
}

TEST_CASE("a recording says which place asked for each allocation, and what was read back") {
  const Checked<Recording> read =
      read_recording(std::make_shared<const SourceText>(SourceText{"run.memrec",
                                                                   R"(# allocator trace 1
# total: 1000000000
# context: 500000000
# torch: 2.11.0+cu130
# rank: 3 of 8
p 0 train.py:3 <module>
@ 0
a 0 512 0
p 1
@ 1
a 1 512 0
@ 0
a 2 512 0
o 1024 0
# stopped: after the steps asked for
# read: 12 4 1 train.py:9 main
# device peak: 2097152
)"}));
  REQUIRE(read.ok());
  const Recording& recording = read.value();
  CHECK(recording.torch == "2.11.0+cu130");
  CHECK(recording.rank == "3 of 8");
  CHECK(recording.stopped);
  CHECK(recording.device_peak == Bytes(2097152));
  REQUIRE(recording.reads.size() == 1);
  CHECK(recording.reads[0].count == 12);
  CHECK(recording.reads[0].size == Bytes(4));
  CHECK(recording.reads[0].first == 1);
  CHECK(recording.reads[0].place == "train.py:9 main");
  const AllocatorTrace& trace = recording.trace;
  CHECK(trace.available() == Bytes(500000000));
  CHECK(trace.place_of(0) == "train.py:3 <module>");
  CHECK(trace.place_of(1).empty());
  CHECK(trace.place_of(2) == "train.py:3 <module>");
  CHECK(trace.failed_at == "train.py:3 <module>");
}

TEST_CASE("a recording says in whose forward each allocation and each kernel is") {
  const Checked<Recording> read =
      read_recording(std::make_shared<const SourceText>(SourceText{"run.memrec",
                                                                   R"(# allocator trace 1
# total: 1000000000
a 0 512 0
n 1 LlamaForCausalLM LlamaForCausalLM
n 2 LlamaMLP model.layers.0.mlp
> 1
> 2
a 1 512 0
> 0
a 2 512 0
> 1
a 3 512 0
# work: step2
w n 0 add_kernel
w > 0 2
w k 0 0 0 0 1 1 1 32
w > 3 1
w k 3 0 0 0 1 1 1 32
w k 0 0 0 0 1 1 1 32
w > 0 0
w m 0 0 0 d2d 4
)"}));
  REQUIRE(read.ok());
  const AllocatorTrace& trace = read.value().trace;
  REQUIRE(trace.modules.size() == 3);
  CHECK(trace.modules[2].kind == "LlamaMLP");
  CHECK(trace.modules[2].name == "model.layers.0.mlp");
  std::vector<std::size_t> made_in;
  for (std::int64_t i = 0; i < trace.allocations; ++i) made_in.push_back(trace.module_of(i));
  CHECK(made_in == std::vector<std::size_t>{0, 2, 0, 1});
  const RecordedWork& work = read.value().work.value();
  CHECK(work.modules[1].name == "LlamaForCausalLM");
  std::vector<std::size_t> asked_in;
  for (const WorkItem& item : work.items) asked_in.push_back(item.module);
  CHECK(asked_in == std::vector<std::size_t>{2, 1, 2, 0});
}

TEST_CASE("modules are refused where they are written wrong") {
  CHECK(first_error("n 2 Linear fc\n") == "the numbers of modules count up, and the next is 1");
  CHECK(first_error("n 1 Linear\n") == "'n' is written n NUMBER CLASS NAME");
  CHECK(first_error("> 1\n") == "no line has said what module 1 is");
  CHECK(first_error(">\n") == "'>' is written > NUMBER");
  CHECK(first_error("w > 0 1\n") == "no line has said what module 1 is");
  CHECK(first_error("w > 0\n") == "'w >' is written w > THREAD MODULE");
}

TEST_CASE("places and what was read are refused where they are written wrong") {
  CHECK(first_error("p 1 here\n") == "the numbers of places count up, and the next is 0");
  CHECK(first_error("p\n") == "'p' is written p NUMBER TEXT");
  CHECK(first_error("@ 0\n") == "no line has said what place 0 is");
  CHECK(first_error("@\n") == "'@' is written @ NUMBER");
  CHECK(first_error("a 0 512 0\np 0 here\n@ 0\n") == "'@' stands behind allocations of no place");
  CHECK(first_error("# read: 3 4\n") == "'# read:' is written # read: COUNT BYTES FIRST PLACE");
  CHECK(first_error("# read: 3 4 256 here\n") == "expected a byte, not '256'");
  CHECK(first_error("# device peak: much\n") == "expected a number of bytes, not 'much'");
  CHECK(first_error("# context: 1000000001\n") ==
        "the trace's context is more than the device has");
}

}  // namespace memest
