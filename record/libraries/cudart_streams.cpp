// The CUDA runtime: streams, events, graphs. All work is done when it is asked for.

#include "abi/calls.hpp"
#include "device/handles.hpp"
#include "device/streams.hpp"
#include "device/work.hpp"
#include "libraries/cudart.hpp"

namespace memest::record {
namespace {

/// Every timed piece of work takes as long, so that whoever tries variants (Triton, Inductor) finds
/// them equal and takes the first; milliseconds.
constexpr float kElapsed = 0.01F;

/// cudaStreamCaptureStatus.
enum CaptureStatus : int { none = 0, active = 1 };

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cudaStreamCreateWithPriority(Handle* stream, unsigned, int priority) {
  *stream = streams().create(priority);
  return kSuccess;
}
MEMEST_CALL Status cudaStreamCreateWithFlags(Handle* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
MEMEST_CALL Status cudaStreamCreate(Handle* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
MEMEST_CALL Status cudaStreamDestroy(Handle stream) {
  streams().destroy(stream);
  return kSuccess;
}
MEMEST_CALL Status cudaStreamGetPriority(Handle stream, int* priority) {
  *priority = streams().priority(stream);
  return kSuccess;
}
MEMEST_CALL Status cudaStreamGetFlags(Handle, unsigned* flags) {
  *flags = 1;  // cudaStreamNonBlocking
  return kSuccess;
}

MEMEST_CALL Status cudaStreamBeginCapture(Handle stream, int) {
  streams().begin_capture(stream);
  return kSuccess;
}
/// CUDA 12.3 on.
MEMEST_CALL Status cudaStreamBeginCaptureToGraph(Handle stream, Handle, const Handle*,
                                                 const Handle*, std::size_t, int) {
  streams().begin_capture(stream);
  return kSuccess;
}
MEMEST_CALL Status cudaStreamEndCapture(Handle stream, Handle* graph) {
  streams().end_capture(stream);
  return make(graph);
}
/// CUDA 12.
MEMEST_CALL Status cudaStreamGetCaptureInfo_v2(Handle stream, int* status, unsigned long long* id,
                                               Handle* graph, const Handle** nodes,
                                               std::size_t* count) {
  const unsigned long long capture = streams().capture(stream);
  *status = capture != 0 ? CaptureStatus::active : CaptureStatus::none;
  if (id != nullptr) *id = capture;
  if (graph != nullptr) *graph = nullptr;
  if (nodes != nullptr) *nodes = nullptr;
  if (count != nullptr) *count = 0;
  return kSuccess;
}
/// CUDA 12.3 on.
MEMEST_CALL Status cudaStreamGetCaptureInfo_v3(Handle stream, int* status, unsigned long long* id,
                                               Handle* graph, const Handle** nodes,
                                               const Handle** edges, std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}
/// CUDA 13.
MEMEST_CALL Status cudaStreamGetCaptureInfo(Handle stream, int* status, unsigned long long* id,
                                            Handle* graph, const Handle** nodes,
                                            const Handle** edges, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, count);
}
MEMEST_CALL Status cudaStreamIsCapturing(Handle stream, int* status) {
  return cudaStreamGetCaptureInfo_v2(stream, status, nullptr, nullptr, nullptr, nullptr);
}
MEMEST_CALL Status cudaGraphInstantiateWithFlags(Handle* executable, Handle, unsigned long long) {
  return make(executable);
}
MEMEST_CALL Status cudaGraphInstantiate(Handle* executable, Handle, unsigned long long) {
  return make(executable);
}
/// The work of a graph is told where it is captured, and its launches by this name alone.
MEMEST_CALL Status cudaGraphLaunch(Handle, Handle stream) {
  if (work().watches()) work().library("cudaGraphLaunch", stream);
  return kSuccess;
}
/// One node: PyTorch warns of a graph without any.
MEMEST_CALL Status cudaGraphGetNodes(Handle, Handle*, std::size_t* count) {
  *count = 1;
  return kSuccess;
}

MEMEST_CALL Status cudaStreamAddCallback(Handle stream, void (*callback)(Handle, Status, void*),
                                         void* data, unsigned) {
  callback(stream, kSuccess, data);
  return kSuccess;
}
MEMEST_CALL Status cudaLaunchHostFunc(Handle, void (*callback)(void*), void* data) {
  callback(data);
  return kSuccess;
}

MEMEST_CALL Status cudaEventRecord(Handle event, Handle stream) {
  if (work().watches()) work().event(event, stream);
  return kSuccess;
}
MEMEST_CALL Status cudaEventRecordWithFlags(Handle event, Handle stream, unsigned) {
  return cudaEventRecord(event, stream);
}
MEMEST_CALL Status cudaStreamWaitEvent(Handle stream, Handle event, unsigned) {
  if (work().watches()) work().wait(event, stream);
  return kSuccess;
}
MEMEST_CALL Status cudaEventSynchronize(Handle event) {
  if (work().watches()) work().host_waits_for_event(event);
  return kSuccess;
}
MEMEST_CALL Status cudaStreamSynchronize(Handle stream) {
  if (work().watches()) work().host_waits_for_stream(stream);
  return kSuccess;
}
MEMEST_CALL Status cudaDeviceSynchronize() {
  if (work().watches()) work().host_waits();
  return kSuccess;
}
MEMEST_CALL Status cuEventRecord(Handle event, Handle stream) {
  return cudaEventRecord(event, stream);
}
MEMEST_CALL Status cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
  return cudaStreamWaitEvent(stream, event, flags);
}
MEMEST_CALL Status cuEventSynchronize(Handle event) { return cudaEventSynchronize(event); }
MEMEST_CALL Status cuStreamSynchronize(Handle stream) { return cudaStreamSynchronize(stream); }
MEMEST_CALL Status cuCtxSynchronize() { return cudaDeviceSynchronize(); }

MEMEST_CALL Status cudaEventCreateWithFlags(Handle* event, unsigned) { return make(event); }
MEMEST_CALL Status cudaEventCreate(Handle* event) { return make(event); }
MEMEST_CALL Status cudaEventElapsedTime(float* milliseconds, Handle, Handle) {
  *milliseconds = kElapsed;
  return kSuccess;
}
MEMEST_CALL Status cudaEventElapsedTime_v2(float* milliseconds, Handle start, Handle end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
