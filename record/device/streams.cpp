#include "device/streams.hpp"

#include <algorithm>

#include "device/handles.hpp"

namespace memest::record {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

Handle Streams::create(int priority) {
  const Handle stream = new_handle();
  const Lock lock(mutex_);
  streams_[stream].priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  return stream;
}

void Streams::destroy(Handle stream) {
  const Lock lock(mutex_);
  streams_.erase(stream);
}

int Streams::priority(Handle stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.priority;
}

void Streams::set_library(Handle library, Handle stream) {
  const Lock lock(mutex_);
  libraries_[library] = stream;
}

Handle Streams::of_library(Handle library) {
  const Lock lock(mutex_);
  const auto found = libraries_.find(library);
  return found == libraries_.end() ? nullptr : found->second;
}

void Streams::begin_capture(Handle stream) {
  const Lock lock(mutex_);
  streams_[stream].capture = next_capture_++;
}

void Streams::end_capture(Handle stream) {
  const Lock lock(mutex_);
  streams_[stream].capture = 0;
}

unsigned long long Streams::capture(Handle stream) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.capture;
}

Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

}  // namespace memest::record
