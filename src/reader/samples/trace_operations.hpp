// The events of an allocator trace as they are written: a letter and its operands.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// The form of an operand behind an operation's letter.
enum class Operand : std::uint8_t { none, id, size, stream, address, block };

struct Operation {
  char letter = '\0';
  TraceEventKind kind = TraceEventKind::marker;
  std::array<Operand, 3> operands{};
  std::string_view form;
};
// TraceEntry::Action (c10/core/CachingDeviceAllocator.h): ALLOC, FREE_COMPLETED, and FREE_REQUESTED
// of a block that record_stream lent to another stream; OOM; SEGMENT_ALLOC, SEGMENT_FREE,
// SEGMENT_MAP and SEGMENT_UNMAP. empty_cache and reset_peak_memory_stats are calls of the program.
inline constexpr std::array<Operation, 11> kOperations = {{
    {'a',
     TraceEventKind::allocate,
     {Operand::id, Operand::size, Operand::stream},
     "a ID SIZE STREAM"},
    {'f', TraceEventKind::free, {Operand::id}, "f ID"},
    {'q', TraceEventKind::free_when_done, {Operand::id}, "q ID"},
    {'o', TraceEventKind::out_of_memory, {Operand::size, Operand::stream}, "o SIZE STREAM"},
    {'e', TraceEventKind::empty_cache, {}, "e"},
    {'r', TraceEventKind::reset_peaks, {}, "r"},
    {'S',
     TraceEventKind::segment_obtained,
     {Operand::address, Operand::size, Operand::stream},
     "S ADDRESS SIZE STREAM"},
    {'s',
     TraceEventKind::segment_returned,
     {Operand::address, Operand::size, Operand::stream},
     "s ADDRESS SIZE STREAM"},
    {'M',
     TraceEventKind::mapped,
     {Operand::address, Operand::size, Operand::stream},
     "M ADDRESS SIZE STREAM"},
    {'U',
     TraceEventKind::unmapped,
     {Operand::address, Operand::size, Operand::stream},
     "U ADDRESS SIZE STREAM"},
    {'l', TraceEventKind::owner, {Operand::block}, "l BLOCK"},
}};

}  // namespace memest
