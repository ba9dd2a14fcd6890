#include "memest/reader/read_run.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

#include "memest/reader/read_trace.hpp"
#include "reader/samples/snapshot.hpp"
#include "reader/samples/usage_log.hpp"
#include "reader/text/gzip.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 30U;
constexpr std::string_view kTraceSign = "# allocator trace";

template <class Run>
Checked<std::optional<RecordedRun>> as_run(Checked<Run> read) {
  if (!read.ok()) return read.diagnostics();
  return std::optional<RecordedRun>(std::move(read).value());
}

}  // namespace

Checked<std::optional<RecordedRun>> find_run(const std::string& path) {
  std::error_code unknown;
  // A device or a pipe can be read once, and is a spec's.
  if (!std::filesystem::is_regular_file(path, unknown)) return std::optional<RecordedRun>();
  const Checked<std::shared_ptr<const SourceText>> source = read_compressed(path, kMostText);
  if (!source.ok()) return source.diagnostics();
  return find_run(source.value());
}

Checked<std::optional<RecordedRun>> find_run(const std::shared_ptr<const SourceText>& source) {
  if (is_pickle(source->text)) return as_run(read_snapshot(source));
  if (source->text.starts_with(kTraceSign)) return as_run(read_trace(source));
  if (const auto log = find_log_form(source->text)) return as_run(read_usage_log(source, *log));
  return std::optional<RecordedRun>();
}

}  // namespace memest
