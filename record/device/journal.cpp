#include "device/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

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

}  // namespace

void give_up(std::string_view sentence) {
  append("fault " + std::string(sentence));
  std::fprintf(stderr, "memest record: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
  std::fflush(nullptr);
  _exit(kExitEnvironment);
}

void note_unanswered(std::string_view name) {
  static std::mutex mutex;
  static auto* const known = new std::set<std::string, std::less<>>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known->emplace(name).second) append("unanswered " + std::string(name));
}

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
