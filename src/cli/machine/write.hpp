// The last step of a command: its text reaches a stream or a file, whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace memest {

/// Writes `text` to a stream. A reader that has gone away (`| head`) is no error; anything else is
/// an EnvironmentError.
void write_stream(std::FILE* stream, std::string_view text);

/// Writes `text` beside `path` and renames it there, so that no reader ever sees half of it and a
/// failure leaves the old file. A file that is replaced keeps its permissions; one that may not be
/// written is not. A device or a pipe is written as it is. Throws EnvironmentError.
void write_file(const std::string& path, std::string_view text);

/// Makes the folder `path` and those around it, where they are not there. Throws EnvironmentError.
void make_folder(const std::string& path);

}  // namespace memest
