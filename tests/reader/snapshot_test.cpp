// PyTorch's memory snapshots: the pickle, of which plain data alone is read, and the history in it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_run.hpp"
#include "memest/reader/read_trace.hpp"
#include "reader/samples/pickle.hpp"
#include "reader/text/gzip.hpp"

namespace memest {
namespace {

using namespace std::string_literals;

std::shared_ptr<const SourceText> source_of(std::string text) {
  return std::make_shared<const SourceText>(SourceText{"s.pickle", std::move(text)});
}

std::string fault_of(std::string bytes) {
  const Checked<Pickle> pickle = Pickle::read(source_of(std::move(bytes)));
  return pickle.ok() ? "ok" : pickle.diagnostics().front().message;
}

std::string fault_of_run(std::string bytes) {
  const auto run = find_run(source_of(std::move(bytes)));
  return run.ok() ? "ok" : run.diagnostics().front().message;
}

const std::string kRuns = MEMEST_TRUTH "/runs/";

std::string bytes_of(const std::string& name) {
  return read_compressed(kRuns + name, std::size_t{1} << 24U).value()->text;
}

AllocatorTrace trace_of(const std::string& name) {
  const auto run = find_run(kRuns + name);
  REQUIRE(run.ok());
  return std::get<AllocatorTrace>(*run.value());
}

}  // namespace

TEST_CASE("a pickle is its plain values, of every protocol", "[snapshot]") {
  // pickle.dumps({'a': [1, -2, 300, 2**40, -2**40, 0.5, None, True, (1, 2)]}, 2) and 4
  const std::string two =
      "\x80\x02}q\x00X\x01\x00\x00\x00"s
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x06\x00\x00\x00\x00\x00\xff"s
      "G?\xe0\x00\x00\x00\x00\x00\x00N\x88K\x01K\x02\x86q\x03"s
      "es."s;
  const std::string four =
      "\x80\x04\x95\x35\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01"s
      "a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x06\x00\x00\x00\x00\x00\xff"s
      "G?\xe0\x00\x00\x00\x00\x00\x00N\x88K\x01K\x02\x86\x94"s
      "es."s;
  for (const std::string& bytes : {two, four}) {
    const Checked<Pickle> read = Pickle::read(source_of(bytes));
    REQUIRE(read.ok());
    const Pickle& pickle = read.value();
    const auto list = pickle.find(pickle.root(), "a");
    REQUIRE(list);
    CHECK_FALSE(pickle.find(pickle.root(), "b"));
    const auto& items = pickle.items(*list);
    REQUIRE(items.size() == 9);
    CHECK(pickle.integer(items[0]) == 1);
    CHECK(pickle.integer(items[1]) == -2);
    CHECK(pickle.integer(items[2]) == 300);
    CHECK(pickle.integer(items[3]) == std::int64_t{1} << 40);
    CHECK(pickle.integer(items[4]) == -(std::int64_t{1} << 40));
    CHECK(pickle.real(items[5]) == 0.5);
    CHECK(pickle.kind(items[6]) == PickleKind::none);
    CHECK(pickle.integer(items[7]) == 1);
    CHECK(pickle.items(items[8]).size() == 2);
  }
}

TEST_CASE("codes that run programs are refused by name and place", "[snapshot]") {
  // pickle.dumps of an object whose __reduce__ is os.system("...")
  CHECK(fault_of("\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."s) ==
        "the pickle has STACK_GLOBAL at byte 19, which no memory snapshot has");
  CHECK(fault_of("\x80\x02"s
                 "cposix\nsystem\n."s) ==
        "the pickle has GLOBAL at byte 2, which no memory snapshot has");
  for (const auto& [code, name] : {std::pair{'R', "REDUCE"},
                                   {'b', "BUILD"},
                                   {'i', "INST"},
                                   {'o', "OBJ"},
                                   {'\x81', "NEWOBJ"},
                                   {'\x92', "NEWOBJ_EX"},
                                   {'\x82', "EXT1"},
                                   {'P', "PERSID"},
                                   {'Q', "BINPERSID"},
                                   {'\x97', "NEXT_BUFFER"}}) {
    CHECK(fault_of("\x80\x02N"s + code + ".") ==
          "the pickle has "s + name + " at byte 3, which no memory snapshot has");
  }
}

TEST_CASE("a damaged pickle is refused with its place", "[snapshot]") {
  CHECK(fault_of("\x80\x02"s) == "the pickle ends at byte 2 without STOP");
  CHECK(fault_of("\x80\x02J\x01"s) == "the pickle ends within BININT at byte 2");
  CHECK(fault_of("\x80\x02X\xff\xff\xff\x7f."s) == "the pickle ends within BINUNICODE at byte 2");
  CHECK(fault_of("\x80\x02\xff."s) == "byte 2 is no code of a pickle: 255");
  CHECK(fault_of("\x80\x02."s) == "a value is missing before STOP at byte 2");
  CHECK(fault_of("\x80\x02NN."s) == "the pickle leaves values behind STOP at byte 4");
  CHECK(fault_of("\x80\x02Ne."s) == "a MARK is missing before APPENDS at byte 3");
  CHECK(fault_of("\x80\x02(Ne."s) == "no list before APPENDS at byte 4");
  CHECK(fault_of("\x80\x02}(Nu."s) == "a key without its value before SETITEMS at byte 5");
  CHECK(fault_of("\x80\x02(\x86."s) == "a value is missing before TUPLE2 at byte 3");
  CHECK(fault_of("\x80\x02h\x07."s) == "nothing was remembered as 7: BINGET at byte 2");
  CHECK(fault_of("\x80\x02Nr\xff\xff\xff\xff."s) == "a number out of order: LONG_BINPUT at byte 3");
  CHECK(fault_of("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s) ==
        "a number of more than 64 bits: LONG1 at byte 2");
}

TEST_CASE("a pickle that is no snapshot of one GPU's history says so", "[snapshot]") {
  CHECK(fault_of_run("\x80\x02N."s) ==
        "this pickle is no memory snapshot: it has no 'segments' and 'device_traces'");
  const std::string head =
      "\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00"s + "device_traces]"s;
  CHECK(fault_of_run(head + "(]]eu."s) == "the snapshot has no history of allocations");
  CHECK(fault_of_run(head + "(](Ne](Neeu."s) ==
        "the snapshot has histories of several GPUs: of 0 and 1");
  CHECK(fault_of_run(head + "(](}X\x06\x00\x00\x00"s + "actionX\x04\x00\x00\x00leaksaeeu."s) !=
        "ok");
}

TEST_CASE("PyTorch's snapshot is a trace with the places that asked", "[snapshot]") {
  const AllocatorTrace trace = trace_of("equal.pickle.gz");
  CHECK(trace.allocations == 394);
  CHECK(trace.earlier.count == 0);
  CHECK(trace.earlier.reserved == Bytes());
  CHECK(std::ranges::count(trace.events, TraceEventKind::allocate, &TraceEvent::kind) == 394);
  // One process frees on one stream: every free is done at once.
  CHECK(std::ranges::count(trace.events, TraceEventKind::free_when_done, &TraceEvent::kind) == 0);
  CHECK(trace.asked_at.size() == 394);
  CHECK(std::ranges::find(trace.places, "train.py:15 batch") != trace.places.end());
  for (const std::string& place : trace.places) {
    CHECK(place.find('/') == std::string::npos);
  }
  const AllocatorTrace kept = trace_of("kept.pickle.gz");
  CHECK(std::ranges::count(kept.asked_at, std::ranges::find(kept.places, "train.py:24 train") -
                                              kept.places.begin()) == 2);
}

TEST_CASE("an allocation of autograd's thread is its node's, whose stack has no Python",
          "[snapshot]") {
  const auto run = find_run(MEMEST_TRUTH "/../../fuzz/corpus/run/stacks");
  REQUIRE(run.ok());
  const auto& trace = std::get<AllocatorTrace>(*run.value());
  CHECK(trace.place_of(0) == "train.py:7 train");
  CHECK(trace.place_of(1) == "MmBackward0");
  CHECK(trace.place_of(2).empty());
  CHECK(trace.place_of(3) == "optimizer.py:9 step");
  CHECK(trace.place_of(4).empty());
}

TEST_CASE("what was there before the recording is known from its end", "[snapshot]") {
  const AllocatorTrace trace = trace_of("late.pickle.gz");
  CHECK(trace.allocations == 380);
  CHECK(trace.earlier.count == 14);
  CHECK(trace.earlier.allocated > Bytes());
  CHECK(trace.earlier.reserved > Bytes());
  const auto whole = read_trace(kRuns + "late.pickle.gz");
  REQUIRE_FALSE(whole.ok());
  CHECK(whole.diagnostics().front().message ==
        "the history begins when 14 blocks are allocated already");
  CHECK(read_trace(kRuns + "equal.pickle.gz").ok());
}

TEST_CASE("no part of a snapshot is read for the whole, and no byte of it breaks the reader",
          "[snapshot]") {
  const std::string whole = bytes_of("equal.pickle.gz");
  for (std::size_t i = 1; i < 200; ++i) {
    const std::size_t length = whole.size() * i / 200;
    CHECK(fault_of_run(whole.substr(0, length)) != "ok");
  }
  for (std::size_t i = 0; i < 300; ++i) {
    std::string damaged = whole;
    const std::size_t at = (i * 7919) % whole.size();
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << (i % 8)));
    // Read or refused: neither throws, nor reads beyond the end (which sanitizers see).
    CHECK_FALSE(fault_of_run(damaged).empty());
  }
}

}  // namespace memest
