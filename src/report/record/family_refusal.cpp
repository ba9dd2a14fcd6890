#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/report/record/family_report.hpp"
#include "memest/units/text.hpp"
#include "report/record/phase_text.hpp"

namespace memest {
namespace {

constexpr std::int64_t kKernelTile = 128;

std::string whole_bytes_text(Bytes bytes) { return grouped(bytes.value()) + " B"; }

std::string at_place(const std::string& place) {
  return place.empty() ? " in autograd's own thread" : " at " + place;
}

/// "allocation 17 of 4,096 B on stream 0 at train.py:3 <module> (line 120)".
std::string event_text(const EventAt& at) {
  if (!at.event) return "it has ended";
  const TraceEvent& event = *at.event;
  const auto text = [&]() -> std::string {
    switch (event.kind) {
      case TraceEventKind::allocate:
        return fmt::format("allocation {} of {} on stream {}{}", event.number,
                           whole_bytes_text(event.size), event.stream, at_place(at.name));
      case TraceEventKind::free:
        return fmt::format("allocation {}{} is freed", event.number, at_place(at.name));
      case TraceEventKind::free_when_done:
        return fmt::format("allocation {}{} is freed behind another stream", event.number,
                           at_place(at.name));
      case TraceEventKind::empty_cache:
        return "the cache is emptied";
      case TraceEventKind::reset_peaks:
        return "the peaks are reset";
      case TraceEventKind::marker:
        return "the end of " + at.name;
      case TraceEventKind::out_of_memory:
        return fmt::format("a request of {} fails{}", whole_bytes_text(event.size),
                           at_place(at.name));
      case TraceEventKind::segment_obtained:
      case TraceEventKind::segment_returned:
      case TraceEventKind::mapped:
      case TraceEventKind::unmapped:
      case TraceEventKind::owner:
        break;
    }
    unreachable("an event that no program decides");
  };
  return fmt::format("{} (line {})", text(), event.line);
}

std::string names_text(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " and "));
}

/// "4,096 B at batch=2 seq=512 (line 120), ...".
std::string sizes_text_of(const FamilyRefusal& refusal, const std::vector<std::string>& names) {
  std::string text;
  for (const EventAt& at : refusal.events) {
    text +=
        fmt::format("{}{} at {} (line {})", text.empty() ? "" : ", ",
                    whole_bytes_text(at.event->size), point_text(names, at.point), at.event->line);
  }
  return text;
}

/// "allocation 17 at train.py:3 <module>, in the forward of step 1,".
std::string request_text(const FamilyRefusal& refusal) {
  const EventAt& at = refusal.events.front();
  return fmt::format("allocation {}{}, {},", at.event->number, at_place(at.name),
                     phase_text(refusal.phase));
}

std::string sentence_of(const FamilyRefusal& refusal, const std::vector<std::string>& names) {
  const EventAt& first = refusal.events.front();
  switch (refusal.fault) {
    case FamilyFault::other_event: {
      const EventAt& other = refusal.events.back();
      return fmt::format("the runs part {}: at {} comes {}; at {} {}", phase_text(refusal.phase),
                         point_text(names, first.point), event_text(first),
                         point_text(names, other.point), event_text(other));
    }
    case FamilyFault::ran_out:
      return fmt::format(
          "at {}, {}, {}: what a program does behind a request that fails is not "
          "what it does at other sizes",
          point_text(names, first.point), phase_text(refusal.phase), event_text(first));
    case FamilyFault::no_formula:
      return fmt::format("no formula in {} gives the size of {} at every point: {}",
                         names_text(names), request_text(refusal), sizes_text_of(refusal, names));
    case FamilyFault::held_out_size: {
      const auto value = refusal.formula->evaluate(first.point);
      return fmt::format(
          "{} takes {}, the point that was held out, where the formula {} of the others gives {}",
          request_text(refusal), sizes_text_of(refusal, names), refusal.formula->text(names),
          value ? whole_bytes_text(Bytes(*value)) : "no whole number");
    }
    case FamilyFault::held_out_peaks: {
      const auto peaks = [](const RecordedPeaks& one) {
        return fmt::format("{} allocated and {} reserved", whole_bytes_text(one.allocated),
                           one.reserved ? whole_bytes_text(*one.reserved) : "no bytes known");
      };
      return fmt::format(
          "at {}, which was held out, every request is equal, and the model of the allocator comes "
          "to {} where PyTorch had {}",
          point_text(names, first.point), peaks(refusal.played), peaks(refusal.recorded));
    }
  }
  unreachable("a fault beyond the enum");
}

/// A number whose values are no multiples of what kernels pad to, though they are as large.
std::string unaligned(const std::vector<VariedSize>& varied) {
  for (const VariedSize& size : varied) {
    const bool large = size.values.back() >= kKernelTile;
    if (large && common_unit(size) % kKernelTile != 0) return size.name;
  }
  return "";
}

std::string hint_of(const FamilyRefusal& refusal, const std::vector<VariedSize>& varied,
                    const std::string& recordings) {
  const std::string kept = recordings.empty()
                               ? "--output FILE keeps the recordings that these lines are of"
                               : "the recordings that these lines are of: " + recordings;
  switch (refusal.fault) {
    case FamilyFault::other_event:
      return kept;
    case FamilyFault::ran_out:
      return "--memory 1TiB records what the program needs";
    case FamilyFault::no_formula:
    case FamilyFault::held_out_size:
      if (const std::string name = unaligned(varied); !name.empty()) {
        return "kernels pad sizes to multiples of " + std::to_string(kKernelTile) +
               ": vary by them, as --vary " + name + "=512,640,896";
      }
      return kept;
    case FamilyFault::held_out_peaks:
      return "memest replay of the recording of that point alone says where they part";
  }
  unreachable("a fault beyond the enum");
}

}  // namespace

Diagnostic refusal_of(const FamilyRefusal& refusal, const std::vector<VariedSize>& varied,
                      const std::string& recordings) {
  std::vector<std::string> names;
  for (const VariedSize& size : varied) names.push_back(size.name);
  return {
      Severity::error, {}, sentence_of(refusal, names), hint_of(refusal, varied, recordings), true};
}

}  // namespace memest
