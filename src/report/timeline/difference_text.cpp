#include "report/timeline/difference_text.hpp"

#include <fmt/format.h>

#include "memest/units/text.hpp"

namespace memest {
namespace {

std::string predicted_at(const StepMemory& memory, const TimelineDifference& difference) {
  if (difference.predicted == kNoStorage) return "nothing";
  const StorageId storage = difference.predicted;
  return fmt::format("{} B for {}{}", grouped(memory.timeline.storages[storage].bytes),
                     moment_name(memory, storage), op_of(memory, storage));
}

}  // namespace

std::string op_of(const StepMemory& memory, StorageId storage) {
  const Label& label = memory.timeline.storages[storage].label;
  if (label.origin > Origin::backward) return "";
  const Block& block = memory.graph.blocks[memory.timeline.places[label.place].block];
  return fmt::format(" (op {}: {})", label.op, name_of(block.ops[label.op].kind));
}

std::vector<std::string> sentences_of(const StepMemory& memory,
                                      const TimelineDifference& difference) {
  std::vector<std::string> sentences;
  switch (difference.kind) {
    case TimelineDifference::Kind::size:
      sentences.push_back(fmt::format("{} B are allocated; predicted: {}.",
                                      grouped(difference.recorded_bytes),
                                      predicted_at(memory, difference)));
      break;
    case TimelineDifference::Kind::stream:
      sentences.push_back(fmt::format("{} B are allocated on another stream; predicted: {}.",
                                      grouped(difference.recorded_bytes),
                                      predicted_at(memory, difference)));
      break;
    case TimelineDifference::Kind::allocate:
      sentences.push_back(fmt::format("{} B are allocated; the prediction has ended.",
                                      grouped(difference.recorded_bytes)));
      break;
    case TimelineDifference::Kind::free:
      sentences.push_back(
          fmt::format("The record has ended; predicted: {}.", predicted_at(memory, difference)));
      break;
    case TimelineDifference::Kind::freed:
      break;
  }
  const auto name = [&](const char* who, const std::vector<StorageId>& freed) {
    for (const StorageId storage : freed) {
      sentences.push_back(fmt::format("Only the {} frees {} B here: {}{}.", who,
                                      grouped(memory.timeline.storages[storage].bytes),
                                      moment_name(memory, storage), op_of(memory, storage)));
    }
  };
  name("record", difference.freed_by_record);
  name("prediction", difference.freed_by_prediction);
  return sentences;
}

}  // namespace memest
