// What a program did that its answer must name: calls without an answer, and values read back from
// the device.
#pragma once

#include <cstddef>
#include <string_view>

namespace memest::record {

/// Ends the program with exit code 3 and a sentence: it cannot be recorded.
[[noreturn]] void give_up(std::string_view sentence);

/// Writes a line into the journal, once for each name.
void note_unanswered(std::string_view name);
/// Once for each: sizes that a program asked for, and was told 0.
void note_zero(std::string_view sizes);

/// The process has taken memory of the device: it is to have a trace.
void note_use();

/// Told of every value that the program reads back: how many bytes, and the first of them. The
/// Python hook sets it, to name the line; null: nobody listens.
using ReadListener = void (*)(std::size_t bytes, int first);
void listen_to_reads(ReadListener listener);
void note_read(const void* host, std::size_t bytes);

}  // namespace memest::record
