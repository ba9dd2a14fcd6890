// How a file that is a recording, or a spec of one, is told from others before it is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memest/reader/read_job.hpp"

namespace memest {

/// The key of a spec that names a recording in the place of a model.
inline constexpr std::string_view kRecordingKey = "recording";

enum class RecordingSign : std::uint8_t {
  none,
  recording,  ///< an allocator trace, or PyTorch's memory snapshot
  spec        ///< a text that may have the key: it has the word
};

/// Whether a text begins as an allocator trace or as PyTorch's memory snapshot.
bool is_recording(std::string_view text);

/// The sign of a file that a request names: of its texts, else of a regular file. A pipe, which can
/// be read once, is none.
RecordingSign sign_of(const std::string& file, const ReadRequest& request);

}  // namespace memest
