#include "report/record/record_json.hpp"

#include <utility>

#include "report/pages/json.hpp"
#include "report/record/module_tables.hpp"
#include "report/record/work_report.hpp"

namespace memest {
namespace {

Json json_of(const RecordedFailure& failure) {
  Json json{{"phase", failure.phase},
            {"place", failure.place},
            {"size_bytes", failure.size.value()},
            {"allocated_bytes", failure.allocated.value()},
            {"reserved_bytes", failure.reserved.value()}};
  if (failure.fits_expandable) json["fits_with_expandable_segments"] = *failure.fits_expandable;
  return json;
}

Json markers_of(const AllocatorTrace& trace) {
  Json markers = Json::array();
  for (const TraceMarker& marker : trace.markers) {
    Json json{{"name", marker.name}};
    for (std::size_t i = 0; i < kTracedStatistics; ++i) {
      if (!marker.statistics[i]) continue;
      json[std::string(name_of(static_cast<TracedStatistic>(i)))] = *marker.statistics[i];
    }
    markers.push_back(std::move(json));
  }
  return markers;
}

Json json_of(const ProgramRun& program, const ProcessRun& process) {
  const Recording& recording = process.recording;
  Json json{{"rank", recording.rank},
            {"torch", recording.torch},
            {"settings", recording.trace.settings_text},
            {"allocated_peak_bytes", process.peaks.allocated.value()}};
  if (process.device) {
    json["device"] = process.device->text();
    json["device_index"] = process.device->index;
  }
  if (process.peaks.reserved) json["reserved_peak_bytes"] = process.peaks.reserved->value();
  if (const auto device = device_peak_of(program, process)) {
    json["device_peak_bytes"] = device->value();
  } else {
    put_null(json, "device_peak_bytes", "the process did not come to its end");
  }
  json["measured_by"] = std::string(name_of(process.peaks.source));
  json["peak_phase"] = process.peak.phase;
  json["peak_places"] = Json::array();
  for (const PlaceUse& use : process.peak.places) {
    json["peak_places"].push_back(
        {{"place", use.place}, {"allocations", use.allocations}, {"bytes", use.bytes.value()}});
  }
  json["phases"] = markers_of(recording.trace);
  json["reads"] = Json::array();
  for (const DeviceRead& read : recording.reads) {
    json["reads"].push_back({{"place", read.place},
                             {"count", read.count},
                             {"bytes", read.size.value()},
                             {"first_byte", read.first}});
  }
  json["growing_places"] = Json::array();
  for (const PlaceGrowth& growth : process.growing) {
    json["growing_places"].push_back(
        {{"place", growth.place}, {"bytes_a_step", growth.a_step.value()}});
  }
  put_kept(process.kept, recording.trace, json);
  put_time(process.time, json);
  json["stopped"] = recording.stopped;
  if (process.failure) json["out_of_memory"] = json_of(*process.failure);
  if (!process.file.empty()) json["file"] = process.file;
  return json;
}

}  // namespace

std::string recording_json(const ProgramRun& program, const Question& question) {
  return text_for(question, [&] {
    Json json = new_answer();
    json["command"] = program.command;
    if (ran_out(program) || (came_to_its_end(program) && !program.processes.empty())) {
      json["fits"] = !ran_out(program);
    } else {
      put_null(json, "fits", "the program did not come to an end with what it took on record");
    }
    json["gpu"] = program.gpu;
    json["capacity_bytes"] = program.capacity.value();
    json["context_bytes"] = program.context.value();
    json["exit_code"] = program.exit_code;
    json["processes"] = Json::array();
    for (const ProcessRun& process : program.processes) {
      json["processes"].push_back(json_of(program, process));
    }
    json["unanswered"] = program.unanswered;
    json["taken_as_0"] = program.taken_as_0;
    json["masks_keep_all"] = program.masks_keep_all;
    json["provenance"] = {{"method", "record"}, {"versions", {{"memest", question.version}}}};
    return json;
  });
}

}  // namespace memest
