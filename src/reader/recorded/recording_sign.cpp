#include "reader/recorded/recording_sign.hpp"

#include <filesystem>

#include "reader/catalog/named_texts.hpp"
#include "reader/samples/snapshot.hpp"
#include "reader/text/gzip.hpp"

namespace memest {
namespace {

constexpr std::string_view kTraceBegins = "# allocator trace";
constexpr std::size_t kLooked = std::size_t{1} << 16U;  // bytes; a spec of a recording has few keys

RecordingSign sign_in(std::string_view text) {
  if (is_recording(text)) return RecordingSign::recording;
  return text.find(kRecordingKey) != text.npos ? RecordingSign::spec : RecordingSign::none;
}

}  // namespace

bool is_recording(std::string_view text) {
  return text.starts_with(kTraceBegins) || is_pickle(text);
}

RecordingSign sign_of(const std::string& file, const ReadRequest& request) {
  if (const SourcePointer text = find_text(request, file)) return sign_in(text->text);
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return RecordingSign::none;
  return sign_in(first_bytes(file, kLooked));
}

}  // namespace memest
