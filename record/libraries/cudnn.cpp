// cuDNN: its graph interface has one engine for every graph. Workspaces that only cuDNN knows are
// 0.

#include <cstring>

#include "abi/calls.hpp"
#include "device/handles.hpp"
#include "device/journal.hpp"
#include "device/streams.hpp"

namespace memest::record {
namespace {

constexpr int kMajor = 9;
constexpr int kMinor = 19;
constexpr std::size_t kVersion = std::size_t{10000} * kMajor + std::size_t{100} * kMinor;

/// cudnnBackendAttributeName_t and cudnnBackendAttributeType_t (cudnn_graph.h).
enum Attribute : int {
  engine_heuristic_results = 202,
  engine_of_configuration = 300,
  workspace_of_configuration = 303,
  shared_memory_of_configuration = 304,
  configuration_of_plan = 401,
  workspace_of_plan = 402,
  engine_count = 802,
  engine_index = 1301,
};
enum AttributeType : int { int64 = 3, int32 = 23 };

/// How many values an attribute has: notes and knobs have none.
std::int64_t count_of(int attribute) {
  switch (attribute) {
    case engine_heuristic_results:
    case engine_of_configuration:
    case workspace_of_configuration:
    case shared_memory_of_configuration:
    case configuration_of_plan:
    case workspace_of_plan:
    case engine_count:
    case engine_index:
      return 1;
    default:
      return 0;
  }
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL std::size_t cudnnGetVersion() { return kVersion; }
MEMEST_CALL const char* cudnnGetErrorString(Status status) {
  return status == kSuccess ? "CUDNN_STATUS_SUCCESS" : "error of cuDNN";
}
MEMEST_CALL void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) text[0] = '\0';
}
MEMEST_CALL Status cudnnGetProperty(int property, int* value) {
  *value = property == 0 ? kMajor : property == 1 ? kMinor : 0;
  return kSuccess;
}
MEMEST_CALL Status cudnnSetStream(Handle library, Handle stream) {
  streams().set_library(library, stream);
  return kSuccess;
}
MEMEST_CALL Status cudnnGetStream(Handle library, Handle* stream) {
  *stream = streams().of_library(library);
  return kSuccess;
}
MEMEST_CALL Status cudnnDropoutGetStatesSize(Handle, std::size_t* bytes) {
  *bytes = 0;
  return kSuccess;
}

MEMEST_CALL Status cudnnBackendCreateDescriptor(int, Handle* descriptor) {
  return make(descriptor);
}
/// The caller brings descriptors himself; numbers are 0 but the count of engines.
MEMEST_CALL Status cudnnBackendGetAttribute(Handle, int attribute, int type, std::int64_t,
                                            std::int64_t* count, void* values) {
  const std::int64_t answers = count_of(attribute);
  if (count != nullptr) *count = answers;
  if (values == nullptr || answers == 0) return kSuccess;
  if (attribute == workspace_of_plan) note_zero("Workspaces of cuDNN's plans");
  const std::int64_t value = attribute == engine_count ? 1 : 0;
  if (type == AttributeType::int64) std::memcpy(values, &value, sizeof value);
  if (type == AttributeType::int32) std::memcpy(values, &value, sizeof(std::int32_t));
  return kSuccess;
}

MEMEST_CALL Status cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(Handle, int, int,
                                                                            Handle, Handle, Handle,
                                                                            Handle, Handle,
                                                                            std::size_t* bytes) {
  *bytes = 0;
  return kSuccess;
}
MEMEST_CALL Status cudnnGetBatchNormalizationBackwardExWorkspaceSize(Handle, int, int, Handle,
                                                                     Handle, Handle, Handle, Handle,
                                                                     Handle, Handle,
                                                                     std::size_t* bytes) {
  *bytes = 0;
  return kSuccess;
}
MEMEST_CALL Status cudnnGetBatchNormalizationTrainingExReserveSpaceSize(Handle, int, int, Handle,
                                                                        Handle,
                                                                        std::size_t* bytes) {
  *bytes = 0;
  return kSuccess;
}
