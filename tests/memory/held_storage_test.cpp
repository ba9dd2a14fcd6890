// Names of storages: when they end, in which order, and what an error leaves behind.
#include "memory/timeline/held_storage.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../draws.hpp"
#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"
#include "memory/programs/write_timeline.hpp"
#include "memory/timeline/labels.hpp"
#include "memory/timeline/recorder.hpp"
#include "timeline_blocks.hpp"

namespace memest::testing {
namespace {

const Label kLabel = loop_label(Holding::temporaries, LoopTensor::step_temporary);

/// "+0 +1 -0": storages by number.
std::string text_of(const Timeline& timeline) {
  std::string text;
  for (const Event& event : timeline.events) {
    if (!text.empty()) text += ' ';
    text += (event.kind == EventKind::allocate ? '+' : '-') + std::to_string(event.storage);
  }
  return text;
}

TEST_CASE("names of a scope end in reverse order, and drop() ends one before", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  {
    const HeldStorage first = recorder.make(4, kLabel);
    HeldStorage second = recorder.make(4, kLabel);
    const HeldStorage third = recorder.make(4, kLabel);
    second.drop();
  }
  CHECK(text_of(timeline) == "+0 +1 +2 -1 -2 -0");
}

TEST_CASE("what a name held goes when the next storage is there", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  HeldStorage name = recorder.make(4, kLabel);
  name = recorder.make(8, kLabel);
  CHECK(text_of(timeline) == "+0 +1 -0");
  HeldStorage other = recorder.share(name.id());
  name = std::move(other);  // the same storage by both names
  CHECK(text_of(timeline) == "+0 +1 -0");
  name.drop();
  name.drop();
  CHECK(text_of(timeline) == "+0 +1 -0 -1");
}

TEST_CASE("a vector frees from the first storage on, a list of Python's from the last",
          "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  {
    HeldList list;
    for (int i = 0; i < 3; ++i) list.push_back(recorder.make(4, kLabel));
    HeldVector vector;
    for (int i = 0; i < 3; ++i) vector.push_back(recorder.make(4, kLabel));
  }
  CHECK(text_of(timeline) == "+0 +1 +2 +3 +4 +5 -3 -4 -5 -2 -1 -0");
}

TEST_CASE("a reference that is given up ends where its taker says", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  StorageId kept = kNoStorage;
  {
    HeldStorage name = recorder.make(4, kLabel);
    kept = name.give_up();
    CHECK_FALSE(name.is_of_storage());
  }
  CHECK(text_of(timeline) == "+0");
  { const HeldStorage name = recorder.adopt(kept); }
  CHECK(text_of(timeline) == "+0 -0");
}

TEST_CASE("tensors without elements are no events", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  {
    HeldStorage name = recorder.make(0, kLabel);
    name = recorder.share(kNoStorage);
    HeldVector vector;
    vector.push_back(std::move(name));
  }
  CHECK(timeline.events.empty());
}

TEST_CASE("what outlives the last event stays to the end", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  {
    const HeldStorage loss = recorder.make(4, kLabel);
    recorder.finish();
  }
  CHECK(text_of(timeline) == "+0");
}

TEST_CASE("a name that ends a reference too many is our own mistake", "[held_storage]") {
  Timeline timeline;
  Recorder recorder(timeline);
  {
    const HeldStorage name = recorder.make(4, kLabel);
    const HeldStorage stolen = recorder.adopt(name.id());
  }
  CHECK_THROWS_AS(recorder.finish(), InternalError);
}

/// Takes and drops names as drawn, then throws with what is left of them in hand.
void take_names_and_throw(test::Draws& draws, Recorder& recorder) {
  std::vector<HeldStorage> names(8);
  HeldList list;
  HeldVector vector;
  constexpr int kActions = 40;
  for (int i = 0; i < kActions; ++i) {
    HeldStorage& name = names[draws.below(names.size())];
    const HeldStorage& other = names[draws.below(names.size())];
    switch (draws.below(6)) {
      case 0:
      case 1:
        name = recorder.make(static_cast<std::int64_t>(draws.below(3)), kLabel);
        break;
      case 2:
        name = recorder.share(other.id());
        break;
      case 3:
        name.drop();
        break;
      case 4:
        list.push_back(std::move(name));
        break;
      default:
        vector.push_back(recorder.share(other.id()));
    }
  }
  throw OverflowError("a size of more than 2^63 B");
}

TEST_CASE("an error ends every name once, and asks for no memory to say so", "[held_storage]") {
  constexpr std::uint32_t kDrawn = 2000;
  for (std::uint32_t seed = 0; seed < kDrawn; ++seed) {
    test::Draws draws(seed);
    Timeline timeline;
    Recorder recorder(timeline);
    CHECK_THROWS_AS(take_names_and_throw(draws, recorder), OverflowError);
    std::vector<int> held(timeline.storages.size());
    for (const Event& event : timeline.events) {
      held[event.storage] += event.kind == EventKind::allocate ? 1 : -1;
    }
    REQUIRE(std::all_of(held.begin(), held.end(), [](int count) { return count == 0; }));
    REQUIRE(timeline.events.size() == 2 * timeline.storages.size());
    REQUIRE(timeline.events.capacity() >= 2 * timeline.storages.size());
  }
}

/// A batch of 2^61 micro-steps, most of which are one storage: its size overflows in the first
/// step, when the loop holds the others.
TEST_CASE("an overflow in the middle of a step is no more than that", "[held_storage]") {
  BlockSketch block("loss");
  const TensorId x = block.input(8);
  const TensorId w = block.tensor("w", 8, Role::parameter);
  const TensorId loss = block.tensor("loss", 1);
  Op& op = block.op(OpKind::multiply, {x, w}, {loss});
  op.saved = {x, w};
  differentiate(op, {w});
  Graph graph = graph_of({std::move(block).take()});
  Job job = one_step();
  job.training->implementation.loop = LoopKind::trainer;
  job.training->gradient_accumulation = std::int64_t{1} << 61;
  CHECK_THROWS_AS(write_timeline(graph, job), OverflowError);
}

}  // namespace
}  // namespace memest::testing
