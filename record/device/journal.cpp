#include "device/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "device/settings.hpp"

namespace memest::record {
namespace {

constexpr int kExitEnvironment = 3;

std::atomic<ReadListener> read_listener{nullptr};

/// One write a line: several processes append to one file.
void append(std::string line) {
  line += '\n';
  const int file =
      open(settings().journal.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const auto written = write(file, line.data(), line.size());
  close(file);
}

/// A line of the journal, once.
void append_once(std::string line) {
  static std::mutex mutex;
  static auto* const known = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known->insert(line).second) append(std::move(line));
}

}  // namespace

void give_up(std::string_view sentence) {
  append("fault " + std::string(sentence));
  std::fprintf(stderr, "memest record: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
  std::fflush(nullptr);
  _exit(kExitEnvironment);
}

void note_unanswered(std::string_view name) { append_once("unanswered " + std::string(name)); }

void note_zero(std::string_view sizes) { append_once("zero " + std::string(sizes)); }

void note_use() {
  static std::once_flag once;
  std::call_once(once, [] { append("used " + std::to_string(getpid())); });
}

void listen_to_reads(ReadListener listener) { read_listener = listener; }

void note_read(const void* host, std::size_t bytes) {
  if (const ReadListener listener = read_listener; listener != nullptr) {
    listener(bytes, *static_cast<const unsigned char*>(host));
  }
  if (settings().strict) give_up("a value is read back from the device, which --strict forbids");
}

}  // namespace memest::record
